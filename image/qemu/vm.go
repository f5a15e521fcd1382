package qemu

import (
	"context"
	"fmt"
)

// Kill takes the VM away at once, as pulling the plug does, and waits until it
// is gone. QEMU flushes no disk then.
func (vm *VM) Kill() {
	vm.cancel()
	<-vm.ended
	vm.close()
}

// Wait waits until the VM ends by itself, or ctx.
func (vm *VM) Wait(ctx context.Context) error {
	select {
	case <-vm.ended:
		vm.close()
		return vm.err
	case <-ctx.Done():
		return fmt.Errorf("the virtual machine still runs: %w", context.Cause(ctx))
	}
}

// Ended is closed when the VM has ended.
func (vm *VM) Ended() <-chan struct{} { return vm.ended }

func (vm *VM) close() {
	vm.cancel()
	if vm.qmp != nil {
		vm.qmp.close()
	}
}

// PowerButton presses the power button.
func (vm *VM) PowerButton(ctx context.Context) error {
	return vm.Command(ctx, "system_powerdown", nil, nil)
}

// Reset presses the reset button: the machine starts anew at once, its disks
// keep what they were sent.
func (vm *VM) Reset(ctx context.Context) error { return vm.Command(ctx, "system_reset", nil, nil) }

// Pause stops the processors; Resume lets them go on.
func (vm *VM) Pause(ctx context.Context) error  { return vm.Command(ctx, "stop", nil, nil) }
func (vm *VM) Resume(ctx context.Context) error { return vm.Command(ctx, "cont", nil, nil) }

// Screenshot writes the screen to a PNG file.
func (vm *VM) Screenshot(ctx context.Context, file string) error {
	return vm.Command(ctx, "screendump", map[string]any{"filename": file, "format": "png"}, nil)
}

// Command sends a QMP command. The answer goes to result, which may be nil.
func (vm *VM) Command(ctx context.Context, name string, args, result any) error {
	return vm.qmp.command(ctx, name, args, result)
}

// Event waits for a QMP event by name, among those since the start that no call
// of Event took yet.
func (vm *VM) Event(ctx context.Context, name string) error { return vm.qmp.event(ctx, name) }

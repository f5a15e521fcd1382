package qemu

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// Exit status of QEMU when the guest writes v to isa-debug-exit's port: v<<1|1.
const probeSays, probeStatus = 0x10, 0x10<<1 | 1

// probeTime is how long a guest of one boot sector may take under KVM.
const probeTime = 4 * time.Second

var accel struct {
	sync.Mutex
	found string
}

// Accel is "kvm" when a probe guest answers under KVM in a few seconds, else
// "tcg". It asks once: /dev/kvm can be there, open, and still fail or hang
// every real guest, as nested virtualisation does on some machines.
func Accel(ctx context.Context) string {
	accel.Lock()
	defer accel.Unlock()
	if accel.found == "" {
		accel.found = "tcg"
		if _, err := os.Stat("/dev/kvm"); err == nil && probe(ctx, "kvm") == nil {
			accel.found = "kvm"
		}
	}
	return accel.found
}

// accelArgs are the same in the probe and in a machine: which processor is
// shown decides whether KVM works.
func accelArgs(accel string) []string {
	if accel == "kvm" {
		return []string{"-accel", "kvm", "-cpu", "host"}
	}
	return []string{"-accel", "tcg,thread=multi", "-cpu", "max"}
}

// probe runs the firmware and a boot sector that says it is there.
func probe(ctx context.Context, accel string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	dir, err := os.MkdirTemp("", "probe")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	sector := make([]byte, 1<<20) // SeaBIOS reads no smaller disk
	copy(sector, []byte{
		0xb0, probeSays, // mov al, 0x10
		0xe6, 0xf4, // out 0xf4, al
		0xf4, // hlt
	})
	sector[510], sector[511] = 0x55, 0xaa
	disk := filepath.Join(dir, "disk")
	if err := os.WriteFile(disk, sector, 0o600); err != nil {
		return err
	}
	args := append(accelArgs(accel), "-machine", "q35", "-m", "64", "-smp", "2", "-nodefaults", "-display", "none", "-no-reboot",
		"-drive", "format=raw,file="+disk, "-device", "isa-debug-exit,iobase=0xf4,iosize=4")
	err = exec.CommandContext(ctx, program, args...).Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == probeStatus {
		return nil
	}
	if err == nil {
		err = errors.New("the probe guest said nothing")
	}
	return err
}

package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const program = "qemu-system-x86_64"

// Debian's ovmf package.
const (
	ovmfCode = "/usr/share/OVMF/OVMF_CODE_4M.fd"
	ovmfVars = "/usr/share/OVMF/OVMF_VARS_4M.fd"
)

// The network that a guest sees: documentation addresses, which the box's
// network policy takes for public ones, as it refuses private ones.
const (
	GuestNet  = "203.0.113.0/24"
	HostAddr  = "203.0.113.2"
	GuestAddr = "203.0.113.15"
)

// Machine says what to start.
type Machine struct {
	Dir      string // folder for sockets, serial.log, qemu.log and the firmware's variables; made when missing
	MemoryMB int    // default 2048
	CPUs     int    // default 2
	Accel    string // "kvm" or "tcg"; "" asks Accel

	// Kernel, Initrd and Cmdline start a kernel directly. Without Kernel the
	// firmware starts what is on the first disk: UEFI from an ESP, BIOS a boot sector.
	Kernel, Initrd, Cmdline string
	BIOS                    bool // SeaBIOS and not OVMF, where Kernel is ""

	Disks    []Disk
	Forward  []Forward
	NoNet    bool   // no network card
	Offline  bool   // a network that leads nowhere but through Forward
	Display  bool   // a screen to take pictures of
	Watchdog bool   // an i6300esb that resets the machine
	NoReboot bool   // the VM ends where a machine would start again
	RTC      string // start of the clock as 2006-01-02T15:04:05, default now
	Args     []string
}

// Disk is a disk, virtio unless Bus says otherwise. Flushes of the guest, and only those, reach it: the
// disk tells the guest of a write cache, and QEMU adds nothing of its own.
type Disk struct {
	File     string // raw image
	NBD      string // or Unix socket of a server
	Serial   string // as the guest sees it, at most 20 characters
	ReadOnly bool
	Bus      string // "" or "virtio", "nvme"
}

// Forward relays a port of 127.0.0.1 to one of the guest.
type Forward struct {
	Host  int // 0 chooses one
	Guest int
}

// VM is a machine that was started.
type VM struct {
	Dir     string
	Accel   string
	Serial  *Serial
	Forward []Forward // with the ports chosen

	qmp    *qmp
	ended  chan struct{}
	err    error // how the process ended; read after ended
	killed bool
	cancel context.CancelFunc
}

// Start starts a machine. It is killed when ctx ends.
func Start(ctx context.Context, m Machine) (*VM, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, errors.New("qemu-system-x86_64 is missing: apt-get install qemu-system-x86 ovmf")
	}
	if err := os.MkdirAll(m.Dir, 0o700); err != nil {
		return nil, err
	}
	vm := &VM{Dir: m.Dir, Accel: m.Accel, ended: make(chan struct{})}
	if vm.Accel == "" {
		vm.Accel = Accel(ctx)
	}
	for _, f := range m.Forward {
		if f.Host == 0 {
			if f.Host, err = freePort(); err != nil {
				return nil, err
			}
		}
		vm.Forward = append(vm.Forward, f)
	}
	args, err := m.args(vm)
	if err != nil {
		return nil, err
	}
	// A socket's path may have 107 bytes: it is made in a folder with a short
	// name and QEMU is handed the listener's path there.
	sockets, err := os.MkdirTemp("", "vm")
	if err != nil {
		return nil, err
	}
	control := filepath.Join(sockets, "qmp")
	listen, err := net.Listen("unix", control)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(sockets)
	defer listen.Close()
	args = append(args, "-chardev", "socket,id=qmp,path="+control, "-mon", "chardev=qmp,mode=control")

	ctx, vm.cancel = context.WithCancel(ctx)
	if err := vm.run(ctx, path, args); err != nil {
		vm.cancel()
		return nil, err
	}
	if vm.qmp, err = vm.connect(listen); err != nil {
		vm.Kill()
		return nil, err
	}
	return vm, nil
}

// run starts the process and leaves a goroutine that waits for it.
func (vm *VM) run(ctx context.Context, path string, args []string) error {
	logs, err := os.Create(filepath.Join(vm.Dir, "qemu.log"))
	if err != nil {
		return err
	}
	defer logs.Close()
	fmt.Fprintf(logs, "%s %s\n", path, strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stderr = logs
	// A group of its own: Ctrl-C is for us to act on.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if vm.Serial, err = newSerial(filepath.Join(vm.Dir, "serial.log"), stdin); err != nil {
		return err
	}
	cmd.Stdout = vm.Serial
	started := make(chan error)
	go func() {
		// Pdeathsig comes when the thread that started the child ends
		// (golang/go#27505), so this one must stay until the child has ended.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		vm.err = cmd.Wait()
		vm.Serial.end()
		close(vm.ended)
	}()
	return <-started
}

// connect takes QEMU's own connection and speaks QMP on it.
func (vm *VM) connect(listen net.Listener) (*qmp, error) {
	type result struct {
		c   net.Conn
		err error
	}
	got := make(chan result, 1)
	go func() {
		c, err := listen.Accept()
		got <- result{c, err}
	}()
	select {
	case r := <-got:
		if r.err != nil {
			return nil, r.err
		}
		q, err := newQMP(r.c)
		if err != nil { // it connects before it looks at its other arguments
			r.c.Close()
			vm.cancel()
			<-vm.ended
			return nil, vm.startError()
		}
		return q, nil
	case <-vm.ended:
		return nil, vm.startError()
	case <-time.After(20 * time.Second):
		return nil, errors.New("qemu doesn't speak after 20 s")
	}
}

// startError tells what QEMU wrote before it gave up.
func (vm *VM) startError() error {
	text, _ := os.ReadFile(filepath.Join(vm.Dir, "qemu.log"))
	_, said, _ := strings.Cut(string(text), "\n")
	return fmt.Errorf("qemu did not start (%v): %s", vm.err, strings.TrimSpace(said))
}

func (m Machine) args(vm *VM) ([]string, error) {
	a := []string{
		"-machine", "q35", "-nodefaults", "-no-user-config", "-display", "none",
		"-m", strconv.Itoa(or(m.MemoryMB, 2048)), "-smp", strconv.Itoa(or(m.CPUs, 2)),
		"-chardev", "stdio,id=serial,signal=off", "-serial", "chardev:serial",
		"-device", "virtio-rng-pci",
	}
	a = append(a, accelArgs(vm.Accel)...)
	switch {
	case m.Kernel != "":
		a = append(a, "-kernel", m.Kernel, "-append", m.Cmdline)
		if m.Initrd != "" {
			a = append(a, "-initrd", m.Initrd)
		}
	case !m.BIOS:
		vars, err := m.firmwareVars()
		if err != nil {
			return nil, err
		}
		a = append(a,
			"-drive", "if=pflash,unit=0,format=raw,readonly=on,file="+ovmfCode,
			"-drive", "if=pflash,unit=1,format=raw,file="+vars)
	}
	for i, d := range m.Disks {
		a = append(a, d.args(i)...)
	}
	if !m.NoNet {
		n := "user,id=net0,net=" + GuestNet + ",host=" + HostAddr + ",dns=203.0.113.3,dhcpstart=" + GuestAddr
		if m.Offline {
			n += ",restrict=on"
		}
		for _, f := range vm.Forward {
			n += fmt.Sprintf(",hostfwd=tcp:127.0.0.1:%d-:%d", f.Host, f.Guest)
		}
		a = append(a, "-netdev", n, "-device", "virtio-net-pci,netdev=net0,romfile=")
	}
	if m.Display {
		a = append(a, "-vga", "none", "-device", "virtio-vga", "-device", "qemu-xhci", "-device", "usb-kbd")
	} else {
		a = append(a, "-vga", "none")
	}
	if m.Watchdog {
		a = append(a, "-device", "i6300esb", "-action", "watchdog=reset")
	}
	if m.NoReboot {
		a = append(a, "-action", "reboot=shutdown")
	}
	if m.RTC != "" {
		a = append(a, "-rtc", "base="+m.RTC)
	}
	return append(a, m.Args...), nil
}

// firmwareVars is this machine's own copy of the firmware's variables; it
// stays, as a board's does.
func (m Machine) firmwareVars() (string, error) {
	own := filepath.Join(m.Dir, "vars.fd")
	if _, err := os.Stat(own); err == nil {
		return own, nil
	}
	blank, err := os.ReadFile(ovmfVars)
	if err != nil {
		return "", fmt.Errorf("UEFI firmware is missing: apt-get install ovmf (%w)", err)
	}
	return own, os.WriteFile(own, blank, 0o600)
}

func (d Disk) args(i int) []string {
	node := fmt.Sprintf("disk%d", i)
	file := map[string]any{"driver": "file", "filename": d.File, "locking": "off"}
	if d.NBD != "" {
		file = map[string]any{"driver": "nbd", "server": map[string]string{"type": "unix", "path": d.NBD}}
	}
	// no-flush off and the device's write-cache on are QEMU's writeback: the
	// guest's flushes are passed on. Write-through would add a flush to each
	// write, and unsafe would swallow the guest's.
	block, err := json.Marshal(map[string]any{
		"node-name": node, "driver": "raw", "file": file, "read-only": d.ReadOnly, "discard": "unmap",
		"cache": map[string]bool{"direct": false, "no-flush": false},
	})
	if err != nil {
		panic(err) // strings and bools
	}
	dev := fmt.Sprintf("virtio-blk-pci,drive=%s,write-cache=on,werror=report,rerror=report", node)
	if d.Bus == "nvme" { // it has a write cache by itself
		dev = "nvme,drive=" + node
	}
	if i == 0 {
		dev += ",bootindex=1"
	}
	if d.Serial != "" {
		dev += ",serial=" + d.Serial
	}
	return []string{"-blockdev", string(block), "-device", dev}
}

func or(v, otherwise int) int {
	if v == 0 {
		return otherwise
	}
	return v
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

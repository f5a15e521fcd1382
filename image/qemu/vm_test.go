package qemu

import (
	"context"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// echo is a boot sector that says "up" on the serial line and then gives back
// what it is sent.
func echo(t *testing.T) string {
	t.Helper()
	sector := make([]byte, 1<<20)
	copy(sector, []byte{
		0xba, 0xf8, 0x03, // mov dx, 0x3f8
		0xb0, 'u', 0xee, // mov al, 'u'; out dx, al
		0xb0, 'p', 0xee,
		0xb0, '\n', 0xee,
		0xba, 0xfd, 0x03, // wait: mov dx, 0x3fd
		0xec,       // in al, dx
		0xa8, 0x01, // test al, 1
		0x74, 0xfb, // jz to the in
		0xba, 0xf8, 0x03, // mov dx, 0x3f8
		0xec,       // in al, dx
		0xee,       // out dx, al
		0xeb, 0xf1, // jmp wait
	})
	sector[510], sector[511] = 0x55, 0xaa
	file := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(file, sector, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestMachine(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	vm, err := Start(ctx, Machine{
		Dir: t.TempDir(), MemoryMB: 64, BIOS: true, Display: true, NoReboot: true,
		Disks:   []Disk{{File: echo(t), ReadOnly: true, Serial: "boot"}},
		Forward: []Forward{{Guest: 80}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer vm.Kill()
	if vm.Forward[0].Host == 0 {
		t.Error("no port was chosen for the forward")
	}
	_, after, err := vm.Serial.Wait(ctx, 0, regexp.MustCompile(`up\n`))
	if err != nil {
		t.Fatal(err)
	}
	if err := vm.Serial.Send("ping 1\n"); err != nil {
		t.Fatal(err)
	}
	m, _, err := vm.Serial.Wait(ctx, after, regexp.MustCompile(`ping (\d)\n`))
	if err != nil || m[1] != "1" {
		t.Fatalf("%q, %v", m, err)
	}
	shot := filepath.Join(t.TempDir(), "screen.png")
	if err := vm.Screenshot(ctx, shot); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(shot)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if pic, err := png.Decode(f); err != nil || pic.Bounds().Dx() < 320 {
		t.Errorf("the screenshot is no picture: %v", err)
	}
	if err := vm.Command(ctx, "no-such-command", nil, nil); err == nil || !strings.Contains(err.Error(), "no-such-command") {
		t.Errorf("a wrong command: %v", err)
	}
	if err := vm.Reset(ctx); err != nil {
		t.Fatal(err)
	}
	if err := vm.Event(ctx, "SHUTDOWN"); err != nil { // a reset ends a machine with NoReboot
		t.Error(err)
	}
	if err := vm.Wait(ctx); err != nil {
		t.Error(err)
	}
	if _, _, err := vm.Serial.Wait(ctx, 0, regexp.MustCompile("never")); !Gone(err) {
		t.Errorf("waiting at a machine that is gone: %v", err)
	}
	log, err := os.ReadFile(filepath.Join(vm.Dir, "serial.log"))
	if err != nil || !strings.Contains(string(log), "ping 1") {
		t.Errorf("serial.log holds %q, %v", log, err)
	}
}

func TestStartTellsWhatQemuSays(t *testing.T) {
	_, err := Start(t.Context(), Machine{Dir: t.TempDir(), BIOS: true, Accel: "tcg", Args: []string{"-device", "nonsense"}})
	if err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("a wrong argument: %v", err)
	}
}

func TestEndOfContextKills(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	vm, err := Start(ctx, Machine{Dir: t.TempDir(), MemoryMB: 64, BIOS: true, Accel: "tcg", NoNet: true})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := vm.Wait(t.Context()); err == nil {
		t.Error("a killed machine ended well")
	}
}

// Accel has to come back in time whatever /dev/kvm does, and what it answers
// has to carry the probe guest.
func TestAccelAnswersInTime(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), probeTime+2*time.Second)
	defer cancel()
	found := Accel(ctx)
	if ctx.Err() != nil {
		t.Error("the probe takes longer than its limit")
	}
	if err := probe(t.Context(), found); err != nil {
		t.Errorf("the probe guest under %s: %v", found, err)
	}
}

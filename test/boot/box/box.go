package box

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"gurtos/image/build"
	"gurtos/image/qemu"
	"gurtos/test/boot/nbd"
)

// DataSize of a data disk that a test doesn't bring.
const DataSize = 8 << 30

// Setup says what to boot.
type Setup struct {
	Data     *nbd.Disk   // the data disk; nil for a blank one
	ReadOnly bool        // the data disk can't be written
	UEFI     bool        // by firmware from the UKI, as shipped; else the kernel directly, with the UKI's command line
	Words    string      // more words on the kernel's command line, where it is given directly
	More     []*nbd.Disk // further disks
	Image    build.Image // zero: the one built last
	NoData   bool        // no data disk at all
	Machine  qemu.Machine
}

// Box is a running box.
type Box struct {
	*API
	VM   *qemu.VM
	Data *nbd.Disk
	Dir  string // what is kept when the test fails

	t     testing.TB
	ctx   context.Context
	data  *nbd.Server
	read  int // place in the console's text behind the last match of Wait
	began time.Time
}

// Boot starts a box and comes back at once. The machine is gone when the test ends.
func Boot(t testing.TB, s Setup) *Box {
	t.Helper()
	img := s.Image
	if img.Kernel == "" {
		img = Built(t)
	}
	b := &Box{t: t, ctx: t.Context(), Dir: Keep(t), Data: s.Data, began: time.Now()}
	m := s.Machine
	m.Dir = filepath.Join(b.Dir, "vm")
	m.Watchdog, m.Display = true, true
	m.Forward = []qemu.Forward{{Guest: 80}}
	if !s.UEFI {
		m.Kernel, m.Initrd, m.Cmdline = img.Kernel, img.Initrd, img.Cmdline+" "+s.Words
	}
	m.Disks = append(m.Disks, qemu.Disk{File: img.Disk, ReadOnly: true, Serial: "gurtos-system"})
	if b.Data == nil && !s.NoData {
		b.Data = nbd.New(DataSize)
	}
	if b.Data != nil {
		b.Data.SetReadOnly(s.ReadOnly)
		b.data = serve(t, b.Data)
		m.Disks = append(m.Disks, qemu.Disk{NBD: b.data.Socket(), ReadOnly: s.ReadOnly, Serial: "gurtos-data"})
	}
	for i, d := range s.More {
		m.Disks = append(m.Disks, qemu.Disk{NBD: serve(t, d).Socket(), Serial: fmt.Sprintf("more-%d", i)})
	}
	vm, err := qemu.Start(context.WithoutCancel(b.ctx), m)
	if err != nil {
		t.Fatal(err)
	}
	b.VM = vm
	b.API = newAPI(t, fmt.Sprintf("http://127.0.0.1:%d", vm.Forward[0].Host), filepath.Join(b.Dir, "api.log"))
	t.Cleanup(func() {
		if t.Failed() {
			b.keep()
		}
		vm.Kill()
	})
	return b
}

func serve(t testing.TB, d *nbd.Disk) *nbd.Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "nbd") // a socket's path may have 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	s, err := nbd.Serve(d, filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		os.RemoveAll(dir)
	})
	return s
}

// keep leaves what tells why a test failed: serial.log is there already.
func (b *Box) keep() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), 30*time.Second)
	defer cancel()
	for what, err := range map[string]error{
		"picture of the screen": b.VM.Screenshot(ctx, filepath.Join(b.Dir, "screen.png")),
		"action log":            b.API.save(ctx, "/api/log", filepath.Join(b.Dir, "log.jsonl")),
		"data disk":             b.saveData(),
	} {
		if err != nil {
			b.t.Logf("the %s can't be kept: %v", what, err)
		}
	}
}

// saveData keeps the data disk as a sparse file that a box can be booted with.
func (b *Box) saveData() error {
	if b.Data == nil {
		return nil
	}
	return b.Data.Save(filepath.Join(b.Dir, "data.img"))
}

// limit is a context for something that takes d with KVM.
func (b *Box) limit(d time.Duration, what string) (context.Context, context.CancelFunc) {
	d = Limit(b.VM.Accel, d)
	return context.WithTimeoutCause(b.ctx, d, fmt.Errorf("%s took longer than %v", what, d))
}

// Wait waits for the console to say something after what was waited for last,
// and gives the match and its groups.
func (b *Box) Wait(pattern string) []string {
	b.t.Helper()
	ctx, cancel := b.limit(30*time.Second, "the console")
	defer cancel()
	m, after, err := b.VM.Serial.Wait(ctx, b.read, regexp.MustCompile(pattern))
	if err != nil {
		b.t.Fatal(err)
	}
	b.read = after
	return m
}

// Ready waits until the API answers and gives the time since the start.
func (b *Box) Ready() time.Duration {
	b.t.Helper()
	ctx, cancel := b.limit(30*time.Second, "booting")
	defer cancel()
	if err := b.API.ready(ctx, b.VM.Ended()); err != nil {
		b.t.Fatalf("the API doesn't answer: %v; the console ends with:\n%s", err, last(b.VM.Serial.Text(0), 20))
	}
	took := time.Since(b.began)
	if alarm := falseAlarm.FindString(b.VM.Serial.Text(0)); alarm != "" {
		b.t.Errorf("the console says %q", alarm)
	}
	return took
}

// falseAlarm is what a start may not say: of an initramfs whose end the kernel doesn't see, and of modules that init
// loads by names that the kernel has no more.
var falseAlarm = regexp.MustCompile(`Initramfs unpacking failed.*|init: load module.*`)

var pairLink = regexp.MustCompile(`(?i)pair\S*\s+https?://\S+?([0-9]{8})\b`)

// Pair makes this test an owner of the box, by the code that the console shows.
func (b *Box) Pair() {
	b.t.Helper()
	ctx, cancel := b.limit(15*time.Second, "the pairing link on the console")
	defer cancel()
	m, _, err := b.VM.Serial.Wait(ctx, 0, pairLink)
	if err != nil {
		b.t.Fatal(err)
	}
	var paired struct{ Token string }
	b.Do("POST", "/api/pair", map[string]string{"code": m[1], "name": "boot test"}, &paired)
	b.Token = paired.Token
}

// Cut cuts the power: the disk as the cut leaves it is given back, the machine is gone.
func (b *Box) Cut(seed uint64) *nbd.Disk {
	b.t.Helper()
	after, loss := b.data.Cut(seed)
	b.VM.Kill()
	b.t.Log(loss)
	return after
}

// PowerButton presses the button and waits until the machine has switched
// itself off. As a person does, it presses again when nothing happens: the
// button's driver is among those that load after the box's first answer.
func (b *Box) PowerButton() {
	b.t.Helper()
	ctx, cancel := b.limit(30*time.Second, "hearing the power button")
	defer cancel()
	stopping := regexp.MustCompile(`state\s+stopping`)
	for heard := false; !heard; {
		if err := b.VM.PowerButton(ctx); err != nil && !qemu.Gone(err) {
			b.t.Fatal(err)
		}
		again, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, _, err := b.VM.Serial.Wait(again, b.read, stopping)
		cancel()
		heard = err == nil || qemu.Gone(err)
		if err := context.Cause(ctx); err != nil {
			b.t.Fatal(err)
		}
	}
	b.Off()
}

// Type types letters and spaces on the box's keyboard, and presses Enter, until the
// console says something. As a person does, it types again when nothing happens: the
// keyboard's driver may load only then.
func (b *Box) Type(text, until string) {
	b.t.Helper()
	ctx, cancel := b.limit(30*time.Second, "hearing what is typed")
	defer cancel()
	for {
		for _, c := range text + "\n" {
			code := map[rune]string{' ': "spc", '\n': "ret"}[c]
			if code == "" {
				code = string(c)
			}
			keys := map[string]any{"keys": []map[string]string{{"type": "qcode", "data": code}}}
			if err := b.VM.Command(ctx, "send-key", keys, nil); err != nil {
				b.t.Fatal(err)
			}
		}
		again, cancel := context.WithTimeout(ctx, 10*time.Second)
		_, after, err := b.VM.Serial.Wait(again, b.read, regexp.MustCompile(until))
		cancel()
		if err == nil {
			b.read = after
			return
		}
		if err := context.Cause(ctx); err != nil {
			b.t.Fatal(err)
		}
	}
}

// Off waits until the machine has switched itself off.
func (b *Box) Off() {
	b.t.Helper()
	ctx, cancel := b.limit(30*time.Second, "switching off")
	defer cancel()
	if err := b.VM.Wait(ctx); err != nil {
		b.t.Fatalf("%v; the console ends with:\n%s", err, last(b.VM.Serial.Text(0), 20))
	}
}

// last is the end of a text, in lines.
func last(text string, lines int) string {
	for at := len(text) - 1; at >= 0; at-- {
		if text[at] == '\n' {
			if lines--; lines < 0 {
				return text[at+1:]
			}
		}
	}
	return text
}

var errEnded = errors.New("the machine has ended")

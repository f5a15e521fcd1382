package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/image/build"
	"gurtos/image/layout"
	"gurtos/image/qemu"
	"gurtos/image/step"
)

// Options say how to run the box.
type Options struct {
	Dir      string // .box: the data disk and what else stays
	Fresh    bool   // a new data disk
	Port     int    // on this machine's loopback
	MemoryMB int
	CPUs     int
	Screen   bool // with a screen, which can be photographed over QMP
	Tell     io.Writer
	Show     *step.Show
}

// dataSize is the data disk's size: it takes the room only that is written.
const dataSize = 16 << 30

// The longest that a box may take until its API answers: emulated, on a busy machine.
const bootTime = 5 * time.Minute

// stopTime is how long a box may take to end in order.
const stopTime = time.Minute

// Run runs the box until it powers off or ctx ends; then it is shut down in order. A second Ctrl-C ends it at once.
func Run(ctx context.Context, img build.Image, o Options) error {
	l, err := listen(o.Port)
	if err != nil {
		return err
	}
	defer l.Close()
	unlock, err := o.lock()
	if err != nil {
		return err
	}
	defer unlock()
	data, err := o.dataDisk()
	if err != nil {
		return err
	}
	vmDir := filepath.Join(o.Dir, "vm")
	if err := os.RemoveAll(filepath.Join(vmDir, "serial.log")); err != nil {
		return err
	}
	line := o.Show.Begin("the box")
	line.Say("looking whether KVM works here")
	accel := qemu.Accel(ctx)
	vm, err := qemu.Start(context.WithoutCancel(ctx), qemu.Machine{
		Dir: vmDir, MemoryMB: o.MemoryMB, CPUs: o.CPUs, Accel: accel, Display: o.Screen, Watchdog: true,
		Disks:   []qemu.Disk{{File: img.Disk, ReadOnly: true, Serial: "gurtos-system"}, {File: data, Serial: "gurtos-data"}},
		Forward: []qemu.Forward{{Guest: 80}},
	})
	if err != nil {
		line.End(err)
		return err
	}
	defer vm.Kill()
	line.Say("its firmware starts")
	r := newRelay(l, fmt.Sprintf("127.0.0.1:%d", vm.Forward[0].Host))
	defer r.close()

	b := &box{url: fmt.Sprintf("http://127.0.0.1:%d", o.Port), vm: vm, token: filepath.Join(o.Dir, "token")}
	err = b.answers(ctx, line)
	line.End(err)
	if err == nil {
		b.welcome(ctx, o.Tell, accel)
		select {
		case <-ctx.Done():
		case <-vm.Ended():
			if err := vm.Wait(context.Background()); err != nil {
				return fmt.Errorf("QEMU ended and not by the box's doing (%w). Its data is in %s as a power cut leaves it: start it again", err, o.Dir)
			}
			fmt.Fprintln(o.Tell, "The box has powered off.")
			return nil
		}
	}
	if ctx.Err() == nil || qemu.Gone(err) {
		return fmt.Errorf("%w (its console: %s)", err, filepath.Join(vmDir, "serial.log"))
	}
	return shutDown(vm, o)
}

func shutDown(vm *qemu.VM, o Options) (err error) {
	line := o.Show.Begin("shutting the box down")
	defer func() { line.End(err) }()
	line.Say("Ctrl-C again ends it at once")
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	if err := vm.PowerButton(ctx); err != nil {
		return err
	}
	if err := vm.Wait(ctx); err != nil {
		return errors.New("it did not end in order and was switched off; its data is as after a power cut")
	}
	return nil
}

// lock keeps a second box, on another port, off the same data disk: two that
// write to it at once would destroy it.
func (o Options) lock() (unlock func(), err error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(o.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("another box runs on the data disk in %s: stop it first", o.Dir)
	}
	return func() { f.Close() }, nil
}

// dataDisk is the image file of the data disk, made where it is missing.
func (o Options) dataDisk() (string, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return "", err
	}
	name := filepath.Join(o.Dir, "data.img")
	if o.Fresh {
		for _, old := range []string{name, filepath.Join(o.Dir, "token")} {
			if err := os.RemoveAll(old); err != nil {
				return "", err
			}
		}
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	if st.Size() >= layout.MinData {
		return name, nil
	}
	if err := o.room(); err != nil {
		return "", err
	}
	return name, f.Truncate(dataSize) // grows only: a disk that was cut short while it was made
}

// newRoom is what a new data disk takes at once, and some for the first tasks.
const newRoom = 512 << 20

// room refuses a new disk that its file system would not fit: the box would only say that writing fails.
func (o Options) room() error {
	var st unix.Statfs_t
	if err := unix.Statfs(o.Dir, &st); err != nil {
		return err
	}
	if free := st.Bavail * uint64(st.Bsize); free < newRoom {
		return fmt.Errorf("a new data disk needs %d MB of free disk in %s, which has %d MB: free some", newRoom>>20, o.Dir, free>>20)
	}
	return nil
}

// box is the running box, as its owner sees it.
type box struct {
	url   string
	vm    *qemu.VM
	token string // file with the token of this machine
}

var (
	serialStep = regexp.MustCompile(`(?m)^(?:\[[^\]]*\] )?(phase|firstboot:|init:|status:) ?([^\r\n]*)`)
	pairLink   = regexp.MustCompile(`pair\s+https?://\S+?#pair=([0-9]{8})`) // the whole code: a line comes in parts
)

// answers waits until the API answers.
func (b *box) answers(ctx context.Context, line *step.Line) error {
	ctx, cancel := context.WithTimeoutCause(ctx, bootTime, fmt.Errorf("its API did not answer within %v", bootTime))
	defer cancel()
	again := time.NewTicker(250 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-b.vm.Ended():
			return errors.New("it ended while it booted")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if all := serialStep.FindAllStringSubmatch(b.vm.Serial.Text(0), -1); len(all) > 0 {
			last := all[len(all)-1]
			line.Say(fmt.Sprintf("%.90s", strings.TrimSpace(last[1]+" "+last[2])))
		}
		var health struct{ OK bool }
		if err := b.call(ctx, "GET", "/api/health", nil, &health); err == nil && health.OK {
			return nil
		}
	}
}

// welcome prints where the box is and how to go on.
func (b *box) welcome(ctx context.Context, tell io.Writer, accel string) {
	fmt.Fprintf(tell, "\nYour box answers at %s\n", b.url)
	if accel == "tcg" {
		fmt.Fprintln(tell, "(KVM doesn't work on this machine: everything in the box is emulated, and some ten times slower)")
	}
	link, err := b.pair(ctx)
	switch {
	case err != nil:
		fmt.Fprintf(tell, "Pairing this machine didn't work: %v. The console shows a pairing link: %s\n", err, filepath.Join(b.vm.Dir, "serial.log"))
	default:
		fmt.Fprintf(tell, "Pair a device (once, within 5 minutes):  %s\n", link)
		fmt.Fprintf(tell, "A first task, in another terminal:\n  export BOX_URL=%s BOX_TOKEN=$(cat %s)\n  bin/box task new --worker fake --title Hello --prompt 'write hello.txt Hello from a task'\n  bin/box log\n", b.url, b.token)
	}
	fmt.Fprintln(tell, "Ctrl-C shuts it down. Its data stays in .box/ (make run ARGS=--fresh begins anew).")
}

// pair pairs this machine as owner, unless it is already, and returns a pairing link for a further device.
func (b *box) pair(ctx context.Context) (link string, err error) {
	if link, err = b.code(ctx); err == nil {
		return link, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	m, _, err := b.vm.Serial.Wait(ctx, 0, pairLink)
	if err != nil {
		return "", errors.New("the box shows no pairing code")
	}
	code := m[1]
	var paired struct{ Token string }
	if err := b.call(ctx, "POST", "/api/pair", map[string]string{"code": code, "name": "make run"}, &paired); err != nil {
		return "", err
	}
	if err := os.WriteFile(b.token, []byte(paired.Token), 0o600); err != nil {
		return "", err
	}
	return b.code(ctx)
}

// code asks for a pairing code, and makes a link of it that works on this machine.
func (b *box) code(ctx context.Context) (string, error) {
	var c struct{ URL string }
	if err := b.call(ctx, "POST", "/api/pair/code", map[string]string{"role": "owner"}, &c); err != nil {
		return "", err
	}
	there, err := url.Parse(c.URL)
	if err != nil {
		return "", err
	}
	here, err := url.Parse(b.url)
	if err != nil {
		return "", err
	}
	there.Scheme, there.Host = here.Scheme, here.Host
	return there.String(), nil
}

// call asks the API, with this machine's token where it has one.
func (b *box) call(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, b.url+path, &body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if token, err := os.ReadFile(b.token); err == nil && path != "/api/health" { // a token of an earlier box is refused even there
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		var said struct{ Error string }
		json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&said)
		return fmt.Errorf("%s: %s", resp.Status, said.Error)
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

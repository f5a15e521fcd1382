package modules

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/u-root/u-root/pkg/kmodule"
	"golang.org/x/sys/unix"

	"gurtos/boot/guard"
	"gurtos/boot/uevent"
)

// load is the state of loading one module. A channel and not a sync.Once, so
// that tests can run on synctest's clock.
type load struct {
	done chan struct{} // nil until somebody loads it, closed when it is loaded or failed
	err  error         // set before done is closed
}

// never are modules that a device may ask for and that a box has no use of.
var never = []string{"floppy", "joydev", "mousedev", "parport_pc", "pcspkr", "snd_pcsp", "psmouse"}

// A Loader loads modules of one index.
type Loader struct {
	index *Index
	log   *log.Logger
	init  func(path string) error
	slots chan struct{} // bounds how many modules start at once: each holds a thread in the kernel

	mu    sync.Mutex      // guards what follows, and done of every module
	known map[string]bool // modaliases that were looked up
	later bool            // whether what is not urgent waits in held
	held  []string        // modaliases
	busy  int             // loads under way
	last  time.Time       // when one last began or ended
}

// New makes a loader over the modules of dir.
func New(dir string, log *log.Logger) (*Loader, error) {
	index, err := Read(dir)
	if err != nil {
		return nil, err
	}
	return &Loader{
		index: index,
		log:   log,
		init:  finit,
		slots: make(chan struct{}, 2*runtime.NumCPU()),
		known: map[string]bool{},
		last:  time.Now(),
	}, nil
}

// Dir is the folder of the running kernel's modules.
func Dir(root string) (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", err
	}
	return filepath.Join(root, unix.ByteSliceToString(u.Release[:])), nil
}

func finit(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return kmodule.FileInit(f, "", 0)
}

// Load loads a module by its name, after all that it stands on.
func (l *Loader) Load(name string) error { return l.load(Name(name), nil) }

func (l *Loader) load(name string, above []string) error {
	m := l.index.modules[name]
	if m == nil {
		return fmt.Errorf("load module %s: there is none of this name", name)
	}
	if slices.Contains(above, name) {
		return fmt.Errorf("load module %s: it stands on itself: %s", name, strings.Join(above, " on "))
	}
	l.mu.Lock()
	first := m.done == nil
	if first {
		m.done = make(chan struct{})
	}
	l.mu.Unlock()
	if first {
		m.err = l.start(m, append(slices.Clone(above), name))
		close(m.done)
	}
	<-m.done
	return m.err
}

// start loads what m stands on, side by side, and then m.
func (l *Loader) start(m *module, above []string) error {
	if m.file == "" {
		return nil
	}
	errs := make([]error, len(m.deps))
	var wg sync.WaitGroup
	for i, dep := range m.deps {
		// modules.dep lists what is stood on indirectly too; those are loaded
		// by the direct ones and waited for here too.
		wg.Add(1)
		guard.Go("loading "+dep, func() {
			defer wg.Done()
			errs[i] = l.load(dep, above)
		})
	}
	for _, pre := range m.pre {
		names := []string{pre}
		if l.index.modules[pre] == nil {
			names = l.index.For(pre) // libcrc32c asks for crc32c, which is what crc32c_generic and crc32c_intel are
		}
		for _, pre := range names {
			wg.Add(1)
			guard.Go("loading "+pre, func() {
				defer wg.Done()
				if l.index.modules[pre] != nil && !slices.Contains(above, pre) {
					_ = l.load(pre, above)
				}
			})
		}
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	l.slots <- struct{}{}
	defer func() { <-l.slots }()
	err := l.init(filepath.Join(l.index.dir, m.file))
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("load module %s: %w", m.name, err)
	}
	return nil
}

// Hold puts off what is not urgent (sound, sensors, screens) until Release:
// drivers start on all processors, and the box has better uses for them while it
// starts.
func (l *Loader) Hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.later = true
}

// Release loads what was put off.
func (l *Loader) Release() {
	l.mu.Lock()
	held := l.held
	l.held, l.later = nil, false
	l.mu.Unlock()
	for _, a := range held {
		l.Want(a)
	}
}

// Want loads what takes a device of this modalias, in the background. A driver
// that finds its device missing or unfit (ENODEV) is no news.
func (l *Loader) Want(modalias string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known[modalias] {
		return
	}
	if l.later && !urgent(modalias) {
		l.held = append(l.held, modalias)
		return
	}
	l.known[modalias] = true
	for _, name := range l.index.For(modalias) {
		if slices.Contains(never, name) {
			continue
		}
		l.busy++
		l.last = time.Now()
		guard.Go("loading "+name, func() {
			if err := l.Load(name); err != nil && !errors.Is(err, unix.ENODEV) {
				l.log.Print(err)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.busy--
			l.last = time.Now()
		})
	}
}

// Hear takes an event of the kernel.
func (l *Loader) Hear(e uevent.Event) {
	switch {
	case e.Lost:
		l.Coldplug("/sys")
	case e.Action == "add" && e.Alias != "":
		l.Want(e.Alias)
	}
}

// Coldplug looks at all devices that are there. Input devices have an alias but
// no bus.
func (l *Loader) Coldplug(sys string) {
	for _, glob := range []string{"bus/*/devices/*/modalias", "class/input/*/modalias"} {
		files, _ := filepath.Glob(filepath.Join(sys, glob))
		for _, f := range files {
			if b, err := os.ReadFile(f); err == nil && len(b) > 1 {
				l.Want(strings.TrimSpace(string(b)))
			}
		}
	}
}

// urgent are network ports (PCI class 02), disks (01), what disks and ports
// hang on by USB, and all of virtio but its screens.
func urgent(modalias string) bool {
	bus, _, _ := strings.Cut(modalias, ":")
	switch bus {
	case "pci":
		for _, class := range []string{"bc01", "bc02", "bc08sc05", "bc0Csc03"} {
			if strings.Contains(modalias, class) {
				return true
			}
		}
		return strings.HasPrefix(modalias, "pci:v00001AF4") && !strings.Contains(modalias, "bc03")
	case "virtio":
		return !strings.HasPrefix(modalias, "virtio:d00000010v")
	case "scsi", "mmc", "sdio", "usb", "nvme", "ata":
		return true
	}
	return false
}

// Settle waits until nothing has been loading for the time quiet, or ctx ends.
// What was put off is loaded first.
func (l *Loader) Settle(ctx context.Context, quiet time.Duration) {
	l.Release()
	for {
		l.mu.Lock()
		wait := quiet
		if l.busy == 0 {
			wait = quiet - time.Since(l.last)
		}
		l.mu.Unlock()
		if wait <= 0 {
			return
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

package stage2

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/boot/boxd"
	"gurtos/boot/clock"
	"gurtos/boot/console"
	"gurtos/boot/facts"
	"gurtos/boot/guard"
	"gurtos/boot/keys"
	"gurtos/boot/modules"
	"gurtos/boot/network"
	"gurtos/boot/phase"
	"gurtos/boot/power"
	"gurtos/boot/proc"
	"gurtos/boot/release"
	"gurtos/boot/ring"
	"gurtos/boot/screen"
	"gurtos/boot/supervise"
	"gurtos/image/layout"
)

// Places of the running system.
const (
	runDir   = "/run/gurtos"
	dataDir  = "/data"
	boxHome  = "/data/box"
	cgroups  = "/sys/fs/cgroup"
	homeSock = boxHome + "/box.sock"
)

// readable is how long a panic stays on the screen.
const readable = 30 * time.Second

// A Box is the running machine.
type Box struct {
	Ring  *ring.Ring
	Start time.Time // of the kernel, on this process's monotonic clock

	log      *log.Logger
	release  release.Release
	words    release.Words
	screen   *screen.Screen
	facts    *facts.File
	loader   *modules.Loader
	network  *network.Network
	keys     *keys.Keyboard
	boxd     *boxd.Client
	services []*supervise.Supervisor

	dog   chan struct{} // a watchdog came; room for one
	disks chan struct{} // a block device came or went; room for one
	wake  chan struct{} // the network has changed, for the clock; room for one
	enter chan struct{} // somebody pressed Enter; room for one
	lines chan string   // that somebody typed when asked for one; room for one
	again chan struct{} // addresses have changed, for the pairing link; room for one
	end   chan power.How

	mu       sync.Mutex
	reasons  []reason // in the order in which they came
	known    clock.Known
	writable bool // the data disk is mounted and can be written to
	health   health
	damaged  bool      // boxd says that its log is
	stopping time.Time // zero until the shutdown began
}

type reason struct{ key, text string }

// New makes a box of nothing.
func New(r *ring.Ring, start time.Time) *Box {
	logger := log.New(r.Writer("init"), "", 0)
	// Stage 1 has printed them.
	r.Preload(strings.Split(readLine(filepath.Join(runDir, "stage1.log")), "\n"))
	logger.Print("stage 2")
	return &Box{
		Ring: r, Start: start, log: logger,
		screen: screen.New(r, logger),
		boxd:   boxd.New(homeSock),
		dog:    make(chan struct{}, 1),
		disks:  make(chan struct{}, 1),
		wake:   make(chan struct{}, 1),
		enter:  make(chan struct{}, 1),
		lines:  make(chan string, 1),
		again:  make(chan struct{}, 1),
		end:    make(chan power.How, 4),
	}
}

// Run starts the box, keeps it running and ends the machine. It doesn't return
// unless the kernel refuses that.
func (b *Box) Run() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGUSR1, unix.SIGUSR2)
	// Ctrl-Alt-Del becomes SIGINT.
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF); err != nil {
		b.log.Printf("Ctrl-Alt-Del: %v", err)
	}
	b.guard(ctx, "reaping", func(ctx context.Context) { proc.Reap(ctx) })

	running, stop := context.WithCancel(ctx)
	defer stop()
	var wait sync.WaitGroup // for the services
	started := make(chan struct{})
	b.guard(running, "starting", func(ctx context.Context) { defer close(started); b.start(ctx, &wait) })

	how := power.Off
	select {
	case s := <-signals:
		if s == unix.SIGINT || s == unix.SIGUSR2 {
			how = power.Restart
		}
		b.log.Printf("%v: %s", s, how)
	case how = <-b.end:
	}
	return b.shutdown(func() {
		stop()
		// What is starting may be mounting the data disk, or about to start boxd.
		select {
		case <-started:
		case <-time.After(startEnds):
			b.log.Printf("starting: not ended after %v, going on", startEnds)
		}
		wait.Wait()
	}, how)
}

// startEnds is how long a shutdown waits for a start in its middle.
const startEnds = 30 * time.Second

// start goes through the phases. Those after the data disk wait for one.
func (b *Box) start(ctx context.Context, wait *sync.WaitGroup) {
	b.phases(ctx, []phase.Phase{
		{Name: "mounts", Run: b.mounts},
		{Name: "release", Run: b.readRelease},
		{Name: "console", Run: b.console},
		{Name: "drivers", Run: b.drivers},
		{Name: "kernel settings", Run: b.settings},
		{Name: "control groups", Run: b.controlGroups},
		{Name: "clock", Run: b.clockFloor},
		{Name: "network", Run: b.startNetwork},
	})
	b.awaitData(ctx)
	if ctx.Err() != nil {
		return
	}
	work := []phase.Phase{
		{Name: "time servers", Run: b.startClock},
		{Name: "services", Run: func(ctx context.Context) error { return b.startServices(ctx, wait) }},
		{Name: "watchdog", Run: b.startWatchdog},
	}
	if b.debugShell() {
		work = append(work, phase.Phase{Name: "shell", Run: b.startShell})
	}
	b.phases(ctx, work)
	b.watch(ctx)
}

func (b *Box) phases(ctx context.Context, list []phase.Phase) {
	for i, p := range list {
		list[i].Run = func(ctx context.Context) error {
			if b.release.Debug && b.words["gurtos.panic"] == p.Name {
				panic("asked for by gurtos.panic=" + p.Name)
			}
			return p.Run(ctx)
		}
	}
	enter := func(name string) {
		b.screen.Update(func(s *screen.Status) { s.State, s.Doing = screen.Starting, name })
	}
	fault := func(name string, err error) { b.because("phase "+name, sentence(err)) }
	_ = phase.Run(ctx, b.log, list, enter, fault) // none of them is a Must
}

// sentence makes an error fit to be read by itself.
func sentence(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// because sets or, with an empty text, takes back why the box is not as it
// should be.
func (b *Box) because(key, text string) {
	b.mu.Lock()
	at := slices.IndexFunc(b.reasons, func(r reason) bool { return r.key == key })
	switch {
	case at < 0 && text == "", at >= 0 && b.reasons[at].text == text:
		b.mu.Unlock()
		return
	case at < 0:
		b.reasons = append(b.reasons, reason{key, text})
	case text == "":
		b.reasons = slices.Delete(b.reasons, at, at+1)
	default:
		b.reasons[at].text = text
	}
	texts := make([]string, len(b.reasons))
	for i, r := range b.reasons {
		texts[i] = r.text
	}
	b.mu.Unlock()
	if text != "" {
		b.log.Printf("reason: %s", text)
	}
	b.screen.Update(func(s *screen.Status) { s.Reasons = texts })
	b.fact(func(f *facts.Facts) { f.Reasons = texts })
}

// fact changes the facts of this boot, once there are any.
func (b *Box) fact(change func(*facts.Facts)) {
	if b.facts == nil {
		return
	}
	if err := b.facts.Update(change); err != nil {
		b.log.Print(err)
	}
}

// since is the milliseconds since the kernel started.
func (b *Box) since() int64 { return time.Since(b.Start).Milliseconds() }

// guard runs fn in a goroutine of its own; a panic in it ends the machine with
// a screen that can be read.
func (b *Box) guard(ctx context.Context, what string, fn func(context.Context)) {
	guard.Go(what, func() { fn(ctx) })
}

// Panic shows on every console that the init has failed, waits until that can
// have been read, and starts the machine anew.
func Panic(r *ring.Ring, what string, p any, stack []byte) {
	screen.Last(console.List("/proc", "/dev"), lastWords(r.Last(8), what, p, stack))
	written := make(chan struct{})
	guard.Go("writing to the disks", func() { defer close(written); unix.Sync() }) // a disk may be what has failed
	<-time.After(readable)
	select {
	case <-written:
	case <-time.After(readable):
	}
	_ = power.Now(power.Restart)
	select {} // the kernel's own watch over init must not see it end
}

// lastWords are for whoever mends it first and for whoever stands before it
// last: of a screen that scrolls, the end stays.
func lastWords(lines []string, what string, p any, stack []byte) string {
	var text strings.Builder
	fmt.Fprintf(&text, "\n%s\n%s\n", stack, strings.Join(lines, "\n"))
	fmt.Fprintf(&text, "\n*** GurtOS: its init failed while %s: %v\n*** The box starts anew in %v. Nothing on the data disk is lost.\n", what, p, readable)
	return text.String()
}

// poke puts a token into a channel with room for one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// version is what people are shown.
func (b *Box) version() string {
	if b.release.Debug {
		return b.release.Version + " (debug)"
	}
	return b.release.Version
}

func readLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func (b *Box) debugShell() bool { return b.release.Debug && b.words.Has(layout.CmdDebug) }

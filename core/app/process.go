package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/sandbox"
	"gurtos/sandbox/layers"
)

// Limits of an app's process. Node has 7 threads by itself.
const (
	memory  = 128 << 20
	heap    = 64 // MB of it that JavaScript's own objects may take
	pids    = 64
	disk    = 1_000_000_000 // bytes of its store and home together
	tmp     = 32 << 20
	stopFor = 2 * time.Second // that a process has to end by itself

	closeTime = 5 * time.Second // after it closed a socket

	// One that was ended for its disk gets so many bytes more when it starts again, or it
	// could never delete anything; and so often.
	tidyDisk = 80_000_000
	maxTidy  = 3
)

var limits = sandbox.Limits{MemoryBytes: memory, Pids: pids, DiskBytes: disk, TmpBytes: tmp}

// job is what a process is started for.
type job struct {
	id      string // letters, digits and dashes
	script  string // in /opt/host
	app     string // what Node's own fence lets it read in /opt/app; "" for nothing
	trees   []sandbox.Tree
	store   string // layer folders
	home    string
	more    int64 // bytes of disk above its limit
	env     []string
	network func(sandbox.Namespace) error
	output  *ring

	serve func(ctx context.Context, method string, params json.RawMessage) (any, error)
}

// process is Node in a sandbox, with its two sockets.
type process struct {
	sb       Sandbox
	main     *wire // either side calls
	blocking *wire // it calls, one after the other

	done chan struct{} // closed when nothing of it is left
	exit sandbox.Exit  // valid once done is closed

	mu    sync.Mutex
	fault string // what it did wrong, in words that go on after "it"
}

// start starts a process.
func (r *Registry) start(ctx context.Context, j job) (*process, error) {
	p := &process{done: make(chan struct{})}
	var inside []*os.File
	closeInside := func() {
		for _, f := range inside {
			f.Close()
		}
	}
	defer closeInside()
	for _, w := range []**wire{&p.main, &p.blocking} {
		in, conn, err := pair()
		if err != nil {
			return nil, err
		}
		inside = append(inside, in)
		*w = newWire(conn, j.serve)
		(*w).blame = p.blame
	}
	fail := func(err error) (*process, error) {
		p.main.close(err)
		p.blocking.close(err)
		return nil, err
	}
	limits := limits
	limits.DiskBytes += j.more
	sb, err := r.opt.Runner.Start(ctx, sandbox.Spec{
		ID: j.id, User: j.id, Slot: sandbox.AnySlot, Limits: limits,
		Work: layers.View{Layer: j.store}, Home: layers.View{Layer: j.home},
		Trees: append([]sandbox.Tree{
			{Name: "host", View: layers.View{Base: r.hostDir}},
		}, j.trees...),
		Args: append(append([]string{"/usr/bin/node"}, flags(j.app)...), "/opt/host/"+j.script),
		Env: append([]string{
			"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/box", "USER=" + j.id, "LOGNAME=" + j.id, "LANG=C.UTF-8",
			"UV_THREADPOOL_SIZE=2", "NODE_NO_WARNINGS=1",
		}, j.env...),
		Files: inside, Output: j.output, Network: j.network,
	})
	if err != nil {
		return fail(fmt.Errorf("its process could not be started: %w", err))
	}
	p.sb = sb
	go p.run()
	return p, nil
}

// flags are Node's own fence, the second one: what it may read and write, no other
// programs, no threads, no addons. The sandbox holds without it.
func flags(app string) []string {
	f := []string{
		"--permission", "--allow-fs-read=/opt/host/", "--allow-fs-read=/work/", "--allow-fs-write=/work/", "--allow-fs-read=/tmp/", "--allow-fs-write=/tmp/",
		"--disable-proto=throw", "--no-addons", fmt.Sprintf("--max-old-space-size=%d", heap), "--v8-pool-size=1",
	}
	if app != "" {
		f = append(f, "--allow-fs-read=/opt/app/")
	}
	return f
}

// load has the process load its app. What the app's code does meanwhile it does outside
// of its functions, where it may use a processor for most: a loop without an end would
// go on until loadTime, and nothing else of the app could tell.
func (p *process) load(ctx context.Context, name string, most time.Duration, into any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, loadTime, errors.New("loading it took more than 3 minutes"))
	defer cancel()
	c, err := p.main.begin("load", map[string]string{"name": name})
	if err != nil {
		return err
	}
	look := time.NewTicker(most / 20)
	defer look.Stop()
	for {
		select {
		case m, ok := <-c.answer:
			return c.decode(m, ok, into)
		case err := <-c.unsent:
			return err
		case <-look.C:
			if p.sb.CPU() > most {
				p.main.giveUp(c.id)
				return fmt.Errorf("it can't be loaded: track.ts, or what it imports, computes outside of its functions and came to no end within %s", span(most))
			}
		case <-ctx.Done():
			p.main.giveUp(c.id)
			return context.Cause(ctx)
		}
	}
}

// run reads what the process sends until it is gone.
func (p *process) run() {
	var reading sync.WaitGroup
	gone := make(chan struct{})
	for _, read := range []func() error{p.main.read, p.blocking.serveOne} {
		reading.Go(func() {
			if err := read(); err != nil {
				p.blame(err.Error())
				p.kill()
				return
			}
			// It ends, most likely; or it was told what it did. One that closed a socket and goes on is of no use.
			late := time.NewTimer(closeTime)
			defer late.Stop()
			select {
			case <-gone:
			case <-late.C:
				p.blame("it closed its socket to the box")
				p.kill()
			}
		})
	}
	p.exit = p.sb.Wait()
	close(gone)
	for _, w := range []*wire{p.main, p.blocking} {
		w.close(errGone)
	}
	reading.Wait()
	p.main.calls.Wait()
	close(p.done)
}

// blame keeps the first thing that it did wrong.
func (p *process) blame(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault == "" {
		p.fault = what
	}
}

func (p *process) kill() { p.sb.Kill() }

// stop ends it in order.
func (p *process) stop() { p.sb.Stop(stopFor) }

// why says how it ended, in words that go on after "it"; done is closed.
func (p *process) why() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.exit
	switch {
	case e.Start != nil:
		return "it could not be started: " + e.Start.Error()
	case e.OOM && e.Shared:
		return "it was ended since all tasks and apps together used the memory that the box has for them"
	case e.OOM, strings.Contains(e.Output, "JavaScript heap out of memory"):
		return "it used more than its " + sandbox.Bytes(memory) + " of memory"
	case e.Disk:
		return "it used more than its " + sandbox.Bytes(disk) + " of disk"
	case p.fault != "":
		return p.fault
	case e.Pids:
		return fmt.Sprintf("it ran more than its %d processes and threads", pids)
	case e.Signal != nil:
		return "it was ended by the signal " + unix.SignalName(e.Signal.(unix.Signal))
	}
	return fmt.Sprintf("it ended by itself, with exit code %d", e.Code)
}

// ended waits for the end of a process that was needed, and gives the reason.
func (p *process) ended() error {
	<-p.done
	return errors.New(p.why())
}

// pair is a socket for the process and its other end.
func pair() (inside *os.File, conn net.Conn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("making a pair of sockets: %w", err)
	}
	inside = os.NewFile(uintptr(fds[0]), "inside")
	outside := os.NewFile(uintptr(fds[1]), "outside")
	defer outside.Close()
	if conn, err = net.FileConn(outside); err != nil {
		inside.Close()
		return nil, nil, err
	}
	return inside, conn, nil
}

// ring keeps the last of what a process prints.
type ring struct {
	mu    sync.Mutex
	text  []byte
	total int64         // bytes that were ever written
	more  chan struct{} // closed and replaced by a write; nil while nobody waits
}

// maxPrinted is how many bytes of an app's output are kept.
const maxPrinted = 64 << 10

// Write keeps p, and never blocks.
func (o *ring) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p[max(0, len(p)-maxPrinted):]...)
	if over := len(o.text) - maxPrinted; over > maxPrinted {
		o.text = append(o.text[:0], o.text[over:]...)
	}
	o.total += int64(len(p))
	if o.more != nil {
		close(o.more)
		o.more = nil
	}
	return len(p), nil
}

func (o *ring) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.ToValidUTF8(string(o.text[max(0, len(o.text)-maxPrinted):]), "\uFFFD")
}

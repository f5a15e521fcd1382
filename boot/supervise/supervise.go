package supervise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"gurtos/boot/guard"
	"gurtos/boot/proc"
	"gurtos/boot/ring"
)

const (
	firstDelay = 500 * time.Millisecond
	maxDelay   = 30 * time.Second
	settled    = time.Minute // one that ran this long starts again at once
)

// A Service is a program that is to run always.
type Service struct {
	Name  string
	Path  string
	Args  []string
	Env   []string
	Grace time.Duration // between SIGTERM and SIGKILL
	Hold  int           // the exit code after which no start helps: it waits for Again then; 0 for none
}

// A State is how a service fares.
type State struct {
	Running  bool
	Held     bool      // it is not to run until Again
	Since    time.Time // of running or not
	Starts   int
	LastExit string // how it last ended, "" when it never did
}

// A Supervisor runs one service.
type Supervisor struct {
	Service Service
	Ring    *ring.Ring
	Log     *log.Logger
	Cgroup  string // folder of the service's control group; "" for none
	Changed func() // called after each change of the state; may be nil

	mu    sync.Mutex
	state State
	end   context.CancelFunc // ends what runs
	news  chan struct{}      // closed when something of the state has changed; nil when nobody waits for that
}

// State is the newest state.
func (s *Supervisor) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

func (s *Supervisor) set(change func(*State)) {
	s.mu.Lock()
	change(&s.state)
	s.state.Since = time.Now()
	s.tell()
	s.mu.Unlock()
	if s.Changed != nil {
		s.Changed()
	}
}

// tell wakes who waits for a change. mu is held.
func (s *Supervisor) tell() {
	if s.news != nil {
		close(s.news)
		s.news = nil
	}
}

// until waits for a state, and says whether it came before ctx ended.
func (s *Supervisor) until(ctx context.Context, is func(State) bool) bool {
	for {
		s.mu.Lock()
		if is(s.state) {
			s.mu.Unlock()
			return ctx.Err() == nil
		}
		if s.news == nil {
			s.news = make(chan struct{})
		}
		news := s.news
		s.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return false
		}
	}
}

// Hold ends the service and keeps it from running until Again. It says whether nothing of
// it runs any more, which is not so only when ctx ended first.
func (s *Supervisor) Hold(ctx context.Context) bool {
	s.mu.Lock()
	s.state.Held = true
	if s.end != nil {
		s.end()
	}
	s.tell()
	s.mu.Unlock()
	return s.until(ctx, func(st State) bool { return !st.Running })
}

// Again lets a service run that is held.
func (s *Supervisor) Again() {
	s.set(func(st *State) { st.Held, st.LastExit = false, "" })
}

// begin enters a run. It is false when the service was held just now.
func (s *Supervisor) begin(end context.CancelFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Held {
		return false
	}
	s.state.Running, s.end = true, end
	return true
}

// Run keeps the service running until ctx ends, and returns when it has
// stopped.
func (s *Supervisor) Run(ctx context.Context) {
	delay := firstDelay
	for s.until(ctx, func(st State) bool { return !st.Held }) {
		run, end := context.WithCancel(ctx)
		if !s.begin(end) {
			end()
			continue
		}
		began := time.Now()
		how := s.once(run)
		end()
		if ctx.Err() != nil {
			s.Log.Printf("%s: %s", s.Service.Name, how)
			return
		}
		if s.State().Held {
			s.Log.Printf("%s: %s; it is not started again by itself", s.Service.Name, how)
			delay = firstDelay
			continue
		}
		if time.Since(began) >= settled {
			delay = firstDelay
		}
		s.Log.Printf("%s: %s; starting it again in %v", s.Service.Name, how, delay)
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return
		}
		delay = min(2*delay, maxDelay)
	}
}

// once runs the service to its end, or until ctx ends, and says how it ended.
func (s *Supervisor) once(ctx context.Context) (how string) {
	cmd := exec.Command(s.Service.Path, s.Service.Args...)
	cmd.Env = s.Service.Env
	cmd.Dir = "/"
	said := &lastWords{of: s.Service.Name + ": "}
	cmd.Stdout = io.MultiWriter(s.Ring.Writer(s.Service.Name), said)
	cmd.Stderr = cmd.Stdout // the same value: os/exec then writes from one goroutine
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// A grandchild that keeps the output open must not keep Wait from returning.
	cmd.WaitDelay = 2 * time.Second

	if s.Cgroup != "" {
		group, err := s.group()
		if err != nil {
			s.Log.Print(err) // a service without its group is better than none
		} else {
			defer group.Close()
			cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(group.Fd())
		}
	}
	if err := proc.Start(cmd); err != nil {
		how = fmt.Sprintf("does not start: %v", err)
		s.set(func(st *State) { st.Running, st.LastExit = false, how })
		return how
	}
	s.set(func(st *State) { st.Running, st.Starts = true, st.Starts+1 })

	ended := make(chan error, 1)
	guard.Go("waiting for "+s.Service.Name, func() { ended <- proc.Wait(cmd) })
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = s.stop(cmd, ended)
	}
	s.sweep(cmd.Process.Pid)
	how = "ended"
	if err != nil {
		how = "ended with " + err.Error()
		if why := said.line(); why != "" {
			how += ": " + why
		}
	}
	held := s.Service.Hold != 0 && proc.ExitCode(err) == s.Service.Hold
	s.set(func(st *State) { st.Running, st.Held, st.LastExit = false, st.Held || held, how })
	return how
}

// lastWords keeps, of what a service writes, the newest line in which it gives its
// name: that is where it says why it ends. People with a screen and no serial line see
// no other.
type lastWords struct {
	of string

	mu      sync.Mutex
	partial []byte
	last    string
}

func (w *lastWords) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.partial = append(w.partial, p...)
	for {
		line, rest, found := bytes.Cut(w.partial, []byte("\n"))
		if !found {
			if len(w.partial) > 1024 { // no line that people read
				w.partial = nil
			}
			return len(p), nil
		}
		if why, ok := strings.CutPrefix(string(line), w.of); ok {
			w.last = why
		}
		w.partial = append(w.partial[:0], rest...)
	}
}

func (w *lastWords) line() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// group makes the service's control group and opens it.
func (s *Supervisor) group() (*os.File, error) {
	if err := os.MkdirAll(s.Cgroup, 0o755); err != nil {
		return nil, fmt.Errorf("control group of %s: %w", s.Service.Name, err)
	}
	return os.Open(s.Cgroup)
}

// stop asks the service to end and, after its grace, makes it. Only the
// service itself is asked: it stops what it started in its own order.
func (s *Supervisor) stop(cmd *exec.Cmd, ended <-chan error) error {
	signal := func(sig syscall.Signal) {
		// ESRCH is success: it has ended by itself.
		if err := cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, syscall.ESRCH) {
			s.Log.Printf("%s: %v: %v", s.Service.Name, sig, err)
		}
	}
	signal(syscall.SIGTERM)
	select {
	case err := <-ended:
		return err
	case <-time.After(s.Service.Grace):
		s.Log.Printf("%s: still there %v after SIGTERM", s.Service.Name, s.Service.Grace)
		signal(syscall.SIGKILL)
		return <-ended
	}
}

// sweep ends what the service left behind in its process and control group.
func (s *Supervisor) sweep(pid int) {
	if err := syscall.Kill(-pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		s.Log.Printf("%s: end its process group: %v", s.Service.Name, err)
	}
	if s.Cgroup != "" {
		if err := os.WriteFile(filepath.Join(s.Cgroup, "cgroup.kill"), []byte("1"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			s.Log.Printf("%s: end its control group: %v", s.Service.Name, err)
		}
	}
}

package broker_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gurtos/core/task"
	"gurtos/sandbox"
	"gurtos/sandbox/layers"
)

// runner starts sandboxes that are nothing but their socket.
type runner struct {
	dir string

	mu      sync.Mutex
	boxes   map[string]*sandboxed
	started []string // ids in the order in which they were started
	changed chan struct{}
	refuse  error // what Start answers
}

type sandboxed struct {
	path     string
	listener net.Listener
	spec     sandbox.Spec
	exit     chan sandbox.Exit
	once     sync.Once
	done     chan struct{}
	result   sandbox.Exit

	mu     sync.Mutex
	frozen bool
	slow   chan struct{} // when set, Freeze waits until it is closed
	fails  int           // how often Freeze and Thaw fail before they do what they should
	syncs  int
	during func() // when set, what happens while the layer is synced
}

func (r *runner) Start(_ context.Context, spec sandbox.Spec) (task.Sandbox, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != nil {
		return nil, r.refuse
	}
	path := filepath.Join(r.dir, "in-"+spec.ID)
	os.Remove(path)
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	s := &sandboxed{path: path, listener: l, spec: spec, exit: make(chan sandbox.Exit, 1), done: make(chan struct{})}
	go s.run()
	go spec.Serve(l)
	r.boxes[spec.ID] = s
	r.started = append(r.started, spec.ID)
	close(r.changed)
	r.changed = make(chan struct{})
	return s, nil
}

func (s *sandboxed) run() {
	s.result = <-s.exit
	s.listener.Close()
	close(s.done)
}

func (s *sandboxed) end(e sandbox.Exit) { s.once.Do(func() { s.exit <- e }) }

func (s *sandboxed) Wait() sandbox.Exit { <-s.done; return s.result }
func (s *sandboxed) Stop(time.Duration) { s.end(sandbox.Exit{Code: 143}); <-s.done }
func (s *sandboxed) Kill()              { s.end(sandbox.Exit{Code: 137}) }
func (s *sandboxed) UID() int           { return os.Getuid() }

func (s *sandboxed) Freeze() error {
	s.mu.Lock()
	slow := s.slow
	s.mu.Unlock()
	if slow != nil {
		<-slow
	}
	return s.freeze(true)
}

func (s *sandboxed) Thaw() error { return s.freeze(false) }

func (s *sandboxed) freeze(on bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails > 0 {
		s.fails--
		return errors.New("the kernel is busy")
	}
	s.frozen = on
	return nil
}

func (s *sandboxed) Sync() error {
	s.mu.Lock()
	s.syncs++
	during := s.during
	s.mu.Unlock()
	if during != nil {
		during()
	}
	return nil
}

func (r *runner) get(id string) *sandboxed {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.boxes[id]
}

// wait returns a task's sandbox once it is started.
func (r *runner) wait(t testing.TB, id string) *sandboxed {
	t.Helper()
	late := time.After(2 * time.Minute)
	for {
		r.mu.Lock()
		s, c := r.boxes[id], r.changed
		r.mu.Unlock()
		if s != nil {
			return s
		}
		select {
		case <-c:
		case <-late:
			t.Fatal("no sandbox for " + id)
		}
	}
}

func (r *runner) killAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.boxes {
		s.Kill()
	}
}

// folders are layers that are nothing but folders.
type folders struct{}

func (*folders) Create(dir string) error { return os.MkdirAll(dir, 0o700) }

func (*folders) Seal(_ context.Context, v layers.View) error {
	return os.WriteFile(filepath.Join(v.Layer, "sealed"), nil, 0o600)
}

func (*folders) Sealed(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "sealed"))
	return err == nil
}

func (*folders) Drop(dir string) error { return os.RemoveAll(dir) }

func (*folders) Recover(string) error { return nil }

func (*folders) Writer(layers.View) (*layers.Writer, error) { return nil, errors.ErrUnsupported }

func (*folders) Fold(_ context.Context, base string, lowers []string) error {
	return os.WriteFile(filepath.Join(base, "folded"), []byte(strings.Join(lowers, "\n")), 0o600)
}

func (*folders) RecoverBase(base string, dirs []string) (applied []string, err error) {
	raw, err := os.ReadFile(filepath.Join(base, "folded"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, d := range strings.Split(string(raw), "\n") {
		if slices.Contains(dirs, d) {
			applied = append(applied, d)
		}
	}
	return applied, err
}

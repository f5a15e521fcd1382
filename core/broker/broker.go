package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"gurtos/core/task"
	"gurtos/core/tool"
)

// DefaultWait is how long a call or question waits for an answer before it is told
// that it is pending.
const DefaultWait = 150 * time.Second

// Vault takes its values out of what tools return.
type Vault interface {
	Redact(text string) string
	RedactJSON(raw json.RawMessage) json.RawMessage
}

// Options are what a Broker is made of. Wait and Slog have defaults.
type Options struct {
	Tasks  *task.Tasks
	Tools  tool.Set
	Vault  Vault
	Canary task.Canary
	Wait   time.Duration // BOX_APPROVAL_WAIT_MS
	Slog   *slog.Logger
}

// Broker makes the sockets of tasks and flies their calls.
type Broker struct {
	opt     Options
	schemas schemas

	ctx     context.Context // of calls: a client that goes away doesn't end one
	stop    context.CancelFunc
	flights sync.WaitGroup

	mu      sync.Mutex
	written map[string]int64 // bytes of POST bodies by task, since the box started
}

// New returns a broker without sockets. Close it when no task runs any more.
func New(o Options) *Broker {
	if o.Wait == 0 {
		o.Wait = DefaultWait
	}
	if o.Slog == nil {
		o.Slog = slog.Default()
	}
	b := &Broker{opt: o, written: map[string]int64{}}
	b.ctx, b.stop = context.WithCancel(context.Background())
	return b
}

// closeGrace is how long Close waits for tools that are told to end.
const closeGrace = 5 * time.Second

// Close ends the tools that run, as a power cut would, and waits for them: their
// calls run again, with the same key, when their tasks ask for them. A tool that
// doesn't heed its context is left behind.
func (b *Broker) Close() {
	b.stop()
	gone := make(chan struct{})
	go func() { b.flights.Wait(); close(gone) }()
	late := time.NewTimer(closeGrace)
	defer late.Stop()
	select {
	case <-gone:
	case <-late.C:
		b.opt.Slog.Warn("a tool does not end; the box ends without it")
	}
}

var _ task.Broker = (*Broker)(nil)

// Open makes a task's socket. It answers nobody before Listen told it whom to.
func (b *Broker) Open(id string) task.Socket {
	s := &socket{slog: b.opt.Slog.With("task", id), told: make(chan struct{}), closed: make(chan struct{})}
	d := &desk{Broker: b, id: id, posts: make(chan struct{}, maxPosts), steps: make(chan struct{}, maxSteps), large: make(chan struct{}, maxLarge)}
	s.server = &http.Server{
		Handler:           d.routes(),
		ReadHeaderTimeout: 30 * time.Second,
		ReadTimeout:       2 * time.Minute, // of a request; answers may take hours
		IdleTimeout:       5 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.slog.Handler(), slog.LevelDebug),
	}
	return s
}

// socket is one task's open broker.
type socket struct {
	slog   *slog.Logger
	server *http.Server

	told   chan struct{} // closed once uid is set
	uid    int           // of the task
	closed chan struct{}

	mu      sync.Mutex
	ended   bool           // closed is closed
	serving sync.WaitGroup // added to under mu, while not ended
}

// Listen makes the socket on the host, for uid alone.
func (s *socket) Listen(path string, uid int) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	if err := errors.Join(os.Chown(path, uid, uid), os.Chmod(path, 0o600)); err != nil {
		l.Close()
		return fmt.Errorf("%s: %w", path, err)
	}
	s.uid = uid
	close(s.told)
	// Root of the box may do what it likes anyway, and a mode keeps it from nothing.
	s.serve(&peers{Listener: l, socket: s, root: true, slots: make(chan struct{}, maxConns)})
	return nil
}

// Serve answers on the listener in the task's own file system too. Nobody but the
// task's user can be there, root neither.
func (s *socket) Serve(inside net.Listener) {
	s.serve(&peers{Listener: inside, socket: s, slots: make(chan struct{}, maxConns)})
}

func (s *socket) serve(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		l.Close()
		return
	}
	s.serving.Go(func() {
		if err := s.server.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			s.slog.Error("a broker socket ended", "why", err)
		}
	})
}

// Close closes both listeners and every connection.
func (s *socket) Close() error {
	s.mu.Lock()
	if !s.ended {
		s.ended = true
		close(s.closed)
	}
	s.mu.Unlock()
	err := s.server.Close()
	s.serving.Wait()
	return err
}

package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/approval"
	"gurtos/core/broker"
	"gurtos/core/device"
	"gurtos/core/durable"
	"gurtos/core/settings"
	"gurtos/core/task"
	"gurtos/core/tool"
	"gurtos/core/vault"
	"gurtos/core/workspace"
	"gurtos/portal/kit"
	"gurtos/sandbox"
	"gurtos/sandbox/layers"
	"gurtos/test/planted"
)

// box is an API over the real log, tasks, layers, vault, devices and settings.
// Only the sandboxes are stood in for: a task runs until it is ended.
type box struct {
	t      testing.TB
	home   string
	log    *actionlog.Log
	tasks  *task.Tasks
	srv    *Server
	url    string // loopback; root's connections are the screen
	lanURL string
	sock   string
	output *lockedBuffer // what boxd itself says
	token  map[who]string
	id     map[who]string // of the devices
	vault  *vault.Vault
	apps   *theApps
}

// lockedBuffer is a buffer that many may write to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// idle is a sandbox whose worker does nothing until it is ended.
type idle struct {
	done chan struct{}
	once sync.Once
}

func (s *idle) end()               { s.once.Do(func() { close(s.done) }) }
func (s *idle) Wait() sandbox.Exit { <-s.done; return sandbox.Exit{Code: 143} }
func (s *idle) Stop(time.Duration) { s.end() }
func (s *idle) Kill()              { s.end() }
func (s *idle) Freeze() error      { return nil }
func (s *idle) Thaw() error        { return nil }
func (s *idle) Sync() error        { return nil }
func (s *idle) UID() int           { return os.Getuid() }

type noTools struct{}

func (noTools) Lookup(string) (tool.Tool, bool) { return tool.Tool{}, false }
func (noTools) Has(string) bool                 { return false }
func (noTools) Title(app string) string         { return app }

func newBox(t testing.TB, change ...func(*Server)) *box {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("needs root: layers, a vault, and the screen's connection")
	}
	home, err := os.MkdirTemp("/tmp", "api") // short: a socket's path has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	b := &box{t: t, home: home, output: &lockedBuffer{}, apps: twoApps(), token: map[who]string{}, id: map[who]string{}}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	logger := slog.New(slog.NewTextHandler(b.output, &slog.HandlerOptions{Level: slog.LevelDebug}))
	at := func(name string) string { return filepath.Join(home, name) }
	values := planted.New()
	values.Write(t, home)
	t.Cleanup(func() { // of all that the suite left, and of what boxd would have printed
		values.Files(t, home)
		values.Search(t, "what boxd says", []byte(b.output.String()))
	})
	b.vault, err = vault.Open(durable.Disk, at("vault.env"))
	must(err)
	b.log, err = actionlog.Open(home, actionlog.Options{})
	must(err)
	chosen, err := settings.Open(durable.Disk, at("settings.json"))
	must(err)
	devices, err := device.Open(durable.Disk, at("devices.json"))
	must(err)
	spaces, err := workspace.Open(durable.Disk, at("workspaces"))
	must(err)
	_, err = spaces.Make("home")
	must(err)
	mounter, err := layers.NewMounter()
	must(err)
	start := func(context.Context, sandbox.Spec) (task.Sandbox, error) {
		return &idle{done: make(chan struct{})}, nil
	}
	b.tasks, err = task.New(t.Context(), task.Options{
		Home: home, Log: b.log, Runner: task.RunnerFunc(start), Layers: task.OnDisk(mounter), Tools: noTools{}, Settings: chosen,
		Workers: map[string]task.Worker{"fake": {Args: []string{"/worker"}}}, Slog: logger,
	})
	must(err)
	canary, err := broker.OpenCanary(durable.Disk, at("canary.key"))
	must(err)
	desk := broker.New(broker.Options{Tasks: b.tasks, Tools: noTools{}, Vault: b.vault, Canary: canary, Slog: logger})
	b.srv = New(Options{
		Tasks: b.tasks, Events: b.log, Settings: chosen, Devices: devices, Vault: b.vault, Workspaces: spaces, Broken: b.log.Err,
		Apps: b.apps, Kit: kit.Files,
		Log: logger, Version: "1.2.3", Edition: "core", Home: home, Port: 7700, LANPort: 80, RootIsScreen: true,
	})
	b.srv.own = func(uint32) bool { return false } // the test's own connections stand for root's
	for _, c := range change {
		c(b.srv)
	}
	loop, err := net.Listen("tcp4", "127.0.0.1:0")
	must(err)
	lan, err := net.Listen("tcp4", "127.0.0.1:0")
	must(err)
	b.sock = at("box.sock")
	unix, err := net.Listen("unix", b.sock)
	must(err)
	b.url, b.lanURL = "http://"+loop.Addr().String(), "http://"+lan.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := b.srv.Serve(ctx, []net.Listener{loop, unix}, []net.Listener{lan}); err != nil {
			t.Error(err)
		}
	})
	wg.Go(func() {
		if err := b.tasks.Run(ctx, desk); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		values.API(t, http.DefaultClient, b.url)
		stop()
		wg.Wait()
		desk.Close()
		mounter.Close()
		b.log.Close()
	})
	for kind, role := range map[who]device.Role{owner: device.Owner, member: device.Member} {
		code, err := devices.Code(role)
		must(err)
		d, token, err := devices.Pair(code.Code, string(role)+" phone", "test")
		must(err)
		b.token[kind], b.id[kind] = token, d.ID
	}
	return b
}

// req is one request as a test writes it.
type req struct {
	as     who
	method string
	path   string
	body   string
	header map[string]string
}

type res struct {
	status int
	header http.Header
	body   string
}

// do makes a request. Only the screen has no header that says otherwise.
func (b *box) do(r req) res {
	b.t.Helper()
	out, err := b.try(r)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

func (b *box) try(r req) (res, error) {
	hr, err := http.NewRequestWithContext(b.t.Context(), r.method, b.url+r.path, strings.NewReader(r.body))
	if err != nil {
		return res{}, err
	}
	switch r.as {
	case owner, member:
		hr.Header.Set("Authorization", "Bearer "+b.token[r.as])
	case none:
		hr.Header.Set("X-Forwarded-For", "192.0.2.9")
	}
	for k, v := range r.header {
		if k == "Host" {
			hr.Host = v
			continue
		}
		hr.Header.Set(k, v)
	}
	a, err := http.DefaultTransport.RoundTrip(hr)
	if err != nil {
		return res{}, err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	return res{a.StatusCode, a.Header, string(text)}, err
}

// get decodes an answer that has to be a success.
func (b *box) into(r req, v any) {
	b.t.Helper()
	a := b.do(r)
	if a.status/100 != 2 {
		b.t.Fatalf("%s %s: %d %s", r.method, r.path, a.status, a.body)
	}
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		b.t.Fatalf("%s %s: %v in %s", r.method, r.path, err, a.body)
	}
}

// until waits for a change of the log after which ok holds.
func (b *box) until(what string, ok func() bool) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	done := errors.New("done")
	if ok() {
		return
	}
	err := b.log.Follow(ctx, 0, func([]byte, func() (actionlog.Event, error)) error {
		if ok() {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) && !ok() {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// running starts a task and waits until it has its sandbox.
func (b *box) running() task.Task {
	b.t.Helper()
	t, err := b.tasks.Create(b.t.Context(), []byte(`{"title":"A task","worker":"fake","prompt":"sleep 1h"}`), task.Caller{})
	if err != nil {
		b.t.Fatal(err)
	}
	b.until("running", func() bool {
		now, err := b.tasks.Get(b.t.Context(), t.ID)
		return err == nil && now.State == task.Running
	})
	return t
}

// asked is a question of a running task that nobody answered.
func (b *box) asked(key string) approval.Approval {
	b.t.Helper()
	t := b.running()
	a, err := b.tasks.Ask(b.t.Context(), approval.Approval{ID: t.ID + ".task." + key, Task: t.ID, Question: "May I?"})
	if err != nil {
		b.t.Fatal(err)
	}
	return a
}

// put puts a file into workspace home and gives the finished task.
func (b *box) put(name, text string) task.Task {
	b.t.Helper()
	t, err := b.tasks.PutFiles(b.t.Context(), "home", func(w *layers.Writer) error {
		return w.File(name, 0o644, time.Time{}, strings.NewReader(text))
	}, "test")
	if err != nil {
		b.t.Fatal(err)
	}
	return t
}

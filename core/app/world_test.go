package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/app"
	"gurtos/core/broker"
	"gurtos/core/budget"
	"gurtos/core/durable"
	"gurtos/core/settings"
	"gurtos/core/task"
	"gurtos/core/vault"
	"gurtos/core/workspace"
	"gurtos/netpolicy"
	"gurtos/sandbox"
	"gurtos/sandbox/layers"
	"gurtos/sandbox/sandboxtest"
	"gurtos/test/planted"
)

// world is a box with apps and no tasks that run: real sandboxes, real Node, the real
// log.
type world struct {
	t      *testing.T
	home   string
	root   string // with core/ and tracks/
	host   *sandbox.Host
	events *actionlog.Log
	tasks  *task.Tasks
	vault  *vault.Vault
	spaces *workspace.Workspaces
	opt    app.Options
	apps   *app.Registry

	broker *broker.Broker
	stop   context.CancelFunc // ends the tasks
	ended  chan error
}

// repo is the source tree.
const repo = "../.."

// newWorld makes a box whose apps are these: their track.ts by name, or other files of
// theirs by name/path.
func newWorld(t *testing.T, apps map[string]string, set ...func(*app.Options)) *world {
	t.Helper()
	t.Parallel() // much of it is waiting; each has a host and a log of its own
	w := &world{t: t, home: t.TempDir(), root: t.TempDir()}
	for _, dir := range []string{w.home, w.root} {
		must(t, os.Chmod(dir, 0o711))
	}
	for _, f := range []string{"contract.ts", "triggers.ts"} {
		b, err := os.ReadFile(filepath.Join(repo, "core", f))
		must(t, err)
		put(t, filepath.Join(w.root, "core", f), string(b))
	}
	must(t, os.MkdirAll(filepath.Join(w.root, "tracks"), 0o755))
	for name, text := range apps {
		w.put(name, text)
	}
	nets, err := netpolicy.Open(slog.New(slog.DiscardHandler), 1)
	must(t, err)
	t.Cleanup(func() { nets.Close() })
	conf := sandboxtest.Config(t)
	conf.Disk = w.home
	conf.Namespaces = func() (sandbox.Namespace, error) {
		ns, err := nets.Namespace()
		if err != nil {
			return nil, err
		}
		return ns, nil
	}
	w.host = sandboxtest.OpenAs(t, conf)
	key := filepath.Join(w.home, "vault.env")
	values := planted.New()
	values.Write(t, w.home)
	t.Cleanup(func() { values.Files(t, w.home) }) // what its apps keep, too
	w.vault, err = vault.Open(durable.Disk, key)
	must(t, err)
	w.spaces, err = workspace.Open(durable.Disk, filepath.Join(w.home, "workspaces"))
	must(t, err)
	_, err = w.spaces.Make("home")
	must(t, err)
	w.opt = app.Options{
		Dir: filepath.Join(w.root, "tracks"), SDK: filepath.Join(w.root, "core"), Home: w.home,
		Vault: w.vault, Workspaces: w.spaces, Runner: runner{w.host}, Layers: onDisk{}, Network: network{},
		Slog: slog.New(slog.NewTextHandler(testLog{t}, nil)),
	}
	for _, s := range set {
		s(&w.opt)
	}
	w.open()
	t.Cleanup(w.close)
	return w
}

// open starts the box, close ends it.
func (w *world) open() {
	w.t.Helper()
	var err error
	w.events, err = actionlog.Open(w.home, actionlog.Options{})
	must(w.t, err)
	values, err := settings.Open(durable.Disk, filepath.Join(w.home, "settings.json"))
	must(w.t, err)
	late := &lateTools{}
	w.tasks, err = task.New(w.t.Context(), task.Options{
		Home: w.home, Log: w.events, Layers: task.OnDisk(w.host.Mounter()), Tools: late, Settings: values, Runner: task.RunnerFunc(w.start),
		Context: func(ctx context.Context, spec json.RawMessage) string { return late.Context(ctx, spec) },
		Workers: map[string]task.Worker{"fake": {Args: []string{"/usr/lib/gurtos/worker", "fake"}}},
	})
	must(w.t, err)
	w.opt.Tasks, w.opt.Events = w.tasks, w.events
	w.apps, err = app.Open(w.t.Context(), w.opt)
	must(w.t, err)
	w.until("all apps are read", func() bool {
		return !slices.ContainsFunc(w.apps.List(), func(i app.Info) bool { return i.Reading })
	})
	late.Registry = w.apps
	w.broker = broker.New(broker.Options{Tasks: w.tasks, Tools: late, Vault: w.vault})
	ctx, stop := context.WithCancel(context.Background())
	w.stop, w.ended = stop, make(chan error, 1)
	go func() { w.ended <- w.tasks.Run(ctx, w.broker) }()
	w.apps.Start()
}

func (w *world) start(ctx context.Context, spec sandbox.Spec) (task.Sandbox, error) {
	s, err := w.host.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// task starts a fake worker's task that may use the tools.
func (w *world) task(prompt string, tools ...string) string {
	w.t.Helper()
	spec, err := json.Marshal(map[string]any{"title": "T", "prompt": prompt, "worker": "fake", "tools": append([]string{}, tools...)})
	must(w.t, err)
	made, err := w.tasks.Create(w.t.Context(), spec, task.Caller{})
	must(w.t, err)
	return made.ID
}

// over waits for a task's end, or until it waits.
func (w *world) over(id string, states ...task.State) task.Task {
	w.t.Helper()
	var now task.Task
	if states == nil {
		states = []task.State{task.Done, task.Failed, task.Undone}
	}
	w.until(fmt.Sprintf("%s is %v", id, states), func() bool {
		var err error
		now, err = w.tasks.Get(w.t.Context(), id)
		must(w.t, err)
		return slices.Contains(states, now.State)
	})
	return now
}

// results are the results of a task's calls, as JSON or their error.
func (w *world) results(id string) (all []string) {
	w.t.Helper()
	must(w.t, w.events.Read(w.t.Context(), 0, func(_ []byte, event func() (actionlog.Event, error)) error {
		ev, err := event()
		if err == nil && ev.Type == actionlog.TypeToolResult && ev.Task == id {
			all = append(all, string(ev.Output)+ev.Error)
		}
		return err
	}))
	return all
}

func (w *world) close() {
	w.stop()
	if err := <-w.ended; err != nil {
		w.t.Errorf("the tasks: %v", err)
	}
	w.broker.Close()
	if err := w.apps.Close(); err != nil {
		w.t.Errorf("closing the apps: %v", err)
	}
	if err := w.events.Close(); err != nil {
		w.t.Errorf("closing the log: %v", err)
	}
}

func (w *world) reopen() {
	w.t.Helper()
	w.close()
	w.open()
}

// put writes an app's file: hello is hello/track.ts.
func (w *world) put(name, text string) {
	w.t.Helper()
	if !strings.Contains(name, "/") {
		name += "/track.ts"
	}
	put(w.t, filepath.Join(w.root, "tracks", name), text)
}

// on turns an app on.
func (w *world) on(names ...string) {
	w.t.Helper()
	for _, name := range names {
		if err := w.apps.Switch(w.t.Context(), name, true, "test"); err != nil {
			w.t.Fatalf("turning %s on: %v", name, err)
		}
	}
}

// info is an app as the API shows it.
func (w *world) info(name string) app.Info {
	w.t.Helper()
	i, ok := w.apps.Find(name)
	if !ok {
		w.t.Fatalf("there is no app %s", name)
	}
	return i
}

// call calls a tool and gives its output as JSON, or its error.
func (w *world) call(name, input string, calls ...*call) (string, error) {
	w.t.Helper()
	c := &call{}
	if len(calls) > 0 {
		c = calls[0]
	}
	tl, ok := w.apps.Lookup(name)
	if !ok {
		w.t.Fatalf("there is no tool %s", name)
	}
	out, err := tl.Run(w.t.Context(), json.RawMessage(input), c)
	return string(out), err
}

// until waits until something holds.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	until(w.t, what, holds)
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(5 * time.Minute) // sooner than go test gives up
	defer late.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// notes are the notes of a track, the box's too.
func (w *world) notes(track string) (all []string) {
	w.t.Helper()
	err := w.events.Read(w.t.Context(), 0, func(_ []byte, event func() (actionlog.Event, error)) error {
		ev, err := event()
		if err == nil && ev.Type == actionlog.TypeNote && ev.Track == track {
			all = append(all, string(ev.Data))
		}
		return err
	})
	must(w.t, err)
	return all
}

// call is what a broker gives a tool.
type call struct {
	key  string
	task task.Task
	old  bool // it may have begun before

	mu    sync.Mutex
	costs []string
	steps []string
	asked []string
	say   func(ctx context.Context, question string) (bool, error)
}

func (c *call) Task() task.Task { return c.task }
func (c *call) Fresh() bool     { return !c.old }
func (c *call) Key() string {
	if c.key == "" {
		return "t1.k"
	}
	return c.key
}

func (c *call) Cost(n budget.Cents, what string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.costs = append(c.costs, n.String()+" "+what)
	return nil
}

func (c *call) Log(text string, data json.RawMessage) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps = append(c.steps, text+" "+string(data))
	return nil
}

func (c *call) Ask(ctx context.Context, question, purpose string) (bool, error) {
	c.mu.Lock()
	c.asked = append(c.asked, question+" "+purpose)
	say := c.say
	c.mu.Unlock()
	if say == nil {
		return true, nil
	}
	return say(ctx, question)
}

type lateTools struct{ *app.Registry }

func (l *lateTools) Has(name string) bool     { return l.Registry != nil && l.Registry.Has(name) }
func (l *lateTools) Title(name string) string { return l.Registry.Title(name) }

type runner struct{ *sandbox.Host }

func (r runner) Start(ctx context.Context, spec sandbox.Spec) (app.Sandbox, error) {
	s, err := r.Host.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	return s, nil
}

type onDisk struct{}

func (onDisk) Create(dir string) error  { return layers.Create(dir) }
func (onDisk) Recover(dir string) error { _, err := layers.Recover(dir); return err }

// network gives apps the network of a box.
type network struct{}

func (network) Attach(ns sandbox.Namespace, p netpolicy.Policy) (app.Space, error) {
	s, err := ns.(*netpolicy.Namespace).Attach(p)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t testing.TB, name, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(t, os.WriteFile(name, []byte(text), 0o644))
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

package broker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/approval"
	"gurtos/core/broker"
	"gurtos/core/durable/powercut"
	"gurtos/core/settings"
	"gurtos/core/task"
	"gurtos/sandbox"
	"gurtos/test/planted"
)

// box is the engine without API and sandboxes, on a disk whose power can be cut: the
// test is the worker of every task.
type box struct {
	t      testing.TB
	home   string
	disk   *powercut.Disk // of the log, which is in home/disk
	opt    boxOptions
	log    *actionlog.Log
	tasks  *task.Tasks
	broker *broker.Broker
	runner *runner
	stop   context.CancelFunc
	ended  chan error
}

type boxOptions struct {
	tools    toolSet
	settings settings.Values
	wait     time.Duration
	now      func() time.Time
	mono     func() time.Duration
	synced   func() bool
	reads    func(*actionlog.Log) task.Log // what tasks are given in the log's place
	vault    broker.Vault
	free     func() (int64, error) // room on the disk
	host     *sandbox.Host         // real sandboxes over real layers, when set
}

func (o boxOptions) Values() settings.Values { return o.settings }

func values() settings.Values {
	v := settings.Defaults()
	v.MaxRunning = 8
	return v
}

// newBox starts a box with an empty home and one workspace.
func newBox(t testing.TB, o boxOptions) *box {
	t.Helper()
	home, err := os.MkdirTemp("/tmp", "box") // short: a socket's path has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	for _, dir := range []string{"workspaces/home", "disk"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if o.settings.MaxRunning == 0 {
		o.settings = values()
	}
	if o.wait == 0 {
		o.wait = time.Minute
	}
	if o.vault == nil {
		values := planted.New()
		o.vault = secrets(values)
		t.Cleanup(func() { values.Files(t, home) })
	}
	b := &box{t: t, home: home, disk: powercut.New(filepath.Join(home, "disk")), opt: o}
	b.start()
	t.Cleanup(func() { b.halt() })
	return b
}

func (b *box) start() {
	b.t.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	if os.Getenv("BROKER_TEST_LOG") != "" {
		quiet = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	var err error
	free := b.opt.free
	if free == nil {
		free = func() (int64, error) { return 1 << 40, nil }
	}
	if b.log, err = actionlog.Open(filepath.Join(b.home, "disk"), actionlog.Options{FS: b.disk, Now: b.opt.now, Mono: b.opt.mono, Free: free, Reserve: -1}); err != nil {
		b.t.Fatal(err)
	}
	b.runner = &runner{dir: b.home, boxes: map[string]*sandboxed{}, changed: make(chan struct{})}
	canary, err := broker.OpenCanary(b.disk, filepath.Join(b.home, "disk", "canary.key"))
	if err != nil {
		b.t.Fatal(err)
	}
	var run task.Runner = b.runner
	var kept task.Layers = &folders{}
	if h := b.opt.host; h != nil {
		run, kept = task.RunnerFunc(func(ctx context.Context, s sandbox.Spec) (task.Sandbox, error) {
			sb, err := h.Start(ctx, s)
			if err != nil {
				return nil, err
			}
			return sb, nil
		}), task.OnDisk(h.Mounter())
	}
	var log task.Log = b.log
	if b.opt.reads != nil {
		log = b.opt.reads(b.log)
	}
	b.tasks, err = task.New(b.t.Context(), task.Options{
		Home: b.home, Log: log, Runner: run, Layers: kept, Tools: b.opt.tools, Settings: b.opt,
		Workers: map[string]task.Worker{"fake": {Args: []string{"/usr/lib/gurtos/worker", "fake"}}}, Canary: canary, Now: b.opt.now, Mono: b.opt.mono, Synced: b.opt.synced, Slog: quiet,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.broker = broker.New(broker.Options{
		Tasks: b.tasks, Tools: b.opt.tools, Vault: b.opt.vault, Canary: canary, Wait: b.opt.wait, Slog: quiet,
	})
	ctx, cancel := context.WithCancel(context.Background())
	b.stop, b.ended = cancel, make(chan error, 1)
	go func() { b.ended <- b.tasks.Run(ctx, b.broker) }()
}

// halt ends the box in order.
func (b *box) halt() {
	if b.stop == nil {
		return
	}
	b.stop()
	<-b.ended
	b.broker.Close()
	b.log.Close()
	b.stop = nil
}

// restart ends the box in order and starts it again.
func (b *box) restart() {
	b.t.Helper()
	b.halt()
	b.start()
}

// cut takes the power away now, and starts the box again on what the disk has.
func (b *box) cut(seed uint64) {
	b.t.Helper()
	b.disk.CutAfter(0)
	b.runner.killAll()
	b.halt()
	if err := b.disk.Cut(seed); err != nil {
		b.t.Fatal(err)
	}
	b.disk = powercut.New(filepath.Join(b.home, "disk"))
	b.start()
}

// create makes a task of worker fake.
func (b *box) create(spec string) task.Task {
	b.t.Helper()
	t, err := b.tasks.Create(b.t.Context(), []byte(spec), task.Caller{By: "test"})
	if err != nil {
		b.t.Fatal(err)
	}
	return t
}

// begin makes a task and waits until its worker, the test, may work.
func (b *box) begin(fields string) string {
	b.t.Helper()
	if fields != "" {
		fields = "," + fields
	}
	t := b.create(`{"title":"t","prompt":"x","worker":"fake"` + fields + `}`)
	b.runner.wait(b.t, t.ID)
	return t.ID
}

func (b *box) task(id string) task.Task {
	b.t.Helper()
	t, err := b.tasks.Get(b.t.Context(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return t
}

// until waits until a task is in a state.
func (b *box) until(id string, want task.State) task.Task {
	b.t.Helper()
	var got task.Task
	eventually(b.t, func() bool { got = b.task(id); return got.State == want }, func() string {
		return fmt.Sprintf("%s is %s, not %s: %s", id, got.State, want, got.Error)
	})
	return got
}

// eventually polls until ok, for at most 20 seconds.
func eventually(t testing.TB, ok func() bool, what func() string) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal(what())
		}
	}
}

// pending waits for the one question of a task that has no answer.
func (b *box) pending(id string) approval.Approval {
	b.t.Helper()
	var got approval.Approval
	eventually(b.t, func() bool {
		all, err := b.tasks.Approvals(b.t.Context(), approval.Pending)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, a := range all {
			if a.Task == id {
				got = a
				return true
			}
		}
		return false
	}, func() string { return "no question of " + id })
	return got
}

func (b *box) answer(id string, yes bool) approval.Approval {
	b.t.Helper()
	a, err := b.tasks.Answer(b.t.Context(), id, yes, "bar", "")
	if err != nil {
		b.t.Fatal(err)
	}
	return a
}

// events are the lines of the log, of one type if it is named, of one task if it is.
func (b *box) events(kind actionlog.Type, id string) []actionlog.Event {
	b.t.Helper()
	var out []actionlog.Event
	err := b.log.Read(b.t.Context(), 0, func(_ []byte, event func() (actionlog.Event, error)) error {
		ev, err := event()
		if err == nil && (kind == "" || ev.Type == kind) && (id == "" || ev.Task == id) {
			out = append(out, ev)
		}
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// answered is what the broker said.
type answered struct {
	status int
	raw    string
	body   map[string]any
}

func (a answered) String() string { return fmt.Sprintf("%d %s", a.status, strings.TrimSpace(a.raw)) }

// send makes a request of a task's worker.
func (b *box) send(ctx context.Context, id, method, path, body string) (answered, error) {
	sb := b.runner.get(id)
	if sb == nil {
		return answered{}, errors.New("no sandbox")
	}
	return sendTo(ctx, sb.path, method, path, body)
}

func sendTo(ctx context.Context, socket, method, path, body string) (answered, error) {
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(ctx, method, "http://box"+path, strings.NewReader(body))
	if err != nil {
		return answered{}, err
	}
	res, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		return answered{}, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	a := answered{status: res.StatusCode, raw: string(raw)}
	if err == nil && len(raw) > 0 && raw[0] == '{' {
		err = json.Unmarshal(raw, &a.body)
	}
	return a, err
}

// post is send of a worker that nothing stops.
func (b *box) post(id, path, body string) answered {
	b.t.Helper()
	a, err := b.send(b.t.Context(), id, "POST", path, body)
	if err != nil {
		b.t.Fatalf("POST %s: %v", path, err)
	}
	return a
}

func (b *box) get(id, path string) answered {
	b.t.Helper()
	a, err := b.send(b.t.Context(), id, "GET", path, "")
	if err != nil {
		b.t.Fatalf("GET %s: %v", path, err)
	}
	return a
}

// call is POST /call that answers 200.
func (b *box) call(id, key, tool, input string) answered {
	b.t.Helper()
	a := b.post(id, "/call", fmt.Sprintf(`{"key":%q,"tool":%q,"input":%s}`, key, tool, input))
	if a.status != 200 {
		b.t.Fatalf("call %s: %v", key, a)
	}
	return a
}

// finish ends a task's worker well.
func (b *box) finish(id string) task.Task {
	b.t.Helper()
	b.runner.get(id).end(sandbox.Exit{})
	return b.until(id, task.Done)
}

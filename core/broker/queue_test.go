package broker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/task"
	"gurtos/sandbox"
)

const plain = `{"title":"t","prompt":"x","worker":"fake"}`

func (b *box) createFor(app string) string {
	b.t.Helper()
	t, err := b.tasks.Create(b.t.Context(), []byte(plain), task.Caller{App: app})
	if err != nil {
		b.t.Fatal(err)
	}
	return t.ID
}

func (b *box) pause(on bool) {
	b.t.Helper()
	if err := b.tasks.Pause(b.t.Context(), on, "me"); err != nil {
		b.t.Fatal(err)
	}
}

// No more than maxRunning run; the rest start app by app in turn; a task that waits
// for an answer gives its place to another.
func TestQueueTakesTurns(t *testing.T) {
	v := values()
	v.MaxRunning = 1
	b := newBox(t, boxOptions{settings: v})
	first := b.begin("")
	names := map[string]string{first: "first"}
	for _, x := range []string{"a1", "a2", "a3", "b1", "c1", "c2"} {
		names[b.createFor(x[:1])] = x
	}
	order := func() string {
		b.runner.mu.Lock()
		defer b.runner.mu.Unlock()
		var out []string
		for _, id := range b.runner.started {
			out = append(out, names[id])
		}
		return strings.Join(out, " ")
	}
	for n := 1; n < len(names); n++ {
		b.runner.mu.Lock()
		last := b.runner.started[n-1]
		b.runner.mu.Unlock()
		if running, err := b.tasks.List(t.Context(), task.Filter{State: task.Running}); err != nil || len(running) != 1 {
			t.Fatal(running, err)
		}
		b.finish(last)
		eventually(t, func() bool { return len(strings.Fields(order())) == n+1 }, order)
	}
	if got := order(); got != "first a1 b1 c1 a2 c2 a3" {
		t.Fatal(got)
	}
}

func TestWaitingTaskGivesItsPlace(t *testing.T) {
	v := values()
	v.MaxRunning = 1
	b := newBox(t, boxOptions{settings: v})
	first := b.begin("")
	second := b.create(plain).ID
	go b.send(context.Background(), first, "POST", "/ask", `{"question":"?","key":"k"}`)
	ask := b.pending(first)
	b.runner.wait(t, second)
	b.answer(ask.ID, true)
	b.until(first, task.Running)
}

func TestPauseHoldsAgents(t *testing.T) {
	shop := &till{}
	b := shopBox(t, shop, boxOptions{})
	id := b.begin(buys)
	b.pause(true)
	if !b.tasks.Paused() || b.tasks.Standstill() != "paused" {
		t.Fatal(b.tasks.Standstill())
	}
	sb := b.runner.get(id)
	frozen := func() bool { sb.mu.Lock(); defer sb.mu.Unlock(); return sb.frozen }
	if !frozen() {
		t.Fatal("the sandbox is not frozen")
	}
	queued := b.create(plain).ID
	posts := map[string]string{
		"/step": `{"text":"x"}`,
		"/call": `{"key":"k","tool":"shop.buy","input":{"cents":1}}`,
		"/ask":  `{"question":"?","key":"q"}`,
	}
	got := make(chan string, len(posts))
	for path, body := range posts {
		go func() { b.send(context.Background(), id, "POST", path, body); got <- path }()
	}
	// What reports money that is spent already doesn't wait, nor does reading.
	for _, x := range []answered{b.post(id, "/cost", `{"cents":1,"what":"x"}`), b.post(id, "/usage", `{"model":"m","tokens":{"input":1}}`), b.get(id, "/task"), b.get(id, "/tools")} {
		if x.status != 200 {
			t.Fatal(x)
		}
	}
	if len(got) != 0 || b.task(queued).State != task.Queued || shop.total() != 0 {
		t.Fatal("something went on", len(got), b.task(queued).State)
	}
	// Paused is a fact of the log: a box that starts again stands still.
	b.restart()
	if !b.tasks.Paused() || b.task(id).State != task.Running {
		t.Fatal(b.task(id))
	}
	b.pause(false)
	b.runner.wait(t, id)
	b.runner.wait(t, queued)
	for path, body := range posts {
		if path == "/ask" {
			continue
		}
		if a := b.post(id, path, body); a.status != 200 {
			t.Fatal(a)
		}
	}
}

// What waited at the broker goes on once agents may work again, and a tool that ran
// when they were stopped ends.
func TestPauseEnds(t *testing.T) {
	shop := &till{hold: make(chan struct{})}
	b := shopBox(t, shop, boxOptions{})
	id := b.begin(buys)
	flying := make(chan answered, 1)
	go func() { flying <- b.call(id, "flying", "shop.buy", `{"cents":1}`) }()
	eventually(t, func() bool { return shop.total() == 1 }, func() string { return "the tool was not run" })
	b.pause(true)
	close(shop.hold)
	if a := <-flying; a.body["ok"] != true {
		t.Fatal(a)
	}
	step := make(chan answered, 1)
	go func() { step <- b.post(id, "/step", `{"text":"x"}`) }()
	b.pause(true) // twice is once
	b.pause(false)
	if a := <-step; a.status != 200 {
		t.Fatal(a)
	}
	sb := b.runner.get(id)
	sb.mu.Lock()
	defer sb.mu.Unlock()
	if sb.frozen {
		t.Fatal("still frozen")
	}
}

// An OK that comes while agents are paused starts nothing until they may work.
func TestApprovedWhilePaused(t *testing.T) {
	shop := &till{}
	b := shopBox(t, shop, boxOptions{})
	id := b.begin(buys)
	got := make(chan answered, 1)
	go func() { got <- b.call(id, "k", "shop.buy", `{"cents":300}`) }()
	ask := b.pending(id)
	b.pause(true)
	b.answer(ask.ID, true)
	eventually(t, func() bool { return b.task(id).State == task.Running }, func() string { return "no state" })
	for range 50 { // what doesn't wait gets on meanwhile, and so would the call
		if a, err := b.send(t.Context(), id, "POST", "/cost", `{"cents":1,"what":"x"}`); err != nil || a.status != 200 {
			t.Fatal(a, err)
		}
	}
	if shop.total() != 0 {
		t.Fatal("a tool ran")
	}
	b.pause(false)
	if a := <-got; a.body["ok"] != true {
		t.Fatal(a)
	}
}

// decisions is a log that tells when what was decided is on disk: whoever decides waits for
// that, whatever came of it.
type decisions struct {
	task.Log
	told chan struct{}
}

func (d decisions) Wait(ctx context.Context, seq int64) error {
	err := d.Log.Wait(ctx, seq)
	select {
	case d.told <- struct{}{}:
	default:
	}
	return err
}

// A pause that comes while a step's layer is synced, after the step was let in, still stops it.
func TestAPauseOvertakesAStep(t *testing.T) {
	told := make(chan struct{}, 1)
	b := newBox(t, boxOptions{reads: func(l *actionlog.Log) task.Log { return decisions{l, told} }})
	id := b.begin("")
	sb, synced := b.runner.get(id), make(chan struct{})
	var once sync.Once
	sb.mu.Lock()
	sb.during = func() {
		once.Do(func() {
			b.pause(true)
			select {
			case <-told: // whatever was decided until now
			default:
			}
			close(synced)
		})
	}
	sb.mu.Unlock()
	got := make(chan answered, 1)
	go func() { got <- b.post(id, "/step", `{"text":"one"}`) }()
	<-synced
	<-told // nothing but the step is under way
	if n := len(b.events(actionlog.TypeTaskStep, id)); n != 0 {
		t.Fatalf("%d steps in a pause", n)
	}
	b.pause(false)
	if a := <-got; a.status != 200 {
		t.Fatal(a)
	}
	if n := len(b.events(actionlog.TypeTaskStep, id)); n != 1 {
		t.Fatalf("%d steps, not one", n)
	}
}

func TestFullDiskStopsNewWork(t *testing.T) {
	var room atomic.Int64
	room.Store(1 << 40)
	b := newBox(t, boxOptions{free: func() (int64, error) { return room.Load(), nil }})
	id := b.begin("")
	other := b.begin("")
	room.Store(1 << 20)
	eventually(t, func() bool { return b.tasks.Standstill() == "paused: disk full" }, func() string { return b.tasks.Standstill() })
	queued := b.create(plain).ID
	go b.send(context.Background(), id, "POST", "/step", `{"text":"x"}`)
	// It still answers and undoes.
	if _, err := b.tasks.Undo(t.Context(), other, "me"); err != nil {
		t.Fatal(err)
	}
	if b.task(queued).State != task.Queued {
		t.Fatal(b.task(queued))
	}
	b.toldOfDisk(1, func(n diskNote) bool { return n.Full && n.Free == 1<<20 && strings.Contains(n.Do, "box task undo") })
	room.Store(1 << 40)
	b.runner.wait(t, queued)
	eventually(t, func() bool { return b.task(id).Step == "x" }, func() string { return "the step did not go on" })
	b.toldOfDisk(2, func(n diskNote) bool { return !n.Full && n.Free == 1<<40 && n.Do == "" })
	// What was told is not told again at a start, and what changed while the box was off is.
	for n := 3; n <= 4; n++ {
		full := n == 3
		b.halt()
		room.Store(1 << 40)
		if full {
			room.Store(1 << 20)
		}
		b.start()
		b.toldOfDisk(n, func(n diskNote) bool { return n.Full == full })
		b.restart()
		eventually(t, func() bool { return b.tasks.Standstill() != "" == full }, func() string { return b.tasks.Standstill() })
		b.toldOfDisk(n, func(n diskNote) bool { return n.Full == full })
	}
}

// diskNote is what the log tells of the disk.
type diskNote struct {
	What, Do string
	Full     bool
	Free     int64
}

// toldOfDisk waits for the nth note about the disk, and holds the last to what it is to say.
func (b *box) toldOfDisk(n int, is func(diskNote) bool) {
	b.t.Helper()
	eventually(b.t, func() bool { return len(b.diskNotes()) >= n }, func() string { return fmt.Sprintf("the log tells of the disk %+v", b.diskNotes()) })
	if got := b.diskNotes(); len(got) != n || !is(got[n-1]) {
		b.t.Fatalf("the log tells of the disk %+v", got)
	}
}

func (b *box) diskNotes() (out []diskNote) {
	b.t.Helper()
	for _, ev := range b.events(actionlog.TypeNote, "") {
		var n diskNote
		if err := json.Unmarshal(ev.Data, &n); err == nil && n.What == "disk" {
			out = append(out, n)
		}
	}
	return out
}

func TestLayersAreThoseOfDoneTasks(t *testing.T) {
	b := newBox(t, boxOptions{})
	a1, a2, a3 := b.begin(""), b.begin(""), b.begin("")
	b.finish(a2)
	b.finish(a1) // the one that ended later lies above
	b.runner.get(a3).end(sandbox.Exit{Code: 1})
	b.until(a3, task.Failed)
	want := a1 + " " + a2
	x := b.begin("")
	if got := strings.Join(b.task(x).Layers, " "); got != want {
		t.Fatalf("%s, not %s", got, want)
	}
	var lowers []string
	for _, l := range b.runner.get(x).spec.Work.Lowers {
		lowers = append(lowers, filepath.Base(filepath.Dir(l)))
	}
	if got := strings.Join(lowers, " "); got != want {
		t.Fatalf("the view has %s", got)
	}
	if _, err := b.tasks.Undo(t.Context(), a1, "me"); err != nil {
		t.Fatal(err)
	}
	b.restart()
	b.runner.wait(t, x)
	if got := strings.Join(b.task(x).Layers, " "); got != want {
		t.Fatalf("a task sees to its end what it saw at its start: %s", got)
	}
	if y := b.begin(""); strings.Join(b.task(y).Layers, " ") != a2 {
		t.Fatal(b.task(y).Layers)
	}
	// The undone layer stays while somebody reads it, and not longer.
	dir := filepath.Join(b.home, "tasks", a1)
	if _, err := os.Stat(dir); err != nil {
		t.Fatal(err)
	}
	b.finish(x)
	eventually(t, func() bool { _, err := os.Stat(dir); return errors.Is(err, os.ErrNotExist) }, func() string { return "the undone layer is still there" })
}

// Stop and undo at every state: what the table allows happens, with the open questions
// answered no by whom the specification says.
func TestStopAndUndoAnywhere(t *testing.T) {
	reach := map[string]func(b *box) string{
		"queued": func(b *box) string { b.pause(true); return b.create(plain).ID },
		"running": func(b *box) string {
			return b.begin("")
		},
		"waiting": func(b *box) string {
			id := b.begin("")
			go b.send(context.Background(), id, "POST", "/ask", `{"question":"?","key":"k"}`)
			b.pending(id)
			return id
		},
		"done": func(b *box) string { id := b.begin(""); b.finish(id); return id },
		"failed": func(b *box) string {
			id := b.begin("")
			b.runner.get(id).end(sandbox.Exit{Code: 1})
			b.until(id, task.Failed)
			return id
		},
		"undone": func(b *box) string {
			id := b.begin("")
			b.tasks.Undo(b.t.Context(), id, "me")
			return id
		},
	}
	for state, get := range reach {
		for _, act := range []string{"stop", "undo"} {
			t.Run(act+" "+state, func(t *testing.T) {
				b := newBox(t, boxOptions{})
				id := get(b)
				from := b.task(id).State
				if string(from) != state {
					t.Fatal(from)
				}
				do, to, by := b.tasks.Stop, task.Failed, "task ended"
				if act == "undo" {
					do, to, by = b.tasks.Undo, task.Undone, "undo"
				}
				x, err := do(t.Context(), id, "bar")
				if !from.Can(to) {
					var no *task.Refused
					if !errors.As(err, &no) || b.task(id).State != from {
						t.Fatal(x, err)
					}
					return
				}
				if err != nil || x.State != to || act == "stop" && x.Error != "Stopped by bar." {
					t.Fatal(x, err)
				}
				if state == "waiting" {
					ev := b.events(actionlog.TypeApprovalAnswered, id)
					if len(ev) != 1 || ev[0].By != by || *ev[0].Approved {
						t.Fatal(ev)
					}
				}
				if sb := b.runner.get(id); sb != nil {
					select {
					case <-sb.done:
					case <-time.After(2 * time.Minute):
						t.Fatal("the sandbox lives")
					}
				}
				if act == "undo" {
					eventually(t, func() bool {
						_, err := os.Stat(filepath.Join(b.home, "tasks", id))
						return errors.Is(err, os.ErrNotExist)
					}, func() string { return "its folder is still there" })
				}
				b.restart()
				if got := b.task(id).State; got != to {
					t.Fatalf("after a restart it is %s", got)
				}
			})
		}
	}
}

func TestSandboxThatCannotStart(t *testing.T) {
	b := newBox(t, boxOptions{})
	b.runner.mu.Lock()
	b.runner.refuse = errors.New("no cgroup")
	b.runner.mu.Unlock()
	x := b.until(b.create(plain).ID, task.Failed)
	if x.Error != "The sandbox could not be started: no cgroup." {
		t.Fatal(x.Error)
	}
}

// A worker that ended well before the box could say so doesn't run again.
func TestSealedLayerIsDone(t *testing.T) {
	b := newBox(t, boxOptions{})
	id := b.begin("")
	layer := filepath.Join(b.home, "tasks", id, "layer")
	b.halt()
	if err := os.WriteFile(filepath.Join(layer, "sealed"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.until(id, task.Done)
	if b.runner.get(id) != nil {
		t.Fatal("it was started again")
	}
}

// What old tasks leave is deleted after keepDays; a done task's changes stay.
func TestOldTasksAreCleared(t *testing.T) {
	v := values()
	v.KeepDays = 30
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	b := newBox(t, boxOptions{settings: v, now: now, synced: heard})
	failed, done := b.begin(""), b.begin("")
	b.runner.get(failed).end(sandbox.Exit{Code: 1})
	b.until(failed, task.Failed)
	b.finish(done)
	there := func(parts ...string) bool {
		_, err := os.Stat(filepath.Join(append([]string{b.home, "tasks"}, parts...)...))
		return err == nil
	}
	ahead.Store(int64(29 * 24 * time.Hour))
	b.restart()
	last := b.begin("")
	b.finish(last)
	if !there(failed, "layer") || !there(failed, "home") || !there(done, "home") {
		t.Fatal("deleted too early")
	}
	ahead.Store(int64(31 * 24 * time.Hour))
	b.restart()
	eventually(t, func() bool { return !there(failed) && !there(done, "home") }, func() string { return "still there" })
	if !there(done, "layer") || !there(last, "home") {
		t.Fatal("too much was deleted")
	}
	if b.task(failed).State != task.Failed {
		t.Fatal("the log keeps the task")
	}
}

// A sandbox that the kernel takes its time to freeze holds up only the pause itself:
// everything else is answered meanwhile, and the pause returns once all stand still.
func TestASlowFreezeHoldsNobodyUp(t *testing.T) {
	b := newBox(t, boxOptions{})
	slow, other := b.begin(""), b.begin("")
	sb := b.runner.get(slow)
	c := make(chan struct{})
	free := sync.OnceFunc(func() { close(c) })
	late := time.AfterFunc(time.Minute, func() {
		t.Error("everything else is held up")
		free()
	})
	defer late.Stop()
	sb.mu.Lock()
	sb.slow = c
	sb.mu.Unlock()
	paused := make(chan error, 1)
	go func() { paused <- b.tasks.Pause(t.Context(), true, "me") }()
	fast := b.runner.get(other)
	eventually(t, func() bool { fast.mu.Lock(); defer fast.mu.Unlock(); return fast.frozen }, func() string { return "the other is not frozen" })
	if got := b.task(slow); got.State != task.Running {
		t.Fatal(got)
	}
	if a := b.post(slow, "/cost", `{"cents":3,"what":"x"}`); a.status != 200 {
		t.Fatal(a)
	}
	ended, err := b.tasks.Stop(t.Context(), other, "me")
	if err != nil || ended.State != task.Failed {
		t.Fatal(ended, err)
	}
	select {
	case err := <-paused:
		t.Fatal("paused before all stand still", err)
	default:
	}
	free()
	if err := <-paused; err != nil {
		t.Fatal(err)
	}
	sb.mu.Lock()
	defer sb.mu.Unlock()
	if !sb.frozen {
		t.Fatal("not frozen")
	}
}

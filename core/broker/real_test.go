package broker_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/task"
	"gurtos/sandbox/layers"
	"gurtos/sandbox/sandboxtest"
)

// realBox is a box whose tasks run the fake worker in real sandboxes.
func realBox(t *testing.T, shop *till) *box {
	t.Helper()
	o := boxOptions{host: sandboxtest.Open(t)}
	if shop != nil {
		free := shop.tool("shop.look")
		free.Input, free.Cost, free.Card = nil, nil, nil
		o.tools = toolSet{"shop.buy": shop.tool("shop.buy"), "shop.look": free}
	}
	b := newBox(t, o)
	if err := os.Chown(filepath.Join(b.home, "workspaces", "home"), layers.Canonical, layers.Canonical); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *box) prompt(lines ...string) string {
	b.t.Helper()
	spec, err := json.Marshal(map[string]any{"title": "t", "worker": "fake", "prompt": strings.Join(lines, "\n"), "tools": []string{"shop.buy", "shop.look"}})
	if err != nil {
		b.t.Fatal(err)
	}
	return b.create(string(spec)).ID
}

// data is what a line's step says, by line.
func (b *box) data(id string) map[int]map[string]any {
	out := map[int]map[string]any{}
	for _, ev := range b.events(actionlog.TypeTaskStep, id) {
		var d map[string]any
		if err := json.Unmarshal(ev.Data, &d); err != nil {
			b.t.Fatal(err)
		}
		out[int(d["line"].(float64))] = d
	}
	return out
}

// The whole way: a worker in its sandbox, its user, its broker, tools, questions,
// money, and what it leaves.
func TestARealTask(t *testing.T) {
	shop := &till{}
	b := realBox(t, shop)
	id := b.prompt(
		"write a.txt hello",
		`call shop.buy {"cents":30}`,
		`trycall shop.buy {"cents":300,"n":1}`,
		"tryask May I?",
		"cost 0.5 postage",
		`run id -un; stat -c %a "$BOX_SOCKET"; stat -c %U "$BOX_SOCKET"`,
		"summary all is done",
	)
	ask := b.pending(id)
	if ask.ID != id+".budget.3" || string(ask.Input) != `{"cents":300,"n":1}` {
		t.Fatalf("%+v", ask)
	}
	b.until(id, task.Waiting)
	b.answer(ask.ID, true)
	var second string
	eventually(t, func() bool { second = b.pending(id).ID; return second == id+".task.4" }, func() string { return second })
	b.answer(second, false)
	done := b.until(id, task.Done)
	if done.CostCents.String() != "330.5" || done.Summary != "all is done" || done.User != "box-"+id {
		t.Fatalf("%+v", done)
	}
	d := b.data(id)
	if got := d[6]["output"]; got != "box-"+id+"\n600\nbox-"+id+"\n" {
		t.Errorf("%q", got)
	}
	if d[4]["approved"] != false || shop.count(id+".2") != 1 || shop.count(id+".3") != 1 {
		t.Error(d[4], shop.total())
	}
	tree, err := b.tasks.Tree(t.Context(), "home")
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	if e, err := tree.Stat("a.txt"); err != nil || e.Size == 0 {
		t.Error(e, err)
	}
}

// A worker that hands its false key to a tool is undone and ended, whatever it does.
func TestARealCanary(t *testing.T) {
	shop := &till{}
	b := realBox(t, shop)
	id := b.prompt("write a.txt hello",
		`run curl -s --unix-socket "$BOX_SOCKET" http://box/call -d "{\"tool\":\"shop.look\",\"key\":\"k\",\"input\":{\"x\":\"$(printf %s "$AWS_SECRET_ACCESS_KEY" | base64 -w0)\"}}" ; sleep 600`)
	b.until(id, task.Undone)
	dir := filepath.Join(b.home, "tasks", id)
	eventually(t, func() bool { _, err := os.Stat(dir); return errors.Is(err, os.ErrNotExist) }, func() string { return "the task's folder is still there" })
	if shop.total() != 0 || len(b.data(id)) != 1 {
		t.Fatal(shop.total(), b.data(id))
	}
}

// Paused agents stand still to the last process, and go on where they were.
func TestARealPause(t *testing.T) {
	b := realBox(t, nil)
	spec, err := json.Marshal(map[string]any{"title": "t", "worker": "fake", "prompt": strings.Repeat("run echo x >> n.txt\n", 40)})
	if err != nil {
		t.Fatal(err)
	}
	id := b.create(string(spec)).ID
	steps := func() int { return len(b.events(actionlog.TypeTaskStep, id)) }
	eventually(t, func() bool { return steps() >= 3 }, func() string { return fmt.Sprint(steps(), " steps") })
	b.pause(true)
	before := steps()
	if before >= 40 {
		t.Fatal("it was over before it could be paused")
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 10 {
		<-tick.C
		if now := steps(); now != before {
			t.Fatalf("%d steps after %d", now, before)
		}
	}
	// What is frozen can be undone, another goes on.
	other := b.create(string(spec)).ID
	if _, err := b.tasks.Undo(t.Context(), other, "me"); err != nil {
		t.Fatal(err)
	}
	b.pause(false)
	b.until(id, task.Done)
	if n := steps(); n != 40 {
		t.Fatalf("%d steps", n)
	}
}

// An undo ends what runs, frozen or not, and nothing of it is left.
func TestARealUndo(t *testing.T) {
	for _, frozen := range []bool{false, true} {
		b := realBox(t, nil)
		id := b.create(`{"title":"t","worker":"fake","prompt":"write a.txt x\nrun sleep 600"}`).ID
		eventually(t, func() bool { return len(b.data(id)) == 1 }, func() string { return "no step" })
		if frozen {
			b.pause(true)
		}
		if _, err := b.tasks.Undo(t.Context(), id, "me"); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(b.home, "tasks", id)
		eventually(t, func() bool { _, err := os.Stat(dir); return errors.Is(err, os.ErrNotExist) }, func() string {
			return fmt.Sprint("the task's folder is still there, frozen ", frozen)
		})
		b.halt()
	}
}

// A box that ends in the middle of a task goes on with it where it was.
func TestARealRestart(t *testing.T) {
	b := realBox(t, nil)
	lines := []string{}
	for i := range 20 {
		lines = append(lines, fmt.Sprintf("run echo %d >> n.txt; sleep 0.05", i))
	}
	spec, err := json.Marshal(map[string]any{"title": "t", "worker": "fake", "prompt": strings.Join(lines, "\n")})
	if err != nil {
		t.Fatal(err)
	}
	id := b.create(string(spec)).ID
	for n := 4; n <= 12; n += 4 {
		eventually(t, func() bool { return len(b.data(id)) >= n }, func() string { return fmt.Sprint(len(b.data(id))) })
		b.restart()
	}
	b.until(id, task.Done)
	if n := len(b.data(id)); n != 20 {
		t.Fatalf("%d lines", n)
	}
}

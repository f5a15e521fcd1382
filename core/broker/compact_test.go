package broker_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/task"
)

// Old layers become part of the workspace once there are many, as far as everyone who
// looks at it sees the same ones; then their tasks can't be undone any more. A crash
// between the disk and the log changes nothing of that.
func TestOldLayersBecomePartOfTheWorkspace(t *testing.T) {
	var ahead atomic.Int64
	b := newBox(t, boxOptions{now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }, synced: heard})
	var ids []string
	one := func() string { id := b.begin(""); ids = append(ids, id); return id }
	for range 40 {
		b.finish(one())
	}
	reader := b.begin("") // sees the first 40
	undone := ids[30]
	if _, err := b.tasks.Undo(t.Context(), undone, "me"); err != nil {
		t.Fatal(err)
	}
	ids = append(ids[:30], ids[31:]...)
	for range 60 {
		b.finish(one())
	}
	ahead.Store(int64(31 * 24 * time.Hour))
	b.restart()
	b.runner.wait(t, reader)
	// 99 are done and old: 35 are too many, of which the reader sees 30 below the one
	// that was undone.
	eventually(t, func() bool { return len(b.folded()) == 30 }, func() string { return fmt.Sprint(len(b.folded())) })
	if got := strings.Join(b.folded(), " "); got != strings.Join(ids[:30], " ") {
		t.Fatal(got)
	}
	if _, err := b.tasks.Undo(t.Context(), ids[0], "me"); err == nil || !strings.Contains(err.Error(), "can't be undone any more: its changes have been part of the workspace since 2") {
		t.Fatal(err)
	}
	if err := b.tasks.UndoPreview(t.Context(), ids[29], func(task.UndoPath) error { return nil }); err == nil || !strings.Contains(err.Error(), "can't be undone any more") {
		t.Fatal(err)
	}
	lowers := func(id string) string {
		var out []string
		for _, l := range b.runner.get(id).spec.Work.Lowers {
			out = append([]string{filepath.Base(filepath.Dir(l))}, out...)
		}
		return strings.Join(out, " ")
	}
	b.restart()
	b.runner.wait(t, reader)
	want := strings.Join(append([]string{undone}, ids[30:39]...), " ")
	if got := lowers(reader); got != want {
		t.Fatalf("the reader sees %s, not %s", got, want)
	}
	next := b.begin("")
	if got := lowers(next); got != strings.Join(ids[30:], " ") {
		t.Fatalf("a new task sees %s", got)
	}
	// The disk has it, and the power goes before the log does.
	if err := os.WriteFile(filepath.Join(b.home, "workspaces", "home", "folded"), []byte(filepath.Join(b.home, "tasks", ids[30], "layer")), 0o600); err != nil {
		t.Fatal(err)
	}
	b.cut(9)
	eventually(t, func() bool { return len(b.folded()) == 31 }, func() string { return fmt.Sprint(len(b.folded())) })
	if _, err := b.tasks.Undo(t.Context(), ids[30], "me"); err == nil {
		t.Fatal("undone")
	}
	if _, err := b.tasks.Undo(t.Context(), ids[31], "me"); err != nil {
		t.Fatal(err)
	}
}

// Of many layers of any age the oldest become part of the workspace together, before a view could have too many.
func TestManyLayersBecomePartOfTheWorkspace(t *testing.T) {
	b := newBox(t, boxOptions{synced: heard})
	for range 201 {
		b.finish(b.begin(""))
	}
	eventually(t, func() bool { return len(b.folded()) == 17 }, func() string { return fmt.Sprint(len(b.folded())) })
}

// folded are the tasks that the log says are part of their workspace.
func (b *box) folded() []string {
	var out []string
	for _, ev := range b.events(actionlog.TypeNote, "") {
		var d struct {
			What  string   `json:"what"`
			Tasks []string `json:"tasks"`
		}
		if err := json.Unmarshal(ev.Data, &d); err != nil {
			b.t.Fatal(err)
		}
		if d.What == "layers folded" {
			out = append(out, d.Tasks...)
		}
	}
	return out
}

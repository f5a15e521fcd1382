package cli_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gurtos/core/actionlog"
	"gurtos/sandbox/layers"
)

// A task whose undoing is cut out of the log, and whose layer is deleted, stops no other
// in its workspace.
func TestTaskAfterAnUndoIsCutOut(t *testing.T) {
	d := start(t, "")
	id := d.task("First", "write a.txt x")
	d.box("task", "undo", id)
	layer := filepath.Join(d.home, "tasks", id, "layer")
	late := time.After(time.Minute)
	for tick := time.Tick(10 * time.Millisecond); ; {
		if _, err := os.Lstat(layer); errors.Is(err, os.ErrNotExist) {
			break
		}
		select {
		case <-tick:
		case <-late:
			t.Fatal("the undone layer is still there")
		}
	}
	d.end()
	d.cutOut(`"state":"undone"`, `"state":"undome"`)
	again := start(t, d.home)
	again.task("Second", "write b.txt y")
	var first struct{ State string }
	again.json(&first, "task", "show", id)
	if first.State != "undone" {
		t.Errorf("the first task is %s", first.State)
	}
}

// cutOut damages the line that has old, and cuts it out of the log.
func (d *daemon) cutOut(old, to string) {
	d.t.Helper()
	name := filepath.Join(d.home, "log.jsonl")
	text, err := os.ReadFile(name)
	if err != nil {
		d.t.Fatal(err)
	}
	damaged := bytes.Replace(text, []byte(old), []byte(to), 1)
	if bytes.Equal(damaged, text) {
		d.t.Fatal("the log has no such line")
	}
	if err := os.WriteFile(name, damaged, 0o600); err != nil {
		d.t.Fatal(err)
	}
	l, err := actionlog.Open(d.home, actionlog.Options{Quarantine: true})
	if err != nil {
		d.t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		d.t.Fatal(err)
	}
}

// After lines were cut out of the log, folders that have no task stay if they were there
// then, at every start; what a crash leaves later is deleted at the next, as ever.
func TestFoldersAfterACutOut(t *testing.T) {
	d := start(t, "")
	first := d.task("First", "write a.txt x")
	d.end()
	folder := func(id string) {
		if err := errors.Join(os.MkdirAll(filepath.Join(d.home, "tasks", id), 0o711), layers.Create(filepath.Join(d.home, "tasks", id, "layer"))); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when string, there bool, ids ...string) {
		t.Helper()
		for _, id := range ids {
			if _, err := os.Lstat(filepath.Join(d.home, "tasks", id, "layer")); (err == nil) != there || err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: the folder %s: %v", when, id, err)
			}
		}
	}
	folder("tbefore")
	start(t, d.home).end()
	want("of a whole log", false, "tbefore")
	folder("tallcut")
	d.cutOut(`"title":"First"`, `"title":"Worst"`)
	start(t, d.home).end()
	want("at the first start", true, first, "tallcut")
	folder("tcrash")
	start(t, d.home).end()
	want("at the second start", true, first, "tallcut")
	want("of a crash", false, "tcrash")
	folder("tagain")
	d.cutOut(`"boxd ended"`, `"boxd emded"`)
	start(t, d.home).end()
	want("when lines are cut out again", true, first, "tallcut", "tagain")
	start(t, d.home).end()
	want("at the start after that", true, first, "tallcut", "tagain")
}

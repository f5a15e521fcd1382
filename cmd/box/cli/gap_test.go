package cli_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/box"
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

// Lines that are lost off the end, up to all of them, take no files along: neither those
// of a task that nothing tells of any more, nor what it left in its workspace.
func TestFilesOutliveALostEnd(t *testing.T) {
	d := start(t, "")
	first := d.task("First", "write a.txt x")
	d.end()
	name := filepath.Join(d.home, "log.jsonl")
	layer := filepath.Join(d.home, "tasks", first, "layer")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, text[:bytes.Index(text, []byte(`"title":"First"`))], 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		start(t, d.home).end()
		if _, err := os.Lstat(layer); err != nil {
			t.Fatal("the end is lost, and so are files", err)
		}
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	damaged := new(actionlog.DamageError)
	if _, err := box.Open(t.Context(), box.Options{Config: d.conf, Log: slog.New(slog.DiscardHandler)}); !errors.As(err, &damaged) || !strings.Contains(err.Error(), "log.jsonl is empty or gone, and log.commit remembers") {
		t.Fatal("the log is gone", err)
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) { // as it was found
		t.Fatal(err)
	}
	if out := d.box("log", "quarantine"); !strings.Contains(out, "had been on the disk and are lost") || !strings.Contains(out, "The log is whole") {
		t.Errorf("begun anew: %s", out)
	}
	again := start(t, d.home)
	if _, err := os.Lstat(layer); err != nil {
		t.Error("the log is begun anew, and files are gone", err)
	}
	again.task("Second", "write b.txt y")
	if out := again.box("log"); strings.Count(out, "Lines of the action log were damaged or gone") != 1 {
		t.Errorf("the owner is not told: %s", out)
	}
}

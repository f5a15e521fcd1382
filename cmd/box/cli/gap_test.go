package cli_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gurtos/core/actionlog"
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
	name := filepath.Join(d.home, "log.jsonl")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Replace(text, []byte(`"state":"undone"`), []byte(`"state":"undome"`), 1)
	if bytes.Equal(damaged, text) {
		t.Fatal("the log has no such line")
	}
	if err := os.WriteFile(name, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := actionlog.Open(d.home, actionlog.Options{Quarantine: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again := start(t, d.home)
	again.task("Second", "write b.txt y")
	var first struct{ State string }
	again.json(&first, "task", "show", id)
	if first.State != "undone" {
		t.Errorf("the first task is %s", first.State)
	}
}

package cli_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gurtos/core/box"
)

// A damaged line stops the box at its start and names the way out; with the line cut out
// the box starts again, shows what the log still has, and loses no file of a task.
func TestQuarantine(t *testing.T) {
	d := start(t, "")
	id := d.task("First", "write a.txt x\nstep two")
	if _, errs, code := try(t, "", "log", "quarantine"); code != 1 || !strings.Contains(errs, "stop it first") {
		t.Errorf("while boxd runs: %d %s", code, errs)
	}
	d.end()
	name := filepath.Join(d.home, "log.jsonl")
	if out := d.box("log", "quarantine"); !strings.Contains(out, "The log is whole") {
		t.Errorf("of a whole log: %s", out)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	// The line that the other lines of the task rest on, and that the box's own memory
	// beside the log has read.
	damaged := bytes.Replace(text, []byte(`"title":"First"`), []byte(`"title":"Worst"`), 1)
	if bytes.Equal(damaged, text) {
		t.Fatal("the log has no such task")
	}
	if err := os.WriteFile(name, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = box.Open(t.Context(), box.Options{Config: d.conf, Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "is changed. `box log verify` tells more.") || !strings.Contains(err.Error(), "`box log quarantine`") {
		t.Fatalf("started on a damaged log: %v", err)
	}
	if out := d.box("log", "quarantine"); !strings.Contains(out, "Known gap: line ") || !strings.Contains(out, "The log is whole") {
		t.Errorf("cut out: %s", out)
	}
	again := start(t, d.home)
	var tasks []struct{ ID, Title string }
	again.json(&tasks, "task", "list")
	again.box("approvals", "--all")
	if len(tasks) != 0 {
		t.Errorf("a task whose first line is gone is shown: %v", tasks)
	}
	if _, err := os.Stat(filepath.Join(d.home, "tasks", id, "layer")); err != nil {
		t.Errorf("its files: %v", err)
	}
	if out := again.box("log", "--task", id); !strings.Contains(out, "two") || strings.Contains(out, "First") {
		t.Errorf("what the log still has of it: %s", out)
	}
	again.task("Second", "write b.txt y")
	if out := again.box("log", "verify"); !strings.Contains(out, "Known gap") {
		t.Errorf("verify: %s", out)
	}
}

// Who wrote an end of the log down notices that lines behind it are gone, though what the
// box remembers of it is gone too.
func TestVerifyAgainstAHead(t *testing.T) {
	d := start(t, "")
	d.task("First", "step one")
	d.end()
	var r struct {
		Head struct {
			Seq  int64
			Hash string
		}
	}
	d.json(&r, "log", "verify")
	head := fmt.Sprintf("%d:%s", r.Head.Seq, r.Head.Hash)
	d.box("log", "verify", "--head", head)
	text, err := os.ReadFile(filepath.Join(d.home, "log.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	if err := os.WriteFile(filepath.Join(d.home, "log.jsonl"), bytes.Join(lines[:len(lines)-2], nil), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"log.commit", "log.index", "log.checkpoint"} {
		os.Remove(filepath.Join(d.home, name))
	}
	d.box("log", "verify") // nothing is left to know it by
	if out, _, code := try(t, "", "log", "verify", "--head", head); code != 1 || !strings.Contains(out, "cut off the end of the log") {
		t.Errorf("%d %s", code, out)
	}
	for _, wrong := range []string{"", "5", "x:" + r.Head.Hash, "0:" + r.Head.Hash, "5:" + r.Head.Hash[2:], "5:" + strings.Repeat("z", 64)} {
		if _, errs, code := try(t, "", "log", "verify", "--head", wrong); code != 2 || !strings.Contains(errs, "a line's number, a colon and its hash") {
			t.Errorf("%q: %d %s", wrong, code, errs)
		}
	}
}

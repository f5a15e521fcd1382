package task_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gurtos/core/task"
)

// until runs the box until ok.
func (s *shelf) until(what string, ok func() bool) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, nil) }()
	late := time.After(2 * time.Minute)
	for tick := time.Tick(5 * time.Millisecond); !ok(); {
		select {
		case <-tick:
		case err := <-done:
			s.t.Fatalf("the box ended: %v", err)
		case <-late:
			s.t.Fatalf("not so yet: %s", what)
		}
	}
	cancel()
	if err := <-done; err != nil {
		s.t.Fatal(err)
	}
}

// damage ends the box, changes a word of its log, and starts it again without the line.
func (s *shelf) damage(old, to string) {
	s.t.Helper()
	if err := s.log.Close(); err != nil {
		s.t.Fatal(err)
	}
	name := filepath.Join(s.home, "log.jsonl")
	text, err := os.ReadFile(name)
	if err != nil {
		s.t.Fatal(err)
	}
	if n := bytes.Count(text, []byte(old)); n != 1 {
		s.t.Fatalf("%d lines have %s", n, old)
	}
	if err := os.WriteFile(name, bytes.Replace(text, []byte(old), []byte(to), 1), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.open(true)
}

func (s *shelf) gone(id string) func() bool {
	return func() bool {
		_, err := os.Lstat(filepath.Join(s.home, "tasks", id))
		return errors.Is(err, os.ErrNotExist)
	}
}

// A layer that is deleted while the line that says why is cut out of the log must not
// stay in the views of its workspace: nothing could be read or put in any more.
func TestLayerGoneWithItsLine(t *testing.T) {
	for _, c := range []struct {
		name     string
		lose     func(s *shelf, ids []string) // deletes the layer of the first
		old, to  string
		wantLeft string // what the workspace has of the first
	}{
		{"undone", func(s *shelf, ids []string) {
			if _, err := s.Undo(t.Context(), ids[0], "me"); err != nil {
				t.Fatal(err)
			}
			s.until("the layer is gone", s.gone(ids[0]))
		}, `"state":"undone"`, `"state":"undome"`, ""},
		{"folded", func(s *shelf, ids []string) {
			s.ahead.Store(int64(31 * 24 * time.Hour))
			s.until("the layers are part of the workspace, and are deleted", s.gone(ids[0]))
		}, `"what":"layers folded"`, `"what":"layers fouled"`, "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShelf(t)
			var ids []string
			for i := range 81 {
				ids = append(ids, s.put(map[string]string{fmt.Sprintf("f%d.txt", i): fmt.Sprint(i)}).ID)
			}
			c.lose(s, ids)
			s.damage(c.old, c.to)
			if x, err := s.Get(t.Context(), ids[0]); err != nil || x.State != task.Done {
				t.Fatal("the line is not cut out", x.State, err)
			}
			s.until("the task counts as undone", func() bool {
				x, err := s.Get(t.Context(), ids[0])
				return err == nil && x.State == task.Undone
			})
			x := s.put(map[string]string{"new.txt": "new"})
			if len(x.Layers) == 0 || s.read("new.txt") != "new" || s.read("f80.txt") != "80" || s.read("f0.txt") != c.wantLeft {
				t.Fatalf("the workspace: %d layers, f0.txt is %q", len(x.Layers), s.read("f0.txt"))
			}
			if x, err := s.Get(t.Context(), ids[80]); err != nil || x.State != task.Done {
				t.Fatal("a task whose layer is there", x.State, err)
			}
			text, err := os.ReadFile(filepath.Join(s.home, "log.jsonl"))
			if err != nil || !strings.Contains(string(text), "said what became of "+ids[0]) {
				t.Fatal("the owner is not told", err)
			}
		})
	}
}

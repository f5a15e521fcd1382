package task_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/settings"
	"gurtos/core/task"
	"gurtos/sandbox/layers"
)

// shelf is Tasks over real layers, which a person puts files in.
type shelf struct {
	*task.Tasks
	t     testing.TB
	home  string
	log   *actionlog.Log
	ahead atomic.Int64
	looks func() // called behind each wait for the log
}

// looking is a log that tells its shelf when somebody waited for it.
type looking struct {
	*actionlog.Log
	s *shelf
}

func (l looking) Wait(ctx context.Context, seq int64) error {
	err := l.Log.Wait(ctx, seq)
	if f := l.s.looks; f != nil {
		f()
	}
	return err
}

func newShelf(t testing.TB) *shelf {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: layers are mounted")
	}
	s := &shelf{t: t, home: t.TempDir()}
	base := filepath.Join(s.home, "workspaces", "home")
	if err := errors.Join(os.MkdirAll(base, 0o755), os.Chown(base, layers.Canonical, layers.Canonical)); err != nil {
		t.Fatal(err)
	}
	s.open(false)
	return s
}

// open starts the box anew, on a log whose damaged lines are cut out.
func (s *shelf) open(quarantine bool) {
	s.t.Helper()
	start := time.Now()
	mono := func() time.Duration { return time.Since(start) + time.Duration(s.ahead.Load()) }
	now := func() time.Time { return start.Add(mono()) }
	var err error
	if s.log, err = actionlog.Open(s.home, actionlog.Options{Reserve: -1, Now: now, Mono: mono, Quarantine: quarantine}); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.log.Close() })
	m, err := layers.NewMounter()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { m.Close() })
	v := fixed(settings.Defaults())
	s.Tasks, err = task.New(s.t.Context(), task.Options{
		Home: s.home, Log: looking{s.log, s}, Settings: &v, Layers: task.OnDisk(m), Tools: tools{}, Workers: map[string]task.Worker{"fake": {}},
		Now: now, Mono: mono,
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *shelf) put(files map[string]string) task.Task {
	s.t.Helper()
	x, err := s.PutFiles(s.t.Context(), "home", func(w *layers.Writer) error {
		for name, text := range files {
			if text == "" {
				if err := w.Delete(name); err != nil {
					return err
				}
			} else if err := w.File(name, 0o644, time.Time{}, strings.NewReader(text)); err != nil {
				return err
			}
		}
		return nil
	}, "me")
	if err != nil {
		s.t.Fatal(err)
	}
	return x
}

// read is a file of the workspace as it is now, "" when there is none.
func (s *shelf) read(name string) string {
	s.t.Helper()
	tree, err := s.Tree(s.t.Context(), "home")
	if err != nil {
		s.t.Fatal(err)
	}
	defer tree.Close()
	f, err := tree.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return ""
	}
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

func (s *shelf) changes(id string) (all []task.Change, err error) {
	err = s.EachChange(s.t.Context(), id, func(c task.Change) error { all = append(all, c); return nil })
	return all, err
}

func (s *shelf) preview(id string) (all []task.UndoPath, err error) {
	err = s.UndoPreview(s.t.Context(), id, func(p task.UndoPath) error { all = append(all, p); return nil })
	return all, err
}

func TestFilesPutIn(t *testing.T) {
	s := newShelf(t)
	one := s.put(map[string]string{"a.txt": "one", "shared.txt": "from one"})
	if one.State != task.Done || one.Title != "Files put in" || one.Worker != "fake" || one.Source != "api" {
		t.Fatal(one)
	}
	two := s.put(map[string]string{"b.txt": "two", "shared.txt": "from one and two", "dir/c.txt": "deep"})
	if got := strings.Join(two.Layers, " "); got != one.ID {
		t.Fatal(got)
	}
	changes, err := s.changes(two.ID)
	if err != nil || fmt.Sprint(changes) != "[{b.txt added 3 false []} {dir/c.txt added 4 false []} {shared.txt modified 16 false []}]" {
		t.Fatal(changes, err)
	}
	diff, err := s.Diff(t.Context(), two.ID, "shared.txt")
	if err != nil || !strings.Contains(diff, "-from one\n") || !strings.Contains(diff, "+from one and two\n") {
		t.Fatal(diff, err)
	}
	preview, err := s.preview(one.ID)
	if err != nil || len(preview) != 2 || preview[0].Path != "a.txt" || preview[0].Outcome != "removed" || preview[1].Later[0] != two.ID {
		t.Fatal(preview, err)
	}
	if _, err := s.Undo(t.Context(), one.ID, "me"); err != nil {
		t.Fatal(err)
	}
	if s.read("a.txt") != "" || s.read("b.txt") != "two" || s.read("shared.txt") != "from one and two" || s.read("dir/c.txt") != "deep" {
		t.Fatal("the workspace after the undo")
	}
	// What fails leaves nothing.
	before, err := s.List(t.Context(), task.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutFiles(t.Context(), "home", func(w *layers.Writer) error {
		return errors.Join(w.File("x.txt", 0o644, time.Time{}, strings.NewReader("x")), errors.New("the upload broke off"))
	}, "me"); err == nil {
		t.Fatal("taken")
	}
	after, err := s.List(t.Context(), task.Filter{})
	if err != nil || len(after) != len(before) || s.read("x.txt") != "" {
		t.Fatal(after, err)
	}
	dirs, err := os.ReadDir(filepath.Join(s.home, "tasks"))
	if err != nil || len(dirs) != 2 {
		t.Fatal(dirs, err)
	}
	var bad *task.Invalid
	if _, err := s.PutFiles(t.Context(), "nowhere", nil, "me"); !errors.As(err, &bad) {
		t.Fatal(err)
	}
	var none *task.NotFound
	if _, err := s.Tree(t.Context(), "nowhere"); !errors.As(err, &none) {
		t.Fatal(err)
	}
	if _, err := s.Diff(t.Context(), two.ID, "no/such"); !errors.As(err, &none) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, nil) }()
	dir := filepath.Join(s.home, "tasks", one.ID)
	late := time.After(2 * time.Minute)
	for tick := time.Tick(5 * time.Millisecond); ; {
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			break
		}
		select {
		case <-tick:
		case <-late:
			t.Fatal("the undone layer is still there")
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	var gone *task.Gone
	if _, err := s.changes(one.ID); !errors.As(err, &gone) {
		t.Fatal(err)
	}
}

// Whatever is undone while it is worked out what an undo would do, and whenever: no task is told to have no files that has some.
func TestUndoPreviewMeetsAnUndo(t *testing.T) {
	for _, c := range []struct {
		name string
		own  bool // the task itself is undone meanwhile
	}{{"of a later task", false}, {"of the task", true}} {
		t.Run(c.name, func(t *testing.T) {
			s := newShelf(t)
			most := 0
			for at := 1; ; at++ {
				one, later := s.put(map[string]string{"a.txt": fmt.Sprint(at)}), s.put(map[string]string{"b.txt": "two"})
				gone := later.ID
				if c.own {
					gone = one.ID
				}
				now := 0
				s.looks = func() {
					if now++; now != at {
						return
					}
					s.looks = nil
					_, err := s.Undo(t.Context(), gone, "me")
					if err = errors.Join(err, layers.Drop(filepath.Join(s.home, "tasks", gone, "layer"))); err != nil { // as the janitor does
						t.Error(err)
					}
				}
				paths, err := s.preview(one.ID)
				met := s.looks == nil
				s.looks = nil
				var refused *task.Refused
				switch {
				case c.own && met && errors.As(err, &refused) && len(paths) == 0:
				case err != nil || len(paths) != 1 || paths[0].Path != "a.txt" || paths[0].Outcome == "conflict":
					t.Errorf("at look %d: %v, %v", at, paths, err)
				}
				if !met {
					break
				}
				most = at
			}
			if most < 2 {
				t.Errorf("only %d looks", most)
			}
		})
	}
}

// A workspace takes any number of tasks: its oldest layers become part of it, and it
// stays what it was.
func TestManyFilesPutIn(t *testing.T) {
	s := newShelf(t)
	var ids []string
	for i := range 90 {
		ids = append(ids, s.put(map[string]string{fmt.Sprintf("f%d.txt", i): fmt.Sprint(i), "last.txt": fmt.Sprint(i)}).ID)
	}
	if _, err := s.Undo(t.Context(), ids[3], "me"); err != nil {
		t.Fatal(err)
	}
	s.ahead.Store(int64(31 * 24 * time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, nil) }()
	late := time.After(2 * time.Minute)
	for tick := time.Tick(20 * time.Millisecond); ; {
		if _, err := s.preview(ids[0]); err != nil && strings.Contains(err.Error(), "can't be undone") {
			if _, err := os.Stat(filepath.Join(s.home, "workspaces", "home", "f0.txt")); err == nil {
				break
			}
		}
		select {
		case <-tick:
		case <-late:
			t.Fatal("the layers are not part of the workspace")
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for i := range 90 {
		want := fmt.Sprint(i)
		if i == 3 {
			want = ""
		}
		if got := s.read(fmt.Sprintf("f%d.txt", i)); got != want {
			t.Fatalf("f%d.txt is %q", i, got)
		}
	}
	if got := s.read("last.txt"); got != "89" {
		t.Fatal(got)
	}
	if x := s.put(map[string]string{"last.txt": "90"}); len(x.Layers) != 64 || s.read("last.txt") != "90" {
		t.Fatal(len(x.Layers), s.read("last.txt"))
	}
}

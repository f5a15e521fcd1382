package watch_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gurtos/core/watch"
	"gurtos/sandbox/layers"
)

func files(name, workspace string, paths ...string) watch.Watch {
	return watch.Watch{Kind: watch.Files, Name: name, Workspace: workspace, Paths: paths}
}

// stirs returns once a watch of files has heard that they may differ.
func (w *world) stirs() { w.t.Helper(); w.stirsFor(500 * time.Millisecond) }

func (w *world) stirsFor(d time.Duration) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), generous)
	defer cancel()
	if err := w.clock.Due(ctx, d); err != nil {
		w.t.Fatal("no watch heard of it")
	}
}

// settles is stirs, and what it is told once there is rest.
func (w *world) settles(lines ...string) {
	w.t.Helper()
	w.stirs()
	w.want()
	w.pass(time.Second)
	w.want(lines...)
}

func (w *world) undo(id string) {
	w.t.Helper()
	if _, err := w.tasks.Undo(w.t.Context(), id, "me"); err != nil {
		w.t.Fatal(err)
	}
}

func TestFilesChange(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-01 07:00")
	w.put("home", "old.txt", "old", "notes/a.md", "a")
	w.add("hello", files("notes", "home"))
	one := w.put("home", "new.txt", "new", "notes/a.md", "aa")
	w.settles("added new.txt, modified notes/a.md")
	w.put("home", "old.txt", "")
	w.settles("deleted old.txt")
	w.put("home", "new.txt", "new") // the bytes that are there: a copy, and no change
	w.stirs()
	w.pass(time.Minute)
	w.want()
	w.undo(one) // the copy keeps its file
	w.settles("modified notes/a.md")
	if got := w.notes(watch.NoteSeen); fmt.Sprint(got) != "[files seen notes 2 files seen notes 1 files seen notes 1]" {
		t.Errorf("%q", got)
	}
}

// What happens within half a second is told at once, and what there was only in between
// is not told at all.
func TestChangesAreToldTogether(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-01 07:00")
	w.add("hello", files("notes", "home"))
	a := w.put("home", "a", "1")
	w.stirs()
	w.pass(400 * time.Millisecond)
	w.put("home", "b", "1", "c", "1")
	w.stirs()
	w.pass(100 * time.Millisecond)
	w.put("home", "b", "2", "c", "")
	w.undo(a)
	w.want()
	w.stirs()
	w.pass(time.Second)
	w.want("added b")
}

// Where there is no rest, changes are told after half a minute all the same.
func TestChangesWithoutRest(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-01 07:00")
	w.add("hello", files("notes", "home"))
	for left := 30 * time.Second; left > 0; left -= 400 * time.Millisecond {
		w.put("home", fmt.Sprint("f", left), "x")
		w.stirsFor(min(left, 500*time.Millisecond))
		w.want()
		w.pass(min(left, 400*time.Millisecond))
	}
	if got := w.took(); len(got) != 1 || strings.Count(got[0], "added ") != 75 {
		t.Errorf("%q", got)
	}
}

func TestPathsThatAreWatched(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-01 07:00")
	w.add("hello", files("notes", "home", "notes/**", "*.md"))
	w.put("home", "a.txt", "x", "deep/b.md", "x")
	w.stirs()
	w.pass(time.Minute)
	w.want()
	w.put("home", "notes/2026/a.txt", "x", "b.md", "x", "c.txt", "x")
	w.settles("added b.md, added notes/2026/a.txt")
}

// A rename is a file that is gone and one that is new; a file that is written beside and
// put in the place of the old one is one that changed.
func TestRenames(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-01 07:00")
	w.put("home", "a", "text", "dir/x", "1", "dir/y", "2")
	w.add("hello", files("notes", "home"))
	w.put("home", "a", "", "b", "text")
	w.settles("deleted a, added b")
	w.put("home", ".b.tmp", "more", "b", "")
	w.stirs()
	w.put("home", ".b.tmp", "", "b", "more")
	w.stirs()
	w.pass(time.Second)
	w.want("modified b")
	w.put("home", "dir", "", "moved/x", "1", "moved/y", "2")
	w.settles("deleted dir/x, deleted dir/y, added moved/x, added moved/y")
	w.put("home", "moved", "", "dir", "a file now")
	w.settles("added dir, deleted moved/x, deleted moved/y")
}

// A folder that another layer has now is another folder, though it looks the same from
// above.
func TestFolderOfAnotherLayer(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-01 07:00")
	one := w.put("home", "dir/x", "1")
	w.add("hello", files("notes", "home"))
	w.put("home", "dir/y", "1")
	w.undo(one)
	w.settles("deleted dir/x, added dir/y")
}

// Each app is told what is new for it, over starts of the box too.
func TestNothingIsMissedOverAStart(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-01 07:00")
	one := w.put("home", "kept", "1", "taken", "1")
	w.add("hello", files("notes", "home"))
	w.put("home", "a", "1")
	w.settles("added a")
	w.put("home", "b", "1") // and the box ends before there is rest
	w.stirs()
	w.off(time.Hour)
	w.put("home", "c", "1") // the app is not there yet
	w.undo(one)
	w.add("hello", files("notes", "home"))
	w.settles("added b, added c, deleted kept, deleted taken")
	w.off(time.Hour)
	w.add("hello", files("notes", "home"))
	w.stirs()
	w.pass(time.Minute)
	w.want()
}

// What an app wasn't reached for is told with what came since; what it failed at isn't
// told again.
func TestAppIsNotReachedForFiles(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-01 07:00")
	stop := w.add("hello", files("notes", "home"))
	w.answers(func(watch.Fired) error { return watch.ErrNotTaken })
	w.put("home", "a", "1")
	w.settles()
	stop()
	w.put("home", "b", "1")
	w.answers(nil)
	stop = w.add("hello", files("notes", "home"))
	w.settles("added a, added b")
	w.answers(func(watch.Fired) error { return errors.New("no idea what to do") })
	w.put("home", "c", "1")
	w.settles()
	if got := w.notes(watch.NoteFailed); len(got) != 1 || !strings.HasSuffix(got[0], "no idea what to do") {
		t.Errorf("%q", got)
	}
	w.answers(nil)
	stop()
	w.add("hello", files("notes", "home"))
	w.stirs()
	w.pass(time.Minute)
	w.want()
}

// A call that the end of the box cuts off is made again for files, whose changes must
// not be missed; a schedule's run is never handed out twice.
func TestBoxEndsDuringACall(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-01 07:00")
	w.add("hello", files("notes", "home"))
	w.put("home", "a", "1")
	w.stirs()
	busy := make(chan struct{})
	w.busy = busy
	w.clock.Advance(time.Second)
	<-busy
	w.off(time.Second)
	w.add("hello", files("notes", "home"))
	w.settles("added a")

	w.add("hello", daily("morning", "08:00"))
	busy = make(chan struct{})
	w.busy = busy
	w.clock.Step(w.at("2026-12-01 08:00"))
	<-busy
	w.off(time.Second)
	w.add("hello", daily("morning", "08:00"))
	w.want()
	if got := w.notes(watch.NoteFailed); len(got) != 1 || !strings.HasPrefix(got[0], "trigger failed morning") {
		t.Errorf("%q", got)
	}
}

func TestWorkspaceThatIsNotThereYet(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-01 07:00")
	w.add("hello", files("in", "inbox"))
	dir := filepath.Join(w.home, "workspaces", "inbox")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "first"), []byte("1"), 0o644), os.Chown(dir, layers.Canonical, layers.Canonical)); err != nil {
		t.Fatal(err)
	}
	if err := w.tasks.Note(t.Context(), "workspace made", map[string]any{"name": "inbox"}, ""); err != nil {
		t.Fatal(err)
	}
	w.settles("added first")
	w.put("inbox", "second", "2")
	w.settles("added second")
}

// The changes of another workspace are another's.
func TestOtherWorkspace(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-01 07:00")
	if err := os.Mkdir(filepath.Join(w.home, "workspaces", "other"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.add("hello", files("o", "other"))
	w.add("hello", files("h", "home"))
	w.put("home", "a", "1")
	w.settles("added a")
}

// Old layers become part of the workspace under a watch, and it sees no change in that.
func TestLayersAreFoldedUnderAWatch(t *testing.T) {
	w := newWorld(t, "UTC", "2026-01-01 07:00")
	w.add("hello", files("notes", "home"))
	for i := range 90 {
		w.put("home", fmt.Sprintf("f%03d", i), "x")
	}
	w.stirs()
	w.pass(time.Second)
	w.took()
	w.pass(31 * 24 * time.Hour) // keepDays later
	w.off(time.Hour)
	w.add("hello", files("notes", "home"))
	ctx, cancel := context.WithTimeout(t.Context(), generous)
	defer cancel()
	for folded := 0; folded == 0; {
		if ctx.Err() != nil {
			t.Fatal("nothing is folded")
		}
		w.put("home", "again", fmt.Sprint(w.clock.Now(), folded, len(w.notes("layers folded")))) // a put has the janitor look
		folded = len(w.notes("layers folded"))
	}
	w.stirs()
	w.pass(time.Second)
	w.want("added again")
	w.put("home", "f000", "y", "f089", "")
	w.settles("modified f000, deleted f089")
}

// A watch whose app can't be reached keeps a workspace from folding only until it is
// full; then it goes on from what is left.
func TestFullWorkspaceFoldsUnderAWatch(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-01 07:00")
	w.add("hello", files("notes", "home"))
	w.answers(func(watch.Fired) error { return watch.ErrNotTaken })
	for i := range 201 {
		w.put("home", fmt.Sprintf("f%03d", i), "x")
	}
	ctx, cancel := context.WithTimeout(t.Context(), generous)
	defer cancel()
	for n := 0; len(w.notes("layers folded")) == 0; n++ {
		if ctx.Err() != nil {
			t.Fatal("nothing is folded")
		}
		w.put("home", "again", fmt.Sprint(n)) // a put has the janitor look
	}
	w.answers(nil)
	w.stirs()
	w.pass(2 * time.Hour) // it is tried again
	got := strings.Join(w.took(), ", ")
	if !strings.Contains(got, "added f200") || !strings.Contains(got, "added again") || strings.Contains(got, "deleted") {
		t.Errorf("%.300q", got)
	}
	w.put("home", "f000", "")
	last, stop := context.WithTimeout(t.Context(), generous) // a look that the last fold began may be under way: the clock goes on until this one is told
	defer stop()
	for got := ""; !strings.Contains(got, "deleted f000"); got += strings.Join(w.took(), ", ") {
		if last.Err() != nil {
			t.Fatalf("told %q, not of the file", got)
		}
		w.pass(time.Second)
	}
}

// Looks that fail one after the other hold what the last of them needs, and no more.
func TestLooksThatFail(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-01 07:00")
	first := w.put("home", "a", "1")
	look := func() watch.Sight {
		s, err := w.tasks.See(t.Context(), "hello", "notes", "home")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	w.tasks.Hold("hello", "notes", "home", look())
	between := w.put("home", "b", "1")
	look()
	w.undo(between)
	w.undo(first)
	is := look()
	gone(t, filepath.Join(w.home, "tasks", between, "layer"))
	if _, err := os.Stat(filepath.Join(w.home, "tasks", first, "layer")); err != nil {
		t.Error("what the app was told of last is gone: ", err)
	}
	w.tasks.Hold("hello", "notes", "home", is)
	gone(t, filepath.Join(w.home, "tasks", first, "layer"))
}

// A layer that was undone stays on disk until each watch has seen that it is gone, and no
// longer.
func TestUndoneLayerStaysForAWatch(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-01 07:00")
	id := w.put("home", "a", "1")
	w.add("hello", files("notes", "home"))
	layer := filepath.Join(w.home, "tasks", id, "layer")
	w.undo(id)
	w.stirs()
	w.swept()
	if _, err := os.Stat(layer); err != nil {
		t.Fatal("it is gone already")
	}
	w.pass(time.Second)
	w.want("deleted a")
	gone(t, layer)

	// One that no app comes back for is let go of in the end.
	id = w.put("home", "b", "1")
	w.settles("added b")
	layer = filepath.Join(w.home, "tasks", id, "layer")
	w.halt()
	w.boot()
	w.undo(id)
	w.swept()
	if _, err := os.Stat(layer); err != nil {
		t.Fatal("it is gone already")
	}
	w.still()
	w.clock.Advance(10 * time.Minute)
	gone(t, layer)
}

// What an app doesn't watch any more holds nothing on disk once it has been away for too
// long. What it watches again before, however much it did first, is told of the layer that
// went meanwhile.
func TestWatchThatDoesNotComeBack(t *testing.T) {
	for _, c := range []struct {
		name  string
		then  func(w *world)
		stays bool
	}{
		{"its app adds others first", func(w *world) { w.add("hello", daily("more", "23:00")) }, true},
		{"another app adds its own", func(w *world) { w.add("other", daily("notes", "23:00")) }, true},
		{"9 minutes pass", func(w *world) { w.pass(9 * time.Minute) }, true},
		{"20 minutes pass", func(w *world) { w.pass(20 * time.Minute) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, "UTC", "2026-12-01 07:00")
			id := w.put("home", "a", "1")
			layer := filepath.Join(w.home, "tasks", id, "layer")
			w.pass(25 * time.Minute)
			w.add("hello", files("notes", "home"))()
			w.undo(id)
			c.then(w)
			if !c.stays {
				gone(t, layer)
				w.add("hello", files("notes", "home"))
				w.stirs()
				w.pass(time.Minute)
				w.want() // it goes on from what is left, and takes nothing for new
				return
			}
			w.put("home", "b", "1") // has the janitor look
			w.add("hello", files("notes", "home"))
			w.settles("deleted a, added b")
			gone(t, layer)
		})
	}
}

// swept waits until the janitor has been through all that was undone before: the round that deletes the second layer follows a whole one.
func (w *world) swept() {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Join(w.home, "workspaces", "swept"), 0o755); err != nil {
		w.t.Fatal(err)
	}
	for range 2 {
		id := w.put("swept", "a", "1")
		w.undo(id)
		gone(w.t, filepath.Join(w.home, "tasks", id, "layer"))
	}
}

// gone waits until a folder is deleted.
func gone(t testing.TB, dir string) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond) // the janitor tells nobody what it deletes
	defer look.Stop()
	late := time.After(generous)
	for {
		select {
		case <-look.C:
		case <-late:
			t.Fatal(dir, " stays")
		}
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			return
		}
	}
}

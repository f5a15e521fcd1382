package watch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/settings"
	"gurtos/core/task"
	"gurtos/core/watch"
	"gurtos/sandbox/layers"
	"gurtos/test/clock"
)

// generous is how long a test waits for what must come.
const generous = 3 * time.Minute

// world is the real log, tasks, layers and watches, by a clock of the test's own. Only
// apps are stood in for, by functions.
type world struct {
	t     testing.TB
	home  string
	clock *clock.Virtual
	log   *actionlog.Log
	tasks *task.Tasks
	ws    *watch.Watches
	zone  string

	quit func()
	on   int // watches

	mu     sync.Mutex
	fired  []string
	more   chan struct{} // closed and replaced when fired grows
	answer func(f watch.Fired) error
	busy   chan struct{} // closed by the next call, which then lasts until its context ends
}

type apps struct{}

func (apps) Has(string) bool         { return false }
func (apps) Title(app string) string { return app }

type chosen struct{}

func (chosen) Values() settings.Values { return settings.Defaults() }

// nobody is the broker where no task runs.
type nobody struct{}

func (nobody) Open(string) task.Socket  { return nobody{} }
func (nobody) Serve(net.Listener)       {}
func (nobody) Listen(string, int) error { return nil }
func (nobody) Close() error             { return nil }

func newWorld(t testing.TB, zone, now string) *world {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("needs root: layers are mounted")
	}
	w := &world{t: t, home: t.TempDir(), zone: zone, more: make(chan struct{})}
	w.clock = clock.At(w.at(now))
	base := filepath.Join(w.home, "workspaces", "home")
	if err := errors.Join(os.MkdirAll(base, 0o755), os.Chown(base, layers.Canonical, layers.Canonical)); err != nil {
		t.Fatal(err)
	}
	w.boot()
	t.Cleanup(w.halt)
	return w
}

// at is a time on the clock of the world's zone.
func (w *world) at(s string) time.Time {
	w.t.Helper()
	loc, err := time.LoadLocation(w.zone)
	if err != nil {
		w.t.Fatal(err)
	}
	x, err := time.ParseInLocation("2006-01-02 15:04:05", s, loc)
	if err != nil {
		if x, err = time.ParseInLocation("2006-01-02 15:04", s, loc); err != nil {
			w.t.Fatal(err)
		}
	}
	return x
}

func (w *world) boot() {
	w.t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	var err error
	if w.log, err = actionlog.Open(w.home, actionlog.Options{Reserve: -1, Now: w.clock.Now, Mono: w.clock.Mono}); err != nil {
		w.t.Fatal(err)
	}
	m, err := layers.NewMounter()
	if err != nil {
		w.t.Fatal(err)
	}
	if w.tasks, err = task.New(w.t.Context(), task.Options{
		Home: w.home, Log: w.log, Settings: chosen{}, Layers: task.OnDisk(m), Tools: apps{}, Workers: map[string]task.Worker{"fake": {}},
		Now: w.clock.Now, Mono: w.clock.Mono, Slog: quiet,
	}); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.tasks.Run(ctx, nobody{}); err != nil {
			w.t.Error(err)
		}
	})
	if err := w.tasks.Note(ctx, "boxd started", nil, ""); err != nil {
		w.t.Fatal(err)
	}
	w.ws = watch.New(watch.Options{Tasks: w.tasks, Events: w.log, Zone: w.inZone, Clock: w.clock, Slog: quiet})
	w.on = 0
	w.quit = func() {
		w.ws.Close()
		cancel()
		wg.Wait()
		m.Close()
		w.log.Close()
		w.quit = nil
	}
}

func (w *world) inZone() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.zone
}

func (w *world) halt() {
	if w.quit != nil {
		w.quit()
	}
}

// off is the box off for a time.
func (w *world) off(d time.Duration) {
	w.t.Helper()
	w.halt()
	w.clock = clock.At(w.clock.Now().Add(d))
	w.boot()
}

// add has an app watch, and returns once it waits.
func (w *world) add(app string, what watch.Watch) func() {
	w.t.Helper()
	stop, err := w.ws.Add(w.t.Context(), app, what, func(ctx context.Context, f watch.Fired) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.busy != nil {
			close(w.busy) // until the box ends
			w.busy = nil
			<-ctx.Done()
			return ctx.Err()
		}
		if w.answer != nil {
			if err := w.answer(f); err != nil {
				return err
			}
		}
		w.fired = append(w.fired, w.text(f))
		close(w.more)
		w.more = make(chan struct{})
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.on++
	w.still()
	return func() { stop(); w.on-- }
}

func (w *world) text(f watch.Fired) string {
	at, err := time.Parse(time.RFC3339, f.At)
	if err != nil {
		return f.At
	}
	loc, err := time.LoadLocation(w.zone)
	if err != nil {
		return err.Error()
	}
	s := at.In(loc).Format("2006-01-02 15:04")
	if f.Late {
		s += " late"
	}
	var changes []string
	for _, c := range f.Changes {
		changes = append(changes, c.Change+" "+c.Path)
	}
	if len(changes) > 0 {
		s = strings.Join(changes, ", ")
	}
	return s
}

// still returns once every watch waits: what was due is done.
func (w *world) still() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), generous)
	defer cancel()
	// One more waits to let go of what nobody holds.
	if err := w.clock.Waiting(ctx, w.on+1); err != nil {
		w.t.Fatal(err)
	}
}

// pass lets time go by as it does: whoever waits is woken when it is time.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	for end := w.clock.Mono() + d; ; {
		w.still()
		left := end - w.clock.Mono()
		if left <= 0 {
			return
		}
		if next, ok := w.clock.Next(); ok {
			left = min(left, max(next, time.Millisecond))
		}
		w.clock.Advance(left)
	}
}

// until is pass up to a time.
func (w *world) until(s string) {
	w.t.Helper()
	w.pass(w.at(s).Sub(w.clock.Now()))
}

// step sets the clock.
func (w *world) step(s string) {
	w.t.Helper()
	w.clock.Step(w.at(s))
	w.still()
}

// took gives what was fired since it was last asked.
func (w *world) took() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.fired
	w.fired = nil
	return out
}

// want is what was fired since it was last asked, once it was.
func (w *world) want(lines ...string) {
	w.t.Helper()
	late := time.After(generous)
	for waits := len(lines) > 0; waits; {
		w.mu.Lock()
		n, more := len(w.fired), w.more
		w.mu.Unlock()
		if n >= len(lines) {
			break
		}
		select {
		case <-more:
		case <-late:
			waits = false
		}
	}
	if got := w.took(); !slices.Equal(got, lines) {
		w.t.Fatalf("fired %q, not %q", got, lines)
	}
}

func (w *world) answers(fn func(watch.Fired) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = fn
}

// notes are the notes of the box of these kinds, as they stand in the log.
func (w *world) notes(what ...string) []string {
	w.t.Helper()
	var out []string
	if err := w.log.Read(w.t.Context(), 0, func(_ []byte, event func() (actionlog.Event, error)) error {
		ev, err := event()
		if err != nil {
			return err
		}
		var d map[string]any
		if ev.Type != actionlog.TypeNote || json.Unmarshal(ev.Data, &d) != nil || !slices.Contains(what, fmt.Sprint(d["what"])) {
			return nil
		}
		var s []string
		for _, k := range []string{"what", "trigger", "due", "date", "late", "left", "from", "changes", "error"} {
			if v, ok := d[k]; ok {
				s = append(s, fmt.Sprint(v))
			}
		}
		out = append(out, strings.Join(s, " "))
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	return out
}

func daily(name, at string, days ...string) watch.Watch {
	return watch.Watch{Kind: watch.Daily, Name: name, At: at, Weekdays: days}
}

func every(name string, d time.Duration, days ...string) watch.Watch {
	return watch.Watch{Kind: watch.Every, Name: name, MS: d.Milliseconds(), Weekdays: days}
}

// put puts files in, and takes out those whose text is "".
func (w *world) put(workspace string, files ...string) string {
	w.t.Helper()
	x, err := w.tasks.PutFiles(w.t.Context(), workspace, func(l *layers.Writer) error {
		for i := 0; i < len(files); i += 2 {
			if files[i+1] == "" {
				if err := l.Delete(files[i]); err != nil {
					return err
				}
			} else if err := l.File(files[i], 0o644, time.Time{}, strings.NewReader(files[i+1])); err != nil {
				return err
			}
		}
		return nil
	}, "me")
	if err != nil {
		w.t.Fatal(err)
	}
	return x.ID
}

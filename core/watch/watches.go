package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/clock"
)

// Tasks are what watches remember, and the workspaces that they look at.
type Tasks interface {
	Note(ctx context.Context, what string, data map[string]any, task string) error
	// Watched is what is remembered of a watch, and how much time really passed since
	// its Base.
	Watched(ctx context.Context, app, trigger string) (m Memo, since time.Duration, ok bool, err error)
	// WorkspaceOf is the workspace of a task, "" when there is no such task.
	WorkspaceOf(id string) string
	// See is a workspace as it stands now. What it needs stays on disk until Hold says
	// otherwise.
	See(ctx context.Context, app, trigger, workspace string) (Sight, error)
	// Hold keeps on disk what is needed to look at the workspace as it was in s, for
	// the watch, and lets go of all else that the watch held; without s, of all.
	Hold(app, trigger, workspace string, s ...Sight)
	// HoldFor lets go of what watches hold that keep says no to.
	HoldFor(keep func(app, trigger string) bool)
	// Differ lists the files that differ between two sights and whose paths keep takes.
	Differ(ctx context.Context, workspace string, was, is Sight, keep func(path string) bool) ([]Change, error)
	// Saw notes that an app was told of the changes up to s.
	Saw(ctx context.Context, app, trigger, workspace string, s Sight, changes int) error
}

// Events is the action log as it grows.
type Events interface {
	Head() (seq int64, hash string)
	Follow(ctx context.Context, after int64, fn actionlog.Reader) error
}

// Options are what Watches is made of. Clock and Slog have defaults.
type Options struct {
	Tasks  Tasks
	Events Events
	Zone   func() string // the name of the box's time zone
	Clock  clock.Clock
	Slog   *slog.Logger
}

// Watches is every watch of every app.
type Watches struct {
	opt    Options
	ctx    context.Context
	end    context.CancelFunc
	wg     sync.WaitGroup // the watches, and who follows the log
	closed bool           // guarded by mu

	mu   sync.Mutex
	all  map[[2]string]*watching     // by app and trigger
	left map[[2]string]time.Duration // those that ended, and may be added again: by the clock's Mono, when
}

// New begins to follow the log. Close it before the tasks and the log.
func New(o Options) *Watches {
	if o.Clock == nil {
		o.Clock = clock.System{}
	}
	if o.Slog == nil {
		o.Slog = slog.Default()
	}
	w := &Watches{opt: o, all: map[[2]string]*watching{}, left: map[[2]string]time.Duration{}}
	w.ctx, w.end = context.WithCancel(context.Background())
	w.wg.Go(w.follow)
	w.wg.Go(w.letGo)
	return w
}

// Close ends every watch, and waits for the calls that are on their way. What was due
// meanwhile is made up for after the next start.
func (ws *Watches) Close() error {
	ws.mu.Lock()
	ws.closed = true
	ws.mu.Unlock()
	ws.end()
	ws.wg.Wait()
	return nil
}

// Add begins to watch for an app. fire is called whenever the watch says so, one call
// after the other, until stop is called or ctx ends. After stop no call begins, and the
// context of one that runs ends; stop doesn't wait for it. What is wrong with the watch
// is an *Invalid.
//
// What was remembered of an app's watch of that name goes on, over restarts of the
// app and of the box, unless the watch is another one now or the app was off (Off).
func (ws *Watches) Add(ctx context.Context, app string, w Watch, fire Fire) (stop func(), err error) {
	keep, err := w.check()
	if err != nil {
		return nil, err
	}
	key := [2]string{app, w.Name}
	one := &watching{Watches: ws, app: app, Watch: w, keep: keep, fire: fire, caller: ctx}
	one.ctx, one.end = context.WithCancel(ws.ctx)
	if err := ws.enter(key, one); err != nil {
		one.end()
		return nil, err
	}
	if err := one.arm(ctx); err != nil {
		ws.leave(key, one)
		return nil, err
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		return nil, errClosed
	}
	ws.wg.Go(one.run)
	forget := context.AfterFunc(ctx, func() { ws.leave(key, one) })
	return func() { forget(); ws.leave(key, one) }, nil
}

var errClosed = errors.New("the box ends, and watches nothing any more")

func (ws *Watches) enter(key [2]string, one *watching) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		return errClosed
	}
	if was := ws.all[key]; was != nil && was.caller.Err() != nil {
		was.end() // of a process that is gone: it is about to leave by itself
	} else if was != nil {
		return &Invalid{fmt.Sprintf("trigger %q: %s has another one of this name, and the box remembers each by its name", cut(key[1]), key[0])}
	}
	n := 0
	for k := range ws.all {
		if k[0] == key[0] {
			n++
		}
	}
	if n >= maxWatches {
		return &Invalid{fmt.Sprintf("trigger %q: %s has %d of them already, and no app may have more", cut(key[1]), key[0], n)}
	}
	ws.all[key] = one
	delete(ws.left, key)
	return nil
}

func (ws *Watches) leave(key [2]string, one *watching) {
	one.end()
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.all[key] == one {
		delete(ws.all, key)
		ws.left[key] = ws.opt.Clock.Mono()
	}
}

// Off forgets what an app's triggers missed, because the owner turned the app off: what
// is due while it is off is nobody's. Its watches are stopped before.
func (ws *Watches) Off(ctx context.Context, app string) error {
	ws.mu.Lock()
	for key, one := range ws.all {
		if key[0] == app {
			one.end()
			delete(ws.all, key)
		}
	}
	ws.mu.Unlock()
	err := ws.opt.Tasks.Note(ctx, NoteDisarmed, map[string]any{"app": app}, "")
	if err == nil {
		ws.opt.Tasks.HoldFor(func(a, _ string) bool { return a != app })
	}
	return err
}

// patience is how long after the start, or after its process ended, an app may come back
// to what its watches of files were told last. Layers that were undone meanwhile stay on
// disk for it. Nothing but time tells that a watch was given up: an app may add one
// whenever it likes, not only while its triggers start.
const patience = 10 * time.Minute

// letGo ends the holds of watches that nobody added again in time.
func (ws *Watches) letGo() {
	for begin := ws.opt.Clock.Mono(); ; begin += patience {
		for {
			left := begin + patience - ws.opt.Clock.Mono()
			if left <= 0 {
				break
			}
			ws.opt.Clock.Wait(ws.ctx, left)
			if ws.ctx.Err() != nil {
				return
			}
		}
		ws.mu.Lock()
		late := ws.opt.Clock.Mono() - patience
		maps.DeleteFunc(ws.left, func(_ [2]string, at time.Duration) bool { return at <= late })
		ws.opt.Tasks.HoldFor(func(app, trigger string) bool {
			_, left := ws.left[[2]string{app, trigger}]
			return left || ws.all[[2]string{app, trigger}] != nil
		})
		ws.mu.Unlock()
	}
}

// follow wakes the watches that a line of the log concerns.
func (ws *Watches) follow() {
	head, _ := ws.opt.Events.Head()
	err := ws.opt.Events.Follow(ws.ctx, head, func(line []byte, event func() (actionlog.Event, error)) error {
		if !bytes.Contains(line, []byte(`"task.state"`)) && !bytes.Contains(line, []byte(`"note"`)) {
			return nil
		}
		ev, err := event()
		if err != nil {
			return err
		}
		ws.heard(ev)
		return nil
	})
	if err != nil && ws.ctx.Err() == nil && !errors.Is(err, actionlog.ErrClosed) {
		ws.opt.Slog.Error("triggers that watch files see no change any more", "why", err)
	}
}

// heard wakes whom an event concerns.
func (ws *Watches) heard(ev actionlog.Event) {
	switch {
	case ev.Type == actionlog.TypeTaskState && (ev.State == "done" || ev.State == "undone"):
		ws.changed(ws.opt.Tasks.WorkspaceOf(ev.Task))
	case ev.Type == actionlog.TypeNote && ev.Track == "box":
		var n struct{ What, Name string }
		if decode(ev.Data, &n) != nil {
			return
		}
		switch n.What {
		case noteWorkspace:
			ws.changed(n.Name)
		case noteSettings:
			ws.each(func(w *watching) { w.kick() })
		}
	}
}

// What others note that watches heed.
const (
	noteWorkspace = "workspace made"
	noteSettings  = "settings"
)

// changed tells the watches of a workspace that its files may differ.
func (ws *Watches) changed(workspace string) {
	ws.each(func(w *watching) {
		if w.Kind == Files && w.Workspace == workspace {
			w.touch()
		}
	})
}

func (ws *Watches) each(fn func(*watching)) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.all {
		fn(w)
	}
}

// zone is the box's time zone.
func (ws *Watches) zone() *time.Location {
	loc, err := time.LoadLocation(ws.opt.Zone())
	if err != nil { // the settings took the name, so its file was there
		ws.opt.Slog.Error("the box's time zone can't be read: schedules go by UTC", "why", err)
		return time.UTC
	}
	return loc
}

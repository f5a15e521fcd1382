package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// watching is one watch that is on.
type watching struct {
	*Watches
	Watch
	app  string
	keep globs
	fire Fire
	ctx  context.Context
	end  context.CancelFunc

	caller context.Context // of Add

	// Owned by run.
	base time.Duration // of a span: by the clock's Mono, when it last began
	was  Sight         // of files: what the app was last told of
	fail int           // how often in a row the app was not reached
	low  int64         // of a daily one: the earliest that the clock showed since it was added, in milliseconds since 1970

	mu      sync.Mutex
	kicked  bool               // look again at once
	wake    context.CancelFunc // ends the wait, nil when none is on
	touched bool               // files may differ
	first   time.Duration      // by Mono: the first time since they were looked at
	last    time.Duration      // and the last
	lastAt  time.Time          // by the wall clock
}

// Of schedules.
const (
	tooLate  = 12 * time.Hour // what was missed by this much is left out
	punctual = time.Minute    // what begins within it is not late
)

// run looks and waits until the watch ends.
func (w *watching) run() {
	for w.ctx.Err() == nil {
		wait, err := w.look()
		if err != nil {
			if w.ctx.Err() != nil {
				return
			}
			// The log takes nothing, or a layer can't be read: nothing is lost by trying again.
			w.opt.Slog.Error("a trigger can't be looked after", "app", w.app, "trigger", w.Name, "why", err)
			wait = time.Minute
		}
		w.wait(wait)
	}
}

// wait returns after d, at a step of the clock, or when it is kicked.
func (w *watching) wait(d time.Duration) {
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	w.mu.Lock()
	if w.kicked {
		cancel()
	}
	w.kicked, w.wake = false, cancel
	w.mu.Unlock()
	w.opt.Clock.Wait(ctx, d)
	w.mu.Lock()
	w.wake = nil
	w.mu.Unlock()
}

// kick has the watch look at once.
func (w *watching) kick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kicked = true
	if w.wake != nil {
		w.wake()
	}
}

// arm makes the watch go on from what is remembered, or notes that it begins.
func (w *watching) arm(ctx context.Context) error {
	memo, since, ok, err := w.opt.Tasks.Watched(ctx, w.app, w.Name)
	if err != nil {
		return err
	}
	if goesOn := ok && !memo.Off && memo.Of.same(w.Watch); !goesOn {
		if memo, since, err = w.begin(ctx); err != nil {
			return err
		}
	} else if w.Kind == Files {
		w.touch() // something may have changed meanwhile
	}
	w.was, w.low = memo.Sight, memo.Since
	if !w.remembered() {
		since = 0
	}
	w.base = w.opt.Clock.Mono() - since
	return nil
}

// begin notes the watch in the log.
func (w *watching) begin(ctx context.Context) (Memo, time.Duration, error) {
	data := map[string]any{"app": w.app, "trigger": w.Name, "watch": w.Watch}
	if w.Kind == Files {
		s, err := w.opt.Tasks.See(ctx, w.app, w.Name, w.Workspace)
		if err != nil {
			return Memo{}, 0, err
		}
		if s.None {
			data["none"] = true
		}
	}
	if err := w.opt.Tasks.Note(ctx, NoteArmed, data, ""); err != nil {
		return Memo{}, 0, err
	}
	memo, since, _, err := w.opt.Tasks.Watched(ctx, w.app, w.Name)
	if w.Kind == Files && err == nil {
		w.opt.Tasks.Hold(w.app, w.Name, w.Workspace, memo.Sight)
	}
	return memo, since, err
}

// look does what is due, and returns after how long there may be more.
func (w *watching) look() (time.Duration, error) {
	switch w.Kind {
	case Daily:
		return w.lookAtDay()
	case Every:
		return w.lookAtSpan()
	}
	return w.lookAtFiles()
}

// hand gives what is due to the app. Where kept is set the app was not reached, and it
// says why.
func (w *watching) hand(f Fired) (kept, err error) {
	if f.Changes == nil {
		f.Changes = []Change{}
	}
	said := w.fire(w.ctx, f)
	// What the end of the box cuts off is told again where it must not be missed, rather
	// than never: a schedule has another date, changes of files are told once.
	cut := said != nil && w.Kind == Files && w.Watches.ctx.Err() != nil
	if errors.Is(said, ErrNotTaken) || cut {
		w.fail++
		return said, nil
	}
	if w.fail = 0; said == nil {
		return nil, nil
	}
	note := map[string]any{"app": w.app, "trigger": w.Name, "due": f.At, "error": short(said)}
	// Said though the watch ends: the app was told and will not be again.
	return nil, w.opt.Tasks.Note(context.WithoutCancel(w.ctx), NoteFailed, note, "")
}

// again is how long an app that was not reached is left alone, where it doesn't come
// back by itself and add the watch anew.
func (w *watching) again() time.Duration {
	return min(time.Minute<<min(max(w.fail-1, 0), 6), time.Hour)
}

// maxError is how many characters of an error the log takes.
const maxError = 1000

func short(err error) string {
	if r := []rune(err.Error()); len(r) > maxError {
		return string(r[:maxError]) + "…"
	}
	return err.Error()
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func decode(data json.RawMessage, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("a note of the box: %w", err)
	}
	return nil
}

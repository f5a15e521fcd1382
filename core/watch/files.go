package watch

import (
	"context"
	"time"
)

// When changes of files are told.
const (
	settle  = 500 * time.Millisecond // after the last one
	restive = 30 * time.Second       // after the first one, where there is no rest
)

// touch tells a watch of files that they may differ now.
func (w *watching) touch() {
	mono, at := w.opt.Clock.Mono(), w.opt.Clock.Now()
	w.mu.Lock()
	if !w.touched {
		w.touched, w.first = true, mono
	}
	w.last, w.lastAt = mono, at
	w.mu.Unlock()
	w.kick()
}

// lookAtFiles tells the app what differs from what it was told last, once the
// workspace is at rest.
func (w *watching) lookAtFiles() (time.Duration, error) {
	w.mu.Lock()
	touched, rest := w.touched, min(w.last+settle, w.first+restive)-w.opt.Clock.Mono()
	at := w.lastAt
	if touched && rest <= 0 {
		w.touched = false
	}
	w.mu.Unlock()
	if !touched {
		return idle, nil
	}
	if rest > 0 {
		return rest, nil
	}
	is, changes, err := w.compare()
	if err != nil {
		w.touchAgain()
		return 0, err
	}
	if len(changes) == 0 {
		w.pass(is)
		return 0, nil
	}
	kept, err := w.tell(at, changes)
	if kept != nil {
		// They are told with what comes until the app is there, or the box again.
		w.opt.Tasks.Hold(w.app, w.Name, w.Workspace, w.was)
		w.touchAgain()
		return w.again(), nil
	}
	if err != nil {
		return 0, err
	}
	if err := w.opt.Tasks.Saw(context.WithoutCancel(w.ctx), w.app, w.Name, w.Workspace, is, len(changes)); err != nil {
		return 0, err
	}
	w.pass(is)
	return 0, nil
}

// Of one call: what an app's socket takes in one message is some megabytes.
const (
	mostChanges = 10_000
	mostPaths   = 2 << 20 // bytes of their paths
)

// tell hands changes to the app, in several calls where they are many.
func (w *watching) tell(at time.Time, changes []Change) (kept, err error) {
	for len(changes) > 0 && kept == nil && err == nil {
		n, size := 0, 0
		for n < len(changes) && n < mostChanges && size < mostPaths {
			size += len(changes[n].Path)
			n++
		}
		kept, err = w.hand(Fired{At: stamp(at), Changes: changes[:n]})
		changes = changes[n:]
	}
	return kept, err
}

func (w *watching) compare() (Sight, []Change, error) {
	is, err := w.opt.Tasks.See(w.ctx, w.app, w.Name, w.Workspace)
	if err != nil {
		return Sight{}, nil, err
	}
	changes, err := w.opt.Tasks.Differ(w.ctx, w.Workspace, w.was, is, w.keep.match)
	return is, changes, err
}

// pass makes a sight the one that the next is held against.
func (w *watching) pass(s Sight) {
	w.was = s
	w.opt.Tasks.Hold(w.app, w.Name, w.Workspace, s)
}

// touchAgain is touch where nothing new happened: what was looked at is to be looked at
// again, and the wait for it goes by what look returns.
func (w *watching) touchAgain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.touched = true
}

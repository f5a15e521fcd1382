// Package clock owns a clock that a test drives: a core/clock.Clock that stands still
// until it is told to go on or is set.
package clock

import (
	"context"
	"sync"
	"time"

	"gurtos/core/clock"
)

// Virtual is a clock of a test's own.
type Virtual struct {
	mu      sync.Mutex
	wall    time.Time
	mono    time.Duration
	waiting map[*wait]bool
	changed chan struct{} // closed and replaced when waiting changes
}

type wait struct {
	until time.Duration
	done  chan struct{}
}

var _ clock.Clock = (*Virtual)(nil)

// At makes a clock that shows t.
func At(t time.Time) *Virtual {
	return &Virtual{wall: t, mono: time.Hour, waiting: map[*wait]bool{}, changed: make(chan struct{})}
}

// Now is what the clock shows.
func (v *Virtual) Now() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.wall
}

// Mono is the time that passed.
func (v *Virtual) Mono() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.mono
}

// Wait returns when the test let d pass or set the clock, or when ctx ends.
func (v *Virtual) Wait(ctx context.Context, d time.Duration) {
	if d <= 0 || ctx.Err() != nil {
		return
	}
	v.mu.Lock()
	w := &wait{until: v.mono + d, done: make(chan struct{})}
	v.waiting[w] = true
	v.tell()
	v.mu.Unlock()
	select {
	case <-w.done:
	case <-ctx.Done():
	}
	v.mu.Lock()
	if v.waiting[w] {
		delete(v.waiting, w)
		v.tell()
	}
	v.mu.Unlock()
}

func (v *Virtual) tell() {
	close(v.changed)
	v.changed = make(chan struct{})
}

// Advance lets time pass.
func (v *Virtual) Advance(d time.Duration) { v.move(d, d) }

// Step sets the clock to another time, in which no time passes.
func (v *Virtual) Step(to time.Time) { v.move(to.Sub(v.Now()), 0) }

// move wakes those whose time is over, and all when the clock was set.
func (v *Virtual) move(wall, mono time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.wall, v.mono = v.wall.Add(wall), v.mono+mono
	for w := range v.waiting {
		if w.until <= v.mono || wall != mono {
			close(w.done)
			delete(v.waiting, w)
		}
	}
	v.tell()
}

// Next is how long it is until the first of those who wait is woken; ok is false when
// nobody waits.
func (v *Virtual) Next() (d time.Duration, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for w := range v.waiting {
		if left := w.until - v.mono; !ok || left < d {
			d, ok = left, true
		}
	}
	return d, ok
}

// Waiting returns once n wait, or ctx ends.
func (v *Virtual) Waiting(ctx context.Context, n int) error {
	for {
		v.mu.Lock()
		have, changed := len(v.waiting), v.changed
		v.mu.Unlock()
		if have >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Due returns once somebody waits who is woken after d exactly, or ctx ends.
func (v *Virtual) Due(ctx context.Context, d time.Duration) error {
	for {
		v.mu.Lock()
		due, changed := false, v.changed
		for w := range v.waiting {
			due = due || w.until-v.mono == d
		}
		v.mu.Unlock()
		if due {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

package task

import (
	"context"

	"gurtos/core/actionlog"
)

// Pause sets or ends Pause all agents: queued tasks stay queued, running sandboxes
// are frozen, and a step, call or question waits.
func (t *Tasks) Pause(ctx context.Context, on bool, by string) error {
	err := t.commit(ctx, func(f *fold) ([]actionlog.Event, error) {
		if f.Paused == on {
			return nil, nil
		}
		was := t.halted()
		if err := t.submit([]actionlog.Event{mustNote(notePause, map[string]any{"paused": on, "by": by}, "")}); err != nil {
			return nil, err
		}
		t.halt(was)
		return nil, nil
	})
	return err
}

// Paused says whether agents stand still.
func (t *Tasks) Paused() bool { return t.Standstill() != "" }

// Standstill says why no agent works now: "" when they do, "paused" when the owner
// paused them, "paused: disk full" when the disk has too little room.
func (t *Tasks) Standstill() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.full:
		return "paused: disk full"
	case t.fold.Paused:
		return "paused"
	}
	return ""
}

// halted says whether agents stand still. mu is held.
func (t *Tasks) halted() bool { return t.fold.Paused || t.full }

// halt holds the sandboxes to a change of halted. mu is held.
func (t *Tasks) halt(was bool) {
	now := t.halted()
	if now == was {
		return
	}
	if now {
		t.resumed = make(chan struct{})
	} else {
		close(t.resumed)
		t.resumed = nil
	}
	for id, r := range t.live {
		if r.sandbox == nil {
			continue
		}
		act := r.sandbox.Thaw
		if now {
			act = r.sandbox.Freeze
		}
		if err := act(); err != nil {
			t.opt.Slog.Error("a task could not be frozen or thawed", "task", id, "why", err)
		}
	}
	t.wake()
}

// Going returns once agents may work.
func (t *Tasks) Going(ctx context.Context) error {
	for {
		t.mu.Lock()
		c := t.resumed
		t.mu.Unlock()
		if c == nil {
			return nil
		}
		select {
		case <-c:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

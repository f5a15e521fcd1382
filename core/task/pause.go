package task

import (
	"context"
	"errors"
	"io/fs"
	"sync"

	"gurtos/core/actionlog"
)

// Pause sets or ends Pause all agents: queued tasks stay queued, running sandboxes
// are frozen, and a step, call or question waits.
func (t *Tasks) Pause(ctx context.Context, on bool, by string) error {
	seq, err := t.decide(func(f *fold) ([]actionlog.Event, error) {
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
	t.hold() // before the disk has the line: who pauses wants it now
	if werr := t.opt.Log.Wait(ctx, seq); werr != nil {
		return werr
	}
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

// halt tells who waits of a change of halted. mu is held; hold follows once it is not.
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
	t.wake()
}

// hold freezes the sandboxes, or lets them go on, as halted has it when it returns. The
// kernel takes its time to freeze a busy one, and nobody else waits for that.
func (t *Tasks) hold() {
	t.holding.Lock()
	defer t.holding.Unlock()
	failed := map[*run]bool{} // what could not be done, which the ticker has done again
	for {
		all, frozen := t.unlike(failed)
		if len(all) == 0 {
			return
		}
		var each sync.WaitGroup
		for r, sb := range all {
			each.Go(func() {
				act := sb.Thaw
				if frozen {
					act = sb.Freeze
				}
				// One that has just ended has nothing left to freeze.
				if err := act(); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.opt.Slog.Error("a task could not be frozen or thawed", "task", r.id, "why", err)
					t.mu.Lock()
					r.unsure, failed[r] = true, frozen
					t.mu.Unlock()
				}
			})
		}
		each.Wait()
	}
}

// unlike are the sandboxes that are not as halted has it, but for those with which just
// that failed; they count as if they were.
func (t *Tasks) unlike(failed map[*run]bool) (all map[*run]Sandbox, frozen bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	frozen, all = t.halted(), map[*run]Sandbox{}
	for _, r := range t.live {
		if to, ok := failed[r]; ok && to == frozen {
			continue
		}
		if r.sandbox != nil && (r.frozen != frozen || r.unsure) {
			r.frozen, r.unsure = frozen, false
			all[r] = r.sandbox
		}
	}
	return all, frozen
}

// unsure says whether a sandbox could not be frozen or thawed.
func (t *Tasks) unsure() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.live {
		if r.unsure {
			return true
		}
	}
	return false
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

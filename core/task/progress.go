package task

import (
	"context"
	"encoding/json"
	"errors"

	"gurtos/core/actionlog"
	"gurtos/core/budget"
)

// Step logs a line of progress of a task that works, after what it wrote so far is on
// disk. It waits while agents stand still.
func (t *Tasks) Step(ctx context.Context, id, text string, data json.RawMessage) (actionlog.Event, error) {
	ev := actionlog.Event{Type: actionlog.TypeTaskStep, Task: id, Text: text, Data: data}
	var out actionlog.Event
	err := t.whenGoing(ctx, func() (err error) {
		if err = t.syncLayer(id); err == nil {
			out, err = t.line(ctx, id, ev, t.going)
		}
		return err
	})
	return out, err
}

// errHalted says that agents were stopped between the wait for it and the decision.
var errHalted = errors.New("agents stand still")

// going is errHalted while agents stand still. mu is held.
func (t *Tasks) going() error {
	if t.halted() {
		return errHalted
	}
	return nil
}

// whenGoing does act once agents may work, again when they were stopped just before it
// was decided.
func (t *Tasks) whenGoing(ctx context.Context, act func() error) error {
	for {
		if err := t.Going(ctx); err != nil {
			return err
		}
		if err := act(); !errors.Is(err, errHalted) {
			return err
		}
	}
}

// line writes one event of a task that has not ended, if all checks pass under the
// lock, and returns it as it is logged.
func (t *Tasks) line(ctx context.Context, id string, ev actionlog.Event, checks ...func() error) (actionlog.Event, error) {
	evs := []actionlog.Event{ev}
	err := t.commit(ctx, func(f *fold) ([]actionlog.Event, error) {
		for _, check := range checks {
			if err := check(); err != nil {
				return nil, err
			}
		}
		e, err := f.entry(id)
		if err != nil {
			return nil, err
		}
		if !e.State.Live() {
			return nil, &Over{id, e.State}
		}
		return evs, nil
	})
	return evs[0], err
}

// Cost books what a worker spent by itself.
func (t *Tasks) Cost(ctx context.Context, id string, c budget.Cents, what string) (actionlog.Event, error) {
	return t.line(ctx, id, actionlog.Event{Type: actionlog.TypeCost, Task: id, Cents: c.Number(), What: what})
}

// syncLayer puts what the task wrote on disk. Steps that come while one sync runs
// share the next one.
func (t *Tasks) syncLayer(id string) error {
	t.mu.Lock()
	r := t.live[id]
	t.mu.Unlock()
	if r == nil {
		return nil // nothing of it is mounted, so nothing is unwritten
	}
	<-r.ready // a worker may be faster than the call that started it
	t.mu.Lock()
	sb := r.sandbox
	t.mu.Unlock()
	if sb == nil {
		return nil
	}
	return r.sync.do(sb.Sync)
}

// ToolCost books what a tool spent beyond the price of its call. It is booked though
// the task ended meanwhile: the money is gone.
func (t *Tasks) ToolCost(ctx context.Context, id, tool string, c budget.Cents, what string) error {
	spender, err := json.Marshal(AppOf(tool))
	if err != nil {
		return err
	}
	ev := actionlog.Event{
		Type: actionlog.TypeCost, Task: id, Cents: c.Number(), What: what,
		Extra: []actionlog.Field{{Name: "spender", Value: spender}},
	}
	return t.commit(ctx, func(f *fold) ([]actionlog.Event, error) {
		_, err := f.entry(id)
		return []actionlog.Event{ev}, err
	})
}

// ToolStep logs a line of progress that a tool has to say.
func (t *Tasks) ToolStep(ctx context.Context, id, text string, data json.RawMessage) error {
	_, err := t.line(ctx, id, actionlog.Event{Type: actionlog.TypeTaskStep, Task: id, Text: text, Data: data})
	return err
}

package task

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"gurtos/core/actionlog"
	"gurtos/core/approval"
)

// WorkerAsks is Ask for a worker's own question: it waits while agents stand still.
func (t *Tasks) WorkerAsks(ctx context.Context, a approval.Approval) (approval.Approval, error) {
	var out approval.Approval
	err := t.whenGoing(ctx, func() (err error) { out, err = t.enter(ctx, a, t.going); return err })
	return out, err
}

// Ask enters a question of a task, unless its id was asked before, and returns it as
// it stands. The task waits from then on until nothing of its is pending.
func (t *Tasks) Ask(ctx context.Context, a approval.Approval) (approval.Approval, error) {
	return t.enter(ctx, a, func() error { return nil })
}

func (t *Tasks) enter(ctx context.Context, a approval.Approval, check func() error) (approval.Approval, error) {
	var out approval.Approval
	err := t.commit(ctx, func(f *fold) ([]actionlog.Event, error) {
		if have, ok := f.Approvals.Get(a.ID); ok {
			out = have
			return nil, nil
		}
		e, err := f.entry(a.Task)
		if err != nil {
			return nil, err
		}
		if !e.State.Live() {
			return nil, &Over{e.ID, e.State}
		}
		if err := check(); err != nil {
			return nil, err
		}
		if f.Approvals.Open(e.ID) >= MaxOpen {
			return nil, tooManyOpen(e.ID)
		}
		a.State = approval.Pending
		out = a
		return f.ask(e, a)
	})
	return out, err
}

// MaxOpen is how many questions of a task may wait for an answer at once, and how many of
// its calls may be on their way. A task's end closes all of them in one write, which has a
// limit: a task with more than fit into it could be ended by nobody.
const MaxOpen = 1000

func tooManyOpen(id string) error {
	return &Invalid{"", fmt.Sprintf("%s has %d questions open and may ask no more until some are answered", id, MaxOpen)}
}

// ask are the lines of a new question.
func (f *fold) ask(e *entry, a approval.Approval) ([]actionlog.Event, error) {
	raw, err := approval.Plain(a)
	if err != nil {
		return nil, err
	}
	evs := []actionlog.Event{{Type: actionlog.TypeApprovalAsked, Task: e.ID, Approval: raw}}
	if e.State == Running {
		evs = append(evs, actionlog.Event{Type: actionlog.TypeTaskState, Task: e.ID, State: string(Waiting)})
	}
	return evs, nil
}

// MaxReason is how many characters the reason of an answer may have.
const MaxReason = 1000

// Answer answers a question. The first answer holds for ever; a later one changes
// nothing and gets the first back.
func (t *Tasks) Answer(ctx context.Context, id string, approved bool, by, reason string) (approval.Approval, error) {
	if n := utf8.RuneCountInString(reason); n > MaxReason {
		return approval.Approval{}, atMost("reason", reason, MaxReason)
	}
	var out approval.Approval
	var line int64
	err := t.commit(ctx, func(f *fold) ([]actionlog.Event, error) {
		a, ok := f.Approvals.Get(id)
		if !ok {
			return nil, &NotFound{"approval", shown(id)}
		}
		if a.State == approval.Pending {
			if err := t.submit(f.answer(f.Tasks[a.Task], id, approved, by, reason)); err != nil {
				return nil, err
			}
			if err := t.submit(t.notResumed(f, f.Tasks[a.Task], id)); err != nil {
				return nil, err
			}
		}
		out, _ = f.Approvals.Get(id)
		line = f.Approvals.Line(id)
		return nil, nil
	})
	if err != nil {
		return approval.Approval{}, err
	}
	return t.questionOf(context.WithoutCancel(ctx), out, line)
}

// answer are the lines of a first answer.
func (f *fold) answer(e *entry, id string, approved bool, by, reason string) []actionlog.Event {
	evs := []actionlog.Event{{Type: actionlog.TypeApprovalAnswered, Task: e.ID, ID: id, Approved: &approved, By: by, Reason: reason}}
	if e.State == Waiting && f.Approvals.Open(e.ID) == 1 {
		evs = append(evs, actionlog.Event{Type: actionlog.TypeTaskState, Task: e.ID, State: string(Running)})
	}
	return evs
}

// Approvals returns questions, oldest first: those in a state, "" for all.
// EachApproval is the same without all of them in memory.
func (t *Tasks) Approvals(ctx context.Context, state approval.State) ([]approval.Approval, error) {
	out := []approval.Approval{}
	err := t.EachApproval(ctx, state, 0, func(a approval.Approval) error { out = append(out, a); return nil })
	return out, err
}

// Approval returns one question.
func (t *Tasks) Approval(ctx context.Context, id string) (approval.Approval, error) {
	a, err := t.question(ctx, id)
	if err != nil || a.State == approval.Pending {
		return a, err
	}
	t.mu.Lock()
	line := t.fold.Approvals.Line(id)
	t.mu.Unlock()
	return t.questionOf(ctx, a, line)
}

// question returns one question; without its texts once it is answered.
func (t *Tasks) question(ctx context.Context, id string) (approval.Approval, error) {
	var out approval.Approval
	err := t.read(ctx, func(f *fold) error {
		a, ok := f.Approvals.Get(id)
		if !ok {
			return &NotFound{"approval", shown(id)}
		}
		out = a
		return nil
	})
	return out, err
}

// Await returns a question once it is answered, then without its texts, or as it stands
// when most has passed (0: never) or ctx ends. An answer is on disk before anyone sees it.
func (t *Tasks) Await(ctx context.Context, id string, most time.Duration) (approval.Approval, error) {
	var late <-chan time.Time
	if most > 0 {
		timer := time.NewTimer(most)
		defer timer.Stop()
		late = timer.C
	}
	c, err := t.answerOf(id)
	if err != nil {
		return approval.Approval{}, err
	}
	select {
	case <-c:
	case <-late:
	case <-ctx.Done():
		return approval.Approval{}, ctx.Err()
	}
	return t.question(ctx, id)
}

// answerOf is closed once a question is answered.
func (t *Tasks) answerOf(id string) (<-chan struct{}, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, ok := t.fold.Approvals.Get(id)
	if !ok {
		return nil, &NotFound{"approval", shown(id)}
	}
	c := t.answered[id]
	switch {
	case a.State != approval.Pending:
		c = make(chan struct{})
		close(c)
	case c == nil:
		c = make(chan struct{})
		t.answered[id] = c
	}
	return c, nil
}

// Note writes what the box itself has to say; task may be "".
func (t *Tasks) Note(ctx context.Context, what string, data map[string]any, task string) error {
	ev, err := note(what, data, task)
	if err != nil {
		return err
	}
	return t.commit(ctx, func(*fold) ([]actionlog.Event, error) { return []actionlog.Event{ev}, nil })
}

// AppNote writes a note of an app.
func (t *Tasks) AppNote(ctx context.Context, app string, data json.RawMessage, task string) error {
	return t.commit(ctx, func(f *fold) ([]actionlog.Event, error) {
		if task != "" {
			if _, err := f.entry(task); err != nil {
				return nil, err
			}
		}
		return []actionlog.Event{{Type: actionlog.TypeNote, Track: app, Data: data, Task: task}}, nil
	})
}

package task

import (
	"context"
	"fmt"
	"os"

	"gurtos/core/actionlog"
	"gurtos/core/approval"
)

// Who answers the questions that a task leaves open.
const (
	byEnd  = "task ended"
	byUndo = "undo"
)

// end are the lines of a task's end: its open questions are answered no, then the
// state. The table was asked before.
func (f *fold) end(e *entry, to State, why, by string) []actionlog.Event {
	var evs []actionlog.Event
	no := false
	for _, a := range f.Approvals.List(approval.Pending, e.ID) {
		evs = append(evs, actionlog.Event{Type: actionlog.TypeApprovalAnswered, Task: e.ID, ID: a.ID, Approved: &no, By: by})
	}
	return append(evs, actionlog.Event{Type: actionlog.TypeTaskState, Task: e.ID, State: string(to), Error: why, Summary: e.Summary})
}

// Stop ends a task without undoing what it did; its layer is never seen.
func (t *Tasks) Stop(ctx context.Context, id, by string) (Task, error) {
	return t.leave(ctx, id, Failed, fmt.Sprintf("Stopped by %s.", by), byEnd)
}

// Undo ends a task, if it is going, and takes its changes out of the workspace;
// those of other tasks stay.
func (t *Tasks) Undo(ctx context.Context, id, by string) (Task, error) {
	out, err := t.leave(ctx, id, Undone, "", byUndo)
	if err == nil {
		t.tidy()
	}
	return out, err
}

func (t *Tasks) leave(ctx context.Context, id string, to State, why, by string) (Task, error) {
	var out Task
	err := t.commit(ctx, func(f *fold) ([]actionlog.Event, error) {
		e, err := f.entry(id)
		if err != nil {
			return nil, err
		}
		if !e.State.Can(to) {
			return nil, &Refused{id, e.State, to}
		}
		if err := t.submit(f.end(e, to, why, by)); err != nil {
			return nil, err
		}
		out = e.copy()
		return nil, nil
	})
	if err != nil {
		return Task{}, err
	}
	t.kill(id)
	return out, nil
}

// kill ends a task's sandbox, if it has one.
func (t *Tasks) kill(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.live[id]; r != nil {
		if r.killed = true; r.sandbox != nil {
			r.sandbox.Kill()
		}
	}
}

// dropAll deletes a task's folder with all that is in it.
func (t *Tasks) dropAll(id string) error {
	for _, layer := range []string{t.layerDir(id), t.homeDir(id)} {
		if err := t.drop(layer); err != nil {
			return err
		}
	}
	return os.RemoveAll(t.dir(id))
}

func (t *Tasks) drop(layer string) error {
	if _, err := os.Lstat(layer); err != nil {
		return nil // it is gone, or was never there
	}
	return t.opt.Layers.Drop(layer)
}

package task

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"

	"gurtos/core/actionlog"
)

// Who answers the questions that a task leaves open.
const (
	byEnd  = "task ended"
	byUndo = "undo"
)

// end are the lines of a task's end: its open questions are answered no, calls that a
// restart cut off and nobody made again are closed, then the state. The table was
// asked before. mu is held.
func (t *Tasks) end(e *entry, to State, why, by string) []actionlog.Event {
	var evs []actionlog.Event
	no := false
	for _, a := range t.fold.Approvals.Pending(e.ID) {
		evs = append(evs, actionlog.Event{Type: actionlog.TypeApprovalAnswered, Task: e.ID, ID: a.ID, Approved: &no, By: by})
	}
	evs = append(evs, t.lost(e)...)
	return append(evs, actionlog.Event{Type: actionlog.TypeTaskState, Task: e.ID, State: string(to), Error: why, Summary: e.Summary})
}

// lost are the lines that close a task's calls which were cut off and never made
// again. Whether their tools got as far as spending is not known; the owner is told of
// those that could.
func (t *Tasks) lost(e *entry) []actionlog.Event {
	var evs []actionlog.Event
	no := false
	for _, key := range slices.Sorted(maps.Keys(e.Calls)) {
		c := e.Calls[key]
		if !c.Started || c.Result != nil || t.flights[e.ID][key] != nil {
			continue
		}
		cut := "when the box stopped or its app ended"
		if why := t.cuts[[2]string{e.ID, key}]; why != "" {
			cut = "in its app, since " + why
		}
		delete(t.cuts, [2]string{e.ID, key})
		end := actionlog.Event{
			Type: actionlog.TypeToolResult, Task: e.ID, Key: key, OK: &no,
			Error: "cut off " + cut + ", and not called again before the task ended",
		}
		if c.Doubt && c.Reserved.Sign() > 0 {
			end.Error = "its result was cut out of the log, and it was not called again: what it could spend counts as spent"
			end.Cents = c.Reserved.Number()
		}
		evs = append(evs, end)
		if c.Reserved.Sign() > 0 {
			text := fmt.Sprintf("A call of %s for up to %s was cut off %s, and %s never made it again. It may have been charged: look it up by %s.%s.",
				c.Tool, dollars(c.Reserved), cut, e.ID, e.ID, key)
			evs = append(evs, mustNote(noteAlert, map[string]any{"text": text}, e.ID))
		}
	}
	return evs
}

// Stop ends a task without undoing what it did; its layer is never seen.
func (t *Tasks) Stop(ctx context.Context, id, by string) (Task, error) {
	out, err := t.leave(ctx, id, Failed, fmt.Sprintf("Stopped by %s.", by), byEnd)
	if err == nil {
		t.Kill(id)
	}
	return out, err
}

// Undo ends a task, if it is going, and takes its changes out of the workspace;
// those of other tasks stay.
func (t *Tasks) Undo(ctx context.Context, id, by string) (Task, error) {
	out, err := t.leave(ctx, id, Undone, "", byUndo, mustNote(noteUndo, map[string]any{"by": by}, id))
	if err == nil {
		t.Kill(id)
	}
	return out, err
}

// Trap undoes a task that was caught, and tells the owner, in one batch. Its sandbox
// runs on until Kill, so that the one who was caught can be answered; it can do
// nothing more through its broker.
func (t *Tasks) Trap(ctx context.Context, id, alert string) error {
	_, err := t.leave(ctx, id, Undone, "", byUndo, mustNote(noteAlert, map[string]any{"text": alert}, id))
	return err
}

// leave writes the end of a task that a person or the box decides on.
func (t *Tasks) leave(ctx context.Context, id string, to State, why, by string, notes ...actionlog.Event) (Task, error) {
	var out part
	err := t.commit(ctx, func(f *fold) ([]actionlog.Event, error) {
		e, err := f.entry(id)
		if err != nil {
			return nil, err
		}
		if !e.State.Can(to) {
			return nil, &Refused{id, e.State, to}
		}
		if e.Folded || t.folding[id] {
			return nil, foldedError(id, e.FoldedAt)
		}
		// The state comes before the notes: of a batch that a power cut tears, the
		// first lines are left, and they must be those that stop the task.
		if err := t.submit(append(t.end(e, to, why, by), notes...)); err != nil {
			return nil, err
		}
		out = f.Tasks[id].part()
		return nil, nil
	})
	if err != nil {
		return Task{}, err
	}
	return t.wholeOf(context.WithoutCancel(ctx), out)
}

// Kill ends the sandbox of a task that ended, if it has one.
func (t *Tasks) Kill(id string) {
	var sb Sandbox
	t.mu.Lock()
	if r := t.live[id]; r != nil {
		r.killed, sb = true, r.sandbox
	}
	t.mu.Unlock()
	if sb != nil {
		sb.Kill()
	}
	t.tidy()
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

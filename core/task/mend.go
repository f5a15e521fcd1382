package task

import (
	"context"
	"maps"
	"slices"

	"gurtos/core/actionlog"
)

// mend writes what follows from the log and isn't in it. A batch of lines is written
// at once, but a power cut can tear it between two of them: a question without the
// state that goes with it, or its answer without. Layers may have become part of a base
// just before. And a call may have been running when
// its task ended, and then the box: nobody can make it again.
func (t *Tasks) mend(ctx context.Context) error {
	return t.commit(ctx, func(f *fold) ([]actionlog.Event, error) {
		var evs []actionlog.Event
		for _, ws := range slices.Sorted(maps.Keys(t.applied)) {
			evs = append(evs, foldedNote(ws, t.applied[ws]))
		}
		t.applied = nil
		for _, e := range f.order {
			id, open := e.ID, f.Approvals.Open(e.ID) > 0
			switch {
			case e.State == Running && open:
				evs = append(evs, actionlog.Event{Type: actionlog.TypeTaskState, Task: id, State: string(Waiting)})
			case e.State == Waiting && !open:
				evs = append(evs, actionlog.Event{Type: actionlog.TypeTaskState, Task: id, State: string(Running)})
			case e.State.Ended() && len(e.Calls) > 0:
				evs = append(evs, t.lost(e)...)
			}
		}
		// They stand each for itself, and a write to the log has a limit.
		for some := range slices.Chunk(evs, MaxOpen) {
			if err := t.submit(some); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
}

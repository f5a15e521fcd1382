package task

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

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
		evs = append(evs, t.tellOfGap(f)...)
		for _, e := range f.order {
			id, open := e.ID, f.Approvals.Open(e.ID) > 0
			doubtful, err := t.doubtful(f, e)
			if err != nil {
				return nil, err
			}
			switch {
			case len(doubtful) > 0:
				evs = append(evs, doubtful...)
			case e.State == Running && open:
				evs = append(evs, actionlog.Event{Type: actionlog.TypeTaskState, Task: id, State: string(Waiting)})
			case e.State == Waiting && !open:
				evs = append(evs, actionlog.Event{Type: actionlog.TypeTaskState, Task: id, State: string(Running)})
			case e.State.Ended() && len(e.Calls) > 0:
				evs = append(evs, t.lost(e)...)
			}
		}
		evs = append(evs, t.layerless(f)...)
		// They stand each for itself, and a write to the log has a limit.
		for some := range slices.Chunk(evs, MaxOpen) {
			if err := t.submit(some); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
}

// byStart is who the log names for what a start had to decide.
const byStart = "box start"

// layerless undoes the done tasks whose layer is not on disk, where lines were cut out of
// the log: one of them said that the task was undone, or part of its workspace for good.
// As done ones they would be in every view of the workspace, and none could be mounted.
// mu is held.
func (t *Tasks) layerless(f *fold) (evs []actionlog.Event) {
	if !f.Gap {
		return nil
	}
	for _, workspace := range slices.Sorted(maps.Keys(f.done)) {
		var lost []string
		for _, id := range f.done[workspace] {
			if _, err := os.Lstat(t.layerDir(id)); !errors.Is(err, fs.ErrNotExist) {
				continue
			}
			lost = append(lost, id)
			evs = append(evs, actionlog.Event{Type: actionlog.TypeTaskState, Task: id, State: string(Undone)}, mustNote(noteUndo, map[string]any{"by": byStart}, id))
		}
		if len(lost) > 0 {
			text := fmt.Sprintf("A line that was cut out of the log said what became of %s: what was changed there is no longer kept by itself, so it counts as undone now. What had become part of the workspace %s before still is.",
				strings.Join(lost, ", "), workspace)
			evs = append(evs, mustNote(noteAlert, map[string]any{"text": text}, ""))
		}
	}
	return evs
}

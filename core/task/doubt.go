package task

import (
	"bytes"
	"fmt"
	"strconv"

	"gurtos/core/actionlog"
	"gurtos/core/approval"
)

// A line that was cut out of the log, or lost off its end, may have ended a task: somebody
// stopped it, or it was caught. A start must not bring it back. Whatever of a task follows
// the gap, and only a task that goes on does, shows that it didn't end there; a task of which
// nothing follows is carried on once the owner says so.

// doubt takes a line that stands for a cut-out one, or tells of those that are lost. A call
// may outlive its task, and so may its result.
func (f *fold) doubt(seq int64) {
	for _, e := range f.order {
		if !e.State.Live() && len(e.Calls) == 0 {
			continue
		}
		if e = f.own(e.ID); e.State.Live() {
			e.Doubt = seq
		}
		for _, c := range e.Calls {
			c.Doubt = c.Started && c.Result == nil
		}
	}
}

// alive takes a line of a task, where it shows that the task went on after a gap.
func (f *fold) alive(e *entry, ev *actionlog.Event) {
	if !f.Gap || e.State.Ended() {
		return
	}
	switch ev.Type {
	case actionlog.TypeTaskStep, actionlog.TypeToolCall:
	case actionlog.TypeApprovalAsked:
		if e.Doubt != 0 && bytes.Contains(ev.Approval, []byte(strconv.Quote(e.resumeID()))) {
			return
		}
	case actionlog.TypeTaskState:
		if _, asked := f.Approvals.Get(e.resumeID()); !asked {
			e.Doubt = 0
		}
		return
	default:
		return
	}
	e.Doubt = 0
	if e.State == Queued { // the line that started it was cut out
		f.enter(e, Running)
		e.Layers = f.seen(e.Workspace)
	}
}

// resumeID is the question whether a task in doubt is to be carried on.
func (e *entry) resumeID() string { return fmt.Sprintf("%s.resume.%d", e.ID, e.Doubt) }

// onlyApp is the app whose tools are all that the task may call, "" where there are
// several.
func (e *entry) onlyApp() string {
	app := ""
	for _, tool := range e.Tools {
		of := AppOf(tool)
		if app != "" && of != app {
			return ""
		}
		app = of
	}
	return app
}

// doubtful are the lines with which a start meets a task that a cut-out line may have
// ended. mu is held.
func (t *Tasks) doubtful(f *fold, e *entry) ([]actionlog.Event, error) {
	if e.Undo && e.State.Can(Undone) {
		return t.end(e, Undone, "", byUndo), nil
	}
	if e.Doubt == 0 || !e.State.Live() {
		return nil, nil
	}
	if t.opt.Layers.Sealed(t.layerDir(e.ID)) {
		return t.end(e, Done, "", byEnd), nil // it ended well: only then a layer is sealed
	}
	a, asked := f.Approvals.Get(e.resumeID())
	if asked {
		return t.notResumed(f, e, a.ID), nil
	}
	return f.ask(e, approval.Approval{
		ID: e.resumeID(), Task: e.ID, State: approval.Pending,
		Question: fmt.Sprintf("Carry this task on? What stood in line %d was cut out of the log as damaged, or is lost off its end, and may have said that the task was stopped or undone.", e.Doubt),
	})
}

// notResumed are the lines that end a task which the owner doesn't want carried on; none
// for another question. mu is held.
func (t *Tasks) notResumed(f *fold, e *entry, id string) []actionlog.Event {
	a, _ := f.Approvals.Get(id)
	if e.Doubt == 0 || id != e.resumeID() || a.State != approval.Denied || !e.State.Live() {
		return nil
	}
	return t.end(e, Failed, fmt.Sprintf("Stopped by %s.", a.By), byEnd)
}

// tellOfGap alerts the owner, once, to what the box no longer knows. mu is held.
func (t *Tasks) tellOfGap(f *fold) []actionlog.Event {
	if !f.Untold {
		return nil
	}
	text := "Lines of the action log were damaged or gone, and what they said is lost. Look whether all agents are paused if they should be, whether each app is on or off, what it may do and what it may spend as you set it, " +
		"and at the tasks of that time: a stop, an undo or a payment may be forgotten. `box log verify` tells which lines, and where they are kept."
	return []actionlog.Event{mustNote(noteAlert, map[string]any{"text": text, "cutOut": true}, "")}
}

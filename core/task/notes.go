package task

import (
	"encoding/json"
	"fmt"

	"gurtos/core/actionlog"
)

// What the box itself notes about tasks; the value of "what" in a note of track box.
// NoteRefused is also for what other packages hold an app to.
const (
	notePause   = "pause"              // {paused, by}
	noteMerged  = "call merged"        // {key, with}: key shares the run of with
	noteRights  = "permission"         // {app, set, by}
	NoteRefused = "permission refused" // {app, item, tool?}
	noteUndo    = "undo"               // {by}
	noteFolded  = "layers folded"      // {workspace, tasks}: their changes are part of the workspace for good
	noteAlert   = "alert"              // {text, cutOut?}: cutOut of the one about lines that were cut out of the log
	noteClock   = "clock checked"      // {}: a time server was heard, once after each start; the clock is right from this line on
	noteEnd     = "boxd ended"         // {}: in order; the time up to it is proven
	noteDisk    = "disk"               // {full, free, do?}: the disk became full, or has room again
	NoteApp     = "app"                // {app, on, by}: turned on or off

	noteStart  = "boxd started"   // of the box, once its tasks are there
	noteCutOut = "log.quarantine" // of the log: at its end then, what was cut out of it
	noteCutOff = "log.cut"        // of the log: what was cut off its end at a start; {cut: {lost?}}, lines that had been on the disk
)

// note is a note event of the box.
func note(what string, data map[string]any, task string) (actionlog.Event, error) {
	d := map[string]any{"what": what}
	for k, v := range data {
		d[k] = v
	}
	b, err := json.Marshal(d)
	if err != nil {
		return actionlog.Event{}, fmt.Errorf("note %s: %w", what, err)
	}
	return actionlog.Event{Type: actionlog.TypeNote, Track: "box", Data: b, Task: task}, nil
}

// mustNote is note for data that can always be encoded.
func mustNote(what string, data map[string]any, task string) actionlog.Event {
	ev, err := note(what, data, task)
	if err != nil {
		panic(err)
	}
	return ev
}

// note folds in what the box itself said. Notes of apps change nothing here.
func (f *fold) note(e *entry, ev *actionlog.Event) error {
	if ev.Track != "box" {
		return nil
	}
	var d struct {
		What   string          `json:"what"`
		Paused bool            `json:"paused"`
		Full   bool            `json:"full"`
		Key    string          `json:"key"`
		With   string          `json:"with"`
		App    string          `json:"app"`
		Set    json.RawMessage `json:"set"`
		Tasks  []string        `json:"tasks"`
		On     *bool           `json:"on"`
		CutOut bool            `json:"cutOut"`
		Cut    struct{ Lost int64 }
	}
	if err := json.Unmarshal(ev.Data, &d); err != nil {
		return nil // a note of another shape is none of ours
	}
	f.Noted.take(d.What, ev.Data)
	switch d.What {
	case actionlog.NoteQuarantined:
		f.Gap = true
		f.doubt(ev.Seq)
	case noteUndo:
		if e != nil && e.State != Undone {
			e.Undo = f.Gap
		}
	case noteCutOut:
		f.Marked, f.Untold = false, true
	case noteCutOff:
		if d.Cut.Lost > 0 { // files of a task that they made are there, and nothing tells of it
			f.Gap, f.Marked, f.Untold = true, false, true
			f.doubt(ev.Seq)
		}
	case noteAlert:
		f.Untold = f.Untold && !d.CutOut
	case noteStart:
		f.Marked = f.Gap
	case noteClock:
		f.Ledger.Checked(f.Passed.checked(millis(ev.At)))
	case notePause:
		f.Paused = d.Paused
	case noteDisk:
		f.Full = d.Full
	case noteMerged:
		if e != nil && e.Alias != nil {
			e.Alias[d.Key] = d.With
		}
	case noteFolded:
		f.folded(d.Tasks, ev.At)
	case noteRights:
		return f.setRights(d.App, d.Set)
	case NoteApp:
		if d.App != "" && d.On != nil {
			f.Apps[d.App] = *d.On
		}
	}
	return nil
}

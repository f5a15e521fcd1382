package watch

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// What the box notes about watches, the value of "what" in a note of track box.
const (
	NoteArmed    = "trigger armed"    // {app, trigger, watch, none?}: the box watches for it from here on
	NoteDisarmed = "trigger disarmed" // {app}: the app was turned off, and nothing is kept for its triggers
	NoteRan      = "schedule ran"     // {app, trigger, due, date?, late?, left?, from?}: the run is handed to the app
	NoteMissed   = "schedule missed"  // {app, trigger, due, date?, left?, from?}: it was due more than 12 hours ago and is left out
	NoteKept     = "schedule kept"    // {app, trigger, due, date?, error}: the app was not reached, the run that was noted waits for it
	NoteSeen     = "files seen"       // {app, trigger, changes, layers?}: the app was told of them
	NoteFailed   = "trigger failed"   // {app, trigger, due, error}: the app was told, and failed
)

// Memory is all that the log tells of watches. It is a fold: Pass each line, then Note
// each note of the box. Its fields are exported so that a checkpoint can hold it.
type Memory struct {
	Apps map[string]map[string]*Memo `json:"apps,omitempty"` // by app and trigger
	At   int64                       `json:"at,omitempty"`   // of the last line, by the wall clock
	Even int64                       `json:"even,omitempty"` // of the same, by a clock that takes no part in steps
}

// Memo is what is remembered of one watch. Times are in milliseconds since 1970.
type Memo struct {
	Of    Watch `json:"of"`              // as it was last armed
	Armed int64 `json:"armed,omitempty"` // the Memory's Even then
	Off   bool  `json:"off,omitempty"`   // the app was turned off since

	// Of a daily one. Since is the earliest that the clock showed since it was armed:
	// what was due before that is none of its business.
	Since int64 `json:"since,omitempty"`
	Ran   Days  `json:"ran,omitempty"`  // dates that it ran for
	Told  Days  `json:"told,omitempty"` // dates of which the log says that they were left out

	// Of a span. Base is the Memory's Even when it last began, or was armed. Was is the
	// one before, for a run that the app turns out not to have taken.
	Base int64 `json:"base,omitempty"`
	Was  int64 `json:"was,omitempty"`

	// Of files: what the app was last told of.
	Sight Sight `json:"sight,omitzero"`
}

// Sight is a workspace as it was at some time: the done tasks whose layers lay over
// its base.
type Sight struct {
	Layers []string `json:"layers,omitempty"` // ids of tasks, newest first
	None   bool     `json:"none,omitempty"`   // there was no such workspace
}

func milli(at string) (int64, bool) {
	t, err := time.Parse(time.RFC3339Nano, at)
	return t.UnixMilli(), err == nil
}

// Pass takes the at of the next line and the step of the clock before it.
func (m *Memory) Pass(at string, step int64) {
	t, ok := milli(at)
	if !ok {
		return
	}
	if m.At != 0 {
		m.Even += max(t-m.At-step, 0)
	} else {
		m.Even = t
	}
	if t < m.At {
		for _, app := range m.Apps {
			for _, memo := range app {
				memo.Since = min(memo.Since, t)
			}
		}
	}
	m.At = t
}

// note is the data of every note that Memory reads.
type note struct {
	App     string   `json:"app"`
	Trigger string   `json:"trigger"`
	Watch   *Watch   `json:"watch"`
	None    bool     `json:"none"`
	Due     string   `json:"due"`
	Date    string   `json:"date"`
	From    string   `json:"from"` // first date that is left out
	Layers  []string `json:"layers"`
}

// Note takes a note of the box. done gives the done tasks of a workspace whose layers
// lie over its base at this line, newest first.
func (m *Memory) Note(what string, data json.RawMessage, done func(workspace string) []string) {
	switch what {
	case NoteArmed, NoteDisarmed, NoteRan, NoteMissed, NoteKept, NoteSeen:
	default:
		return
	}
	var n note
	if json.Unmarshal(data, &n) != nil || n.App == "" {
		return
	}
	switch what {
	case NoteArmed:
		m.armed(n, done)
		return
	case NoteDisarmed:
		for _, memo := range m.Apps[n.App] {
			memo.Off, memo.Sight = true, Sight{}
		}
		return
	}
	memo := m.Apps[n.App][n.Trigger]
	if memo == nil {
		return
	}
	switch what {
	case NoteRan:
		memo.left(n)
		memo.Was, memo.Base = memo.Base, m.Even
		if d, err := parseDay(n.Date); err == nil {
			memo.Ran = memo.Ran.add(d, d)
		}
	case NoteMissed:
		memo.left(n)
		if d, err := parseDay(n.Date); err == nil {
			memo.Told = memo.Told.add(d, d)
		}
		if due, ok := milli(n.Due); ok {
			memo.Base = m.Even - (m.At - due)
		}
	case NoteKept:
		memo.Base = memo.Was
		if d, err := parseDay(n.Date); err == nil {
			memo.Ran = memo.Ran.without(d)
		}
	case NoteSeen:
		if memo.Sight = (Sight{Layers: n.Layers}); n.Layers == nil {
			memo.Sight.Layers = done(memo.Of.Workspace)
		}
	}
}

// left marks the dates before that of the note that were left out.
func (m *Memo) left(n note) {
	from, err := parseDay(n.From)
	to, err2 := parseDay(n.Date)
	if err == nil && err2 == nil {
		m.Told = m.Told.add(from, to-1)
	}
}

func (m *Memory) armed(n note, done func(string) []string) {
	if n.Watch == nil {
		return
	}
	if m.Apps == nil {
		m.Apps = map[string]map[string]*Memo{}
	}
	if m.Apps[n.App] == nil {
		m.Apps[n.App] = map[string]*Memo{}
	}
	memo := &Memo{Of: *n.Watch, Armed: m.Even, Since: m.At, Base: m.Even, Was: m.Even}
	if was := m.Apps[n.App][n.Trigger]; was != nil {
		memo.Ran, memo.Told = was.Ran, was.Told
	}
	if memo.Of.Kind == Files {
		if memo.Sight.None = n.None; !n.None {
			memo.Sight.Layers = done(memo.Of.Workspace)
		}
	}
	m.Apps[n.App][n.Trigger] = memo
	m.forget(n.App)
}

// maxMemos is how many triggers of one app are remembered; it may have maxWatches at a
// time, and could go on giving them other names.
const maxMemos = 4 * maxWatches

// forget leaves out the ones that were armed longest ago.
func (m *Memory) forget(app string) {
	memos := m.Apps[app]
	for len(memos) > maxMemos {
		oldest := ""
		for _, name := range slices.Sorted(maps.Keys(memos)) {
			if oldest == "" || memos[name].Armed < memos[oldest].Armed {
				oldest = name
			}
		}
		delete(memos, oldest)
	}
}

// Get is what is remembered of a watch, a copy of its own.
func (m *Memory) Get(app, trigger string) (Memo, bool) {
	memo := m.Apps[app][trigger]
	if memo == nil {
		return Memo{}, false
	}
	out := *memo
	out.Of.Weekdays, out.Of.Paths = slices.Clone(out.Of.Weekdays), slices.Clone(out.Of.Paths)
	out.Ran, out.Told = slices.Clone(out.Ran), slices.Clone(out.Told)
	out.Sight.Layers = slices.Clone(out.Sight.Layers)
	return out, true
}

// Seen calls fn with each watch of files that is on, and what its app was last told of.
func (m *Memory) Seen(fn func(app, trigger, workspace string, s Sight)) {
	for app, triggers := range m.Apps {
		for trigger, memo := range triggers {
			if memo.Of.Kind == Files && !memo.Off {
				fn(app, trigger, memo.Of.Workspace, memo.Sight)
			}
		}
	}
}

// Clone is a copy that shares nothing with m.
func (m *Memory) Clone() Memory {
	out := Memory{At: m.At, Even: m.Even}
	for app, triggers := range m.Apps {
		for trigger := range triggers {
			memo, _ := m.Get(app, trigger)
			if out.Apps == nil {
				out.Apps = map[string]map[string]*Memo{}
			}
			if out.Apps[app] == nil {
				out.Apps[app] = map[string]*Memo{}
			}
			out.Apps[app][trigger] = &memo
		}
	}
	return out
}

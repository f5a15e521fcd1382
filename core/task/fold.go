package task

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gurtos/core/actionlog"
	"gurtos/core/approval"
	"gurtos/core/budget"
	"gurtos/core/permission"
)

// fold is all state of the box that follows from its log. Only apply changes it, so
// that the same lines always give the same state.
//
// What it keeps of a task that ended and of a question that was answered doesn't grow
// with what stood in them: their texts are in the log, and are read there when
// somebody asks (whole.go).
type fold struct {
	Seq       int64                        // of the last line applied
	At        string                       // of the same
	Tasks     map[string]*entry            //
	order     []*entry                     // the same as they were created
	Approvals approval.Book                //
	Ledger    budget.Ledger                //
	Paused    bool                         // Pause all agents is on
	Full      bool                         // the disk, as the last note about it says
	Rights    map[string]permission.Rights // by app
	Apps      map[string]bool              // whether the owner has them on
	Noted     Noted                        // of the box's files
	Passed    passed                       // time
	Memory    memory                       // of what apps did, and have the box watch
	InFlight  map[string]budget.Cents      // reserved by calls that run, by app
	Gap       bool                         // lines were cut out of the log as damaged
	Marked    bool                         // boxd started since then: the folders that were there and have no task are marked
	Untold    bool                         // lines were cut out, and the owner was not alerted
	Orphans   orphans                      // tasks that other lines tell of and that have none that creates them

	// What follows from the tasks' states, kept so that nobody walks all tasks.
	queue []string            // queued ones as they were created
	live  map[string]bool     // running and waiting ones
	count map[State]int       //
	done  map[string][]string // by workspace, in the order in which they became done
}

// entry is a task and what only its broker needs. One that is neither running nor
// waiting is never changed in place (own), so that a snapshot may have it.
type entry struct {
	Task                      // without its prompt; once it ended without what slim takes away
	Long     long             // where the log has what is not kept
	Steps    []Step           // every step, while the task may still be resumed
	Calls    map[string]*call // by key, while the task may still call
	Alias    map[string]string
	Reserved budget.Cents // by its calls that run
	Seq      int64        // of the line that created it
	EndSeq   int64        // of the line that ended it
	EndAge   int64        // Passed.Age then
	Folded   bool         // its layer became part of the workspace's base for good
	FoldedAt string       // when the log said so
	ModelAsk int          // questions asked for the model's cost
	Granted  budget.Cents // what those that were approved added to the budget for the model
	Use      modelUse     // tokens
	Doubt    int64        `json:",omitempty"` // the line that stands for a cut-out one which may have ended the task; 0 for none
	Undo     bool         `json:",omitempty"` // a note says that it was undone, and the line that does it was cut out

	place int // in fold.order
}

// long are the lines of the log that hold what an entry doesn't keep; 0 for what there
// is none of, or what is kept. The spec is in the line that created the task.
type long struct {
	Layers  int64 `json:",omitempty"`
	Error   int64 `json:",omitempty"`
	Summary int64 `json:",omitempty"`
}

// keepText is how many bytes of an error or a summary are kept of a task that ended.
const keepText = 200

// Step is a line of progress as a worker gets it back.
type Step struct {
	Text string          `json:"text"`
	Data json.RawMessage `json:"data,omitempty"`
}

// call is what the log tells of one key.
type call struct {
	Tool     string
	Input    json.RawMessage // nil once there is a result and it is long: then Sum stands for it
	Sum      []byte          `json:",omitempty"`
	Started  bool            // tool.call is logged
	Reserved budget.Cents    // by it, until its result
	Doubt    bool            `json:",omitempty"` // its result may have been cut out
	Result   *CallResult

	summed *sum // of Input, once somebody asked
}

func (c *call) sum() sum {
	if c.summed == nil {
		var s sum
		if copy(s[:], c.Sum) == 0 {
			s = sumOf(c.Input)
		}
		c.summed = &s
	}
	return *c.summed
}

// CallResult is how a call ended.
type CallResult struct {
	OK     bool            `json:"ok"`
	Output json.RawMessage `json:"output,omitempty"`
	Error  string          `json:"error,omitempty"`
	Reason string          `json:"-"`             // of the one who said no
	Seq    int64           `json:"seq,omitempty"` // of its line, when Output is too long to be kept in memory
	Cents  budget.Cents    `json:"-"`
	Alert  string          `json:"-"` // what the owner has to know of how it ended; "" for nothing
}

// keepOutput is how many bytes of the input and the output of a call that is over are
// kept in memory; a longer output is read from the log again.
const keepOutput = 1 << 10

func newFold() *fold {
	return &fold{
		Tasks: map[string]*entry{}, Rights: map[string]permission.Rights{}, Apps: map[string]bool{}, InFlight: map[string]budget.Cents{},
		live: map[string]bool{}, count: map[State]int{}, done: map[string][]string{},
	}
}

// apply folds one line in. A line that no build of this version writes is an error.
func (f *fold) apply(ev *actionlog.Event) error {
	if f.Seq = ev.Seq; cutOut(ev) {
		f.Passed.Cut = true
	} else {
		if f.Passed.line(f.At, ev) {
			f.Ledger.NewDay()
		}
		f.At = ev.At
		f.remember(ev)
	}
	if ev.Type == actionlog.TypeTaskCreated {
		return f.created(ev)
	}
	e := f.own(ev.Task)
	if e == nil && ev.Task != "" && ev.Type != actionlog.TypeNote {
		switch {
		case !f.Gap:
			return fmt.Errorf("line %d: there is no task %s", ev.Seq, ev.Task)
		case ev.Type != actionlog.TypeCost: // which was spent all the same
			f.orphaned(ev) // its first line was cut out
			return nil
		}
	}
	if e != nil {
		e.UpdatedAt = ev.At
		f.alive(e, ev)
	}
	switch ev.Type {
	case actionlog.TypeTaskState:
		f.state(e, ev)
	case actionlog.TypeTaskStep:
		e.step(ev)
	case actionlog.TypeToolCall:
		f.called(e, ev)
	case actionlog.TypeToolResult:
		f.returned(e, ev)
	case actionlog.TypeApprovalAsked:
		return f.asked(e, ev)
	case actionlog.TypeApprovalAnswered:
		f.answered(e, ev)
	case actionlog.TypeCost:
		return f.cost(e, ev)
	case actionlog.TypeNote:
		return f.note(e, ev)
	}
	return nil
}

func (f *fold) created(ev *actionlog.Event) error {
	e := &entry{Seq: ev.Seq, Calls: map[string]*call{}, Alias: map[string]string{}}
	if err := json.Unmarshal(ev.Spec, &e.Spec); err != nil {
		return fmt.Errorf("line %d: the task's spec: %w", ev.Seq, err)
	}
	e.ID, e.User, e.App = ev.Task, ev.User, ev.App
	e.Layers = []string{}
	e.CreatedAt, e.UpdatedAt = ev.At, ev.At
	e.Prompt = ""
	f.add(e)
	f.enter(e, Queued)
	return nil
}

func (f *fold) add(e *entry) {
	e.place = len(f.order)
	f.Tasks[e.ID] = e
	f.order = append(f.order, e)
}

// own is the task's entry to be changed, nil where there is none. One that a snapshot
// may have is replaced by a copy first.
func (f *fold) own(id string) *entry {
	e := f.Tasks[id]
	if e == nil || e.State.Live() {
		return e
	}
	e = e.clone()
	f.Tasks[id], f.order[e.place] = e, e
	return e
}

// clone is a copy that changes of the entry don't reach.
func (e *entry) clone() *entry {
	c := *e
	c.Steps = slices.Clip(e.Steps)
	c.Alias = maps.Clone(e.Alias)
	c.Calls = maps.Clone(e.Calls)
	for key, k := range c.Calls {
		one := *k
		c.Calls[key] = &one
	}
	return &c
}

// enter moves a task from the state it is in into another.
func (f *fold) enter(e *entry, to State) {
	if e.State != "" {
		f.count[e.State]--
	}
	switch {
	case e.State == Queued:
		f.queue = slices.DeleteFunc(f.queue, func(id string) bool { return id == e.ID })
	case e.State == Done:
		f.done[e.Workspace] = slices.DeleteFunc(f.done[e.Workspace], func(id string) bool { return id == e.ID })
	}
	e.State = to
	f.count[to]++
	switch to {
	case Queued:
		f.queue = append(f.queue, e.ID)
	case Done:
		f.done[e.Workspace] = append(f.done[e.Workspace], e.ID)
	}
	if delete(f.live, e.ID); to.Live() {
		f.live[e.ID] = true
	}
}

// seen are the tasks whose layers one that starts now in a workspace sees, newest
// first.
func (f *fold) seen(workspace string) []string {
	out := slices.Clone(f.done[workspace])
	slices.Reverse(out)
	if out == nil {
		out = []string{}
	}
	return out
}

func (f *fold) state(e *entry, ev *actionlog.Event) {
	f.enter(e, State(ev.State))
	if ev.Layers != nil {
		e.Layers, e.Long.Layers = ev.Layers, ev.Seq
	}
	if ev.Error != "" {
		e.Error, e.Long.Error = ev.Error, ev.Seq
	}
	if ev.Summary != "" {
		e.Summary, e.Long.Summary = ev.Summary, ev.Seq
	}
	if !e.State.Ended() {
		return
	}
	e.EndSeq, e.EndAge, e.Doubt, e.Undo = ev.Seq, f.Passed.Age, 0, false
	e.slim()
	// What runs still may end and be charged; the rest can't be called again.
	for key, c := range e.Calls {
		if c.Result != nil || !c.Started {
			delete(e.Calls, key)
		}
	}
	if len(e.Calls) == 0 {
		e.Calls = nil
	}
}

// slim takes away what stands in the log too and nobody needs any more to decide.
func (e *entry) slim() {
	e.Spec = Spec{Workspace: e.Workspace}
	e.User, e.Layers, e.Steps, e.Alias = "", nil, nil, nil
	for _, text := range []struct {
		is   *string
		line *int64
	}{{&e.Error, &e.Long.Error}, {&e.Summary, &e.Long.Summary}} {
		switch {
		case *text.is == "": // taken away before, when it was done, and undone now
		case len(*text.is) > keepText && *text.line != 0:
			*text.is = ""
		default:
			*text.line = 0
		}
	}
}

// stepLength is how many characters of its latest step a task shows.
const stepLength = 200

func (e *entry) step(ev *actionlog.Event) {
	e.Step = strings.Clone(cut(ev.Text, stepLength)) // else all of the text stays
	if !e.State.Ended() {
		e.Steps = append(e.Steps, Step{ev.Text, ev.Data})
	}
	var data struct {
		Summary any `json:"summary"`
	}
	if len(ev.Data) > 0 && json.Unmarshal(ev.Data, &data) == nil {
		switch s := data.Summary.(type) {
		case bool:
			if s {
				e.Summary, e.Long.Summary = ev.Text, 0
			}
		case string:
			e.Summary, e.Long.Summary = s, 0
		}
	}
}

func cut(s string, most int) string {
	n := 0
	for i := range s {
		if n == most {
			return s[:i]
		}
		n++
	}
	return s
}

// AppOf is the app that a tool belongs to.
func AppOf(tool string) string {
	app, _, _ := strings.Cut(tool, ".")
	return app
}

func (f *fold) called(e *entry, ev *actionlog.Event) {
	f.release(e, e.Calls[ev.Key])
	if e.Calls == nil {
		e.Calls = map[string]*call{}
	}
	c := &call{Tool: ev.Tool, Input: ev.Input, Started: true, Reserved: extraCents(ev, "reserved")}
	if was := e.Calls[ev.Key]; was != nil && bytes.Equal(was.Input, c.Input) {
		c.summed = was.summed
	}
	e.Calls[ev.Key] = c
	e.Reserved = e.Reserved.Add(c.Reserved)
	app := AppOf(c.Tool)
	f.InFlight[app] = f.InFlight[app].Add(c.Reserved)
}

// release gives back what a call had reserved.
func (f *fold) release(e *entry, c *call) {
	if c == nil || c.Reserved.Sign() == 0 {
		return
	}
	e.Reserved = e.Reserved.Sub(c.Reserved)
	app := AppOf(c.Tool)
	if f.InFlight[app] = f.InFlight[app].Sub(c.Reserved); f.InFlight[app].Sign() == 0 {
		delete(f.InFlight, app)
	}
	c.Reserved = budget.Cents{}
}

func (f *fold) returned(e *entry, ev *actionlog.Event) {
	c := e.Calls[ev.Key]
	if c == nil {
		c = &call{}
		if e.Calls == nil {
			e.Calls = map[string]*call{}
		}
		e.Calls[ev.Key] = c
	}
	f.release(e, c)
	r := &CallResult{OK: ev.OK != nil && *ev.OK, Output: ev.Output, Error: ev.Error, Cents: cents(ev.Cents)}
	if len(r.Output) > keepOutput {
		r.Output, r.Seq = nil, ev.Seq
	}
	c.Result = r
	if len(c.Input) > keepOutput {
		s := c.sum()
		c.Input, c.Sum = nil, s[:]
	}
	e.CostCents = e.CostCents.Add(r.Cents)
	if r.Cents.Sign() > 0 {
		app := AppOf(c.Tool)
		if app == "" { // the line of the call was cut out
			app = e.onlyApp()
		}
		f.Ledger.AddTool(budget.Day(ev.At), app, r.Cents, f.Passed.Known)
	}
	if e.State.Ended() {
		if delete(e.Calls, ev.Key); len(e.Calls) == 0 {
			e.Calls = nil
		}
	}
}

func (f *fold) asked(e *entry, ev *actionlog.Event) error {
	var a approval.Approval
	if err := json.Unmarshal(ev.Approval, &a); err != nil {
		return fmt.Errorf("line %d: the approval: %w", ev.Seq, err)
	}
	if !f.Approvals.Ask(a, ev.Seq) {
		return nil
	}
	if strings.HasPrefix(a.ID, e.ID+".budget.model.") {
		e.ModelAsk++
	}
	if a.Tool != "" && e.Calls[a.Key] == nil && !e.State.Ended() {
		e.Calls[a.Key] = &call{Tool: a.Tool, Input: a.Input}
	}
	return nil
}

func (f *fold) answered(e *entry, ev *actionlog.Event) {
	yes := ev.Approved != nil && *ev.Approved
	if !yes && f.Gap {
		// The line that asked may be cut out. A no holds all the same; what a yes was to, nobody knows.
		f.Approvals.Ask(approval.Approval{ID: ev.ID, Task: e.ID, State: approval.Pending}, ev.Seq)
	}
	if !f.Approvals.Answer(ev.ID, yes, ev.By, ev.Reason) {
		return
	}
	if a, _ := f.Approvals.Get(ev.ID); yes && strings.HasPrefix(ev.ID, e.ID+".budget.model.") {
		e.Granted = e.Granted.Add(a.CostCents)
	}
	if yes && ev.ID == e.resumeID() {
		e.Doubt = 0
	}
}

func (f *fold) cost(e *entry, ev *actionlog.Event) error {
	c := cents(ev.Cents)
	app := ""
	if e != nil {
		e.CostCents = e.CostCents.Add(c)
		app = e.App
		if ev.Model != "" {
			e.Use.apply(ev)
		}
	}
	if spender := extraText(ev, "spender"); spender != "" && ev.Model == "" {
		f.Ledger.AddTool(budget.Day(ev.At), spender, c, f.Passed.Known)
		return nil
	} else if spender != "" {
		app = spender
	}
	f.Ledger.AddModel(budget.Day(ev.At), app, ev.Model, c)
	return nil
}

func cents(n json.Number) budget.Cents {
	var c budget.Cents
	if n == "" || c.UnmarshalJSON([]byte(n)) != nil {
		return budget.Cents{}
	}
	return c
}

func extra(ev *actionlog.Event, name string) json.RawMessage {
	for _, x := range ev.Extra {
		if x.Name == name {
			return x.Value
		}
	}
	return nil
}

func extraCents(ev *actionlog.Event, name string) budget.Cents {
	return cents(json.Number(extra(ev, name)))
}

func extraText(ev *actionlog.Event, name string) string {
	var s string
	if v := extra(ev, name); v != nil && json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}

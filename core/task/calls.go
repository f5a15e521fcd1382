package task

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"gurtos/core/actionlog"
	"gurtos/core/approval"
	"gurtos/core/budget"
	"gurtos/core/permission"
)

// Call is what a worker wants to run.
type Call struct {
	Key   string
	Tool  string
	Input json.RawMessage // one line, as it is shown, logged and run

	Spends  bool         // the tool declares a cost
	Cost    budget.Cents // what this call may spend
	Payee   string       // for the approval
	Purpose string

	sum sum // of Input, taken before the lock
}

// Flight is a call that is not over: it waits for an OK, or its tool runs.
type Flight struct {
	Task Task
	Call Call          // as it was first made
	Done chan struct{} // closed when Result is set

	Result *CallResult // set before Done is closed

	mu      sync.Mutex
	asking  int           // questions that wait for an answer
	changed chan struct{} // closed and replaced when asking becomes 0 or more than 0
}

// Asking says whether the call waits for an answer, and gives a channel that is
// closed when that changes.
func (fl *Flight) Asking() (bool, <-chan struct{}) {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	return fl.asking > 0, fl.changed
}

// Asks counts questions of the call that begin (1) or end (-1) to wait.
func (fl *Flight) Asks(n int) {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	was := fl.asking > 0
	fl.asking += n
	if was != (fl.asking > 0) {
		close(fl.changed)
		fl.changed = make(chan struct{})
	}
}

// Turn says what the one who flies a call does next. One field is set, or Run and Fresh.
type Turn struct {
	Result *CallResult        // the call is over, with nothing to log
	Ask    *approval.Approval // wait for its answer, then ask for the next turn
	Run    bool               // tool.call is logged: run the tool, then End
	Fresh  bool               // with Run: it was not logged before, so the tool can't have begun
	Halted bool               // wait until agents may work, then ask for the next turn
}

// NotApproved is what a call gets whose spending was not approved.
const NotApproved = "not approved"

// sum stands for an input whatever the order and space in it. Reading 10 MB of JSON for
// it takes a good part of a second, so it is taken once for a call, and never of a new
// one under the lock.
type sum [sha256.Size]byte

func sumOf(input json.RawMessage) sum { return sha256.Sum256(canonical(input)) }

// Begin enters a call. The same key, or the same tool and input while an earlier call
// is not over, is the same call: it is asked, run and charged once. Of result, which may
// need Recall, and flight one is set; mine says that the caller has to fly it.
func (t *Tasks) Begin(ctx context.Context, id string, c Call) (result *CallResult, fl *Flight, mine bool, err error) {
	c.sum = sumOf(c.Input)
	var caller part
	err = t.commit(ctx, func(f *fold) ([]actionlog.Event, error) {
		e, err := f.entry(id)
		if err != nil {
			return nil, err
		}
		if !e.State.Live() {
			return nil, &Over{id, e.State}
		}
		if !slices.Contains(e.Tools, c.Tool) {
			result = &CallResult{Error: "this task may not use " + shown(c.Tool)}
			return nil, nil
		}
		key, evs, err := t.same(e, c)
		if err != nil {
			return nil, err
		}
		if known := e.Calls[key]; known != nil {
			if result = known.Result; result != nil {
				return evs, nil
			}
			c.Input = known.Input
		}
		if fl = t.flights[id][key]; fl != nil {
			return evs, nil
		}
		if len(t.flights[id]) >= MaxOpen {
			result = &CallResult{Error: fmt.Sprintf("%s has %d calls on their way and may make no more until some have ended", id, MaxOpen)}
			return nil, nil
		}
		c.Key, mine = key, true
		caller = e.part()
		fl = &Flight{Task: caller.Task, Call: c, Done: make(chan struct{}), changed: make(chan struct{})}
		if t.flights[id] == nil {
			t.flights[id] = map[string]*Flight{}
		}
		t.flights[id][key] = fl
		return evs, nil
	})
	if mine && err == nil {
		fl.Task, err = t.wholeOf(ctx, caller)
	}
	if mine && err != nil {
		t.Land(fl, CallResult{Error: err.Error()})
		fl, mine = nil, false
	}
	return result, fl, mine, err
}

// Recall is a result with its output: one that is long is read from its line in the log.
func (t *Tasks) Recall(ctx context.Context, r *CallResult) (*CallResult, error) {
	if r.Seq == 0 {
		return r, nil
	}
	out := &CallResult{OK: r.OK, Error: r.Error, Reason: r.Reason}
	err := t.gather(ctx, []want{{r.Seq, func(ev *actionlog.Event) error { out.Output = ev.Output; return nil }}})
	if err != nil {
		return nil, fmt.Errorf("reading a result in the log: %w", err)
	}
	return out, nil
}

// Known looks whether a call is over or on its way, without entering it.
func (t *Tasks) Known(ctx context.Context, id string, c Call) (known bool, err error) {
	c.sum = sumOf(c.Input)
	err = t.read(ctx, func(f *fold) error {
		e, err := f.entry(id)
		if err != nil || !e.State.Live() {
			return err
		}
		key, _, err := t.same(e, c)
		if err != nil {
			return err
		}
		known = t.flights[id][key] != nil || e.Calls[key] != nil && e.Calls[key].Result != nil
		return nil
	})
	return known, err
}

// same finds the call that c is: that of its key, or one with the same tool and input
// that is not over yet. mu is held.
func (t *Tasks) same(e *entry, c Call) (key string, evs []actionlog.Event, err error) {
	key = c.Key
	if with, ok := e.Alias[key]; ok {
		key = with
	}
	known := func(key string) (same, open, ok bool) {
		if fl := t.flights[e.ID][key]; fl != nil {
			return fl.Call.Tool == c.Tool && fl.Call.sum == c.sum, true, true
		}
		if k := e.Calls[key]; k != nil && k.Tool == "" {
			return true, false, true // only its result is left in the log, and one key stands for one call
		} else if k != nil {
			return k.Tool == c.Tool && k.sum() == c.sum, k.Result == nil && !t.fold.denied(e, key), true
		}
		return false, false, false
	}
	if same, _, ok := known(key); ok {
		if !same {
			return "", nil, &Invalid{"key", shown(c.Key) + " was used for another tool or input before; one key stands for one call for ever"}
		}
		return key, nil, nil
	}
	for _, other := range t.openKeys(e) {
		if same, open, _ := known(other); open && same {
			ev, err := note(noteMerged, map[string]any{"key": c.Key, "with": other}, e.ID)
			return other, []actionlog.Event{ev}, err
		}
	}
	return key, nil, nil
}

// openKeys are the keys of calls that may not be over, in one order for ever.
func (t *Tasks) openKeys(e *entry) []string {
	var keys []string
	for key, c := range e.Calls {
		if c.Result == nil {
			keys = append(keys, key)
		}
	}
	for key := range t.flights[e.ID] {
		if e.Calls[key] == nil {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func (f *fold) denied(e *entry, key string) bool {
	a, ok := f.Approvals.Get(budgetID(e.ID, key))
	return ok && a.State == approval.Denied
}

func budgetID(task, key string) string { return task + ".budget." + key }

// Next decides what a call does next, under one lock with all other spending: it runs
// when its cost fits or was approved, and else asks.
func (t *Tasks) Next(ctx context.Context, fl *Flight) (Turn, error) {
	var out Turn
	err := t.commit(ctx, func(f *fold) ([]actionlog.Event, error) {
		e := f.Tasks[fl.Task.ID]
		if !e.State.Live() {
			out.Result = &CallResult{Error: (&Over{e.ID, e.State}).Error()}
			if f.denied(e, fl.Call.Key) {
				out.Result.Error = NotApproved
			}
			return nil, nil
		}
		var evs []actionlog.Event
		var err error
		out, evs, err = t.judge(f, e, fl.Call)
		return evs, err
	})
	return out, err
}

func (t *Tasks) judge(f *fold, e *entry, c Call) (Turn, []actionlog.Event, error) {
	app := AppOf(c.Tool)
	if c.Spends && !f.Rights[app].Allowed(permission.Money) {
		evs, err := one(note(NoteRefused, map[string]any{"app": app, "item": permission.Money, "tool": c.Tool}, e.ID))
		return Turn{Result: &CallResult{Error: permission.Refusal(t.opt.Tools.Title(app), permission.Money)}}, evs, err
	}
	a, asked := f.Approvals.Get(budgetID(e.ID, c.Key))
	switch {
	case asked && a.State == approval.Denied:
		return Turn{Result: &CallResult{Error: NotApproved, Reason: a.Reason}}, nil, nil
	case asked && a.State == approval.Pending:
		return Turn{Ask: &a}, nil, nil
	case t.halted():
		return Turn{Halted: true}, nil, nil
	case !asked || a.CostCents.Cmp(c.Cost) < 0:
		// An app that meanwhile asks more than was approved doesn't get it.
		if asked {
			return Turn{Result: &CallResult{Error: "the price rose to " + dollars(c.Cost) + " after " + dollars(a.CostCents) + " was approved"}}, nil, nil
		}
		if why := t.overspends(f, e, c); why != "" {
			if f.Approvals.Open(e.ID) >= MaxOpen {
				return Turn{Result: &CallResult{Error: tooManyOpen(e.ID).Error()}}, nil, nil
			}
			a := approval.Approval{
				ID: budgetID(e.ID, c.Key), Task: e.ID, State: approval.Pending, CostCents: c.Cost, Payee: c.Payee, Purpose: c.Purpose,
				Question: fmt.Sprintf("Spend %s with %s? %s", dollars(c.Cost), c.Tool, why),
				Key:      c.Key, Tool: c.Tool, Input: c.Input,
			}
			evs, err := f.ask(e, a)
			return Turn{Ask: &a}, evs, err
		}
	}
	ev := actionlog.Event{Type: actionlog.TypeToolCall, Task: e.ID, Key: c.Key, Tool: c.Tool, Input: c.Input}
	if c.Cost.Sign() > 0 {
		ev.Extra = []actionlog.Field{{Name: "reserved", Value: json.RawMessage(c.Cost.String())}}
	}
	known := e.Calls[c.Key]
	return Turn{Run: true, Fresh: known == nil || !known.Started}, []actionlog.Event{ev}, nil
}

// End writes how a call that ran ended and hands the result to all who wait for it.
// What was reserved and not spent is free again.
func (t *Tasks) End(ctx context.Context, fl *Flight, r CallResult) error {
	ev := actionlog.Event{
		Type: actionlog.TypeToolResult, Task: fl.Task.ID, Key: fl.Call.Key, OK: &r.OK, Output: r.Output, Error: r.Error,
	}
	if r.Cents.Sign() > 0 {
		ev.Cents = r.Cents.Number()
	}
	evs := []actionlog.Event{ev}
	if r.Alert != "" {
		evs = append(evs, mustNote(noteAlert, map[string]any{"text": r.Alert}, fl.Task.ID))
	}
	err := t.commit(ctx, func(*fold) ([]actionlog.Event, error) {
		delete(t.cuts, [2]string{fl.Task.ID, fl.Call.Key})
		return evs, nil
	})
	if err != nil {
		r = CallResult{Error: fmt.Sprintf("the result can't be logged: %v", err)}
	}
	t.Land(fl, r)
	return err
}

// CutOff is Land for a call that its app left without an end, so that the owner is told
// why where it is never made again. What was cut off by the box's own end just lands.
func (t *Tasks) CutOff(fl *Flight, why string, r CallResult) {
	t.mu.Lock()
	t.cuts[[2]string{fl.Task.ID, fl.Call.Key}] = why
	t.mu.Unlock()
	t.Land(fl, r)
}

// Land hands a result to all who wait for a call, with nothing to log.
func (t *Tasks) Land(fl *Flight, r CallResult) {
	t.mu.Lock()
	flights := t.flights[fl.Task.ID]
	if delete(flights, fl.Call.Key); len(flights) == 0 {
		delete(t.flights, fl.Task.ID)
	}
	t.mu.Unlock()
	fl.Result = &r
	close(fl.Done)
}

package broker_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"gurtos/core/actionlog"
	"gurtos/core/approval"
	"gurtos/core/budget"
	"gurtos/core/settings"
	"gurtos/core/task"
	"gurtos/sandbox"
)

type eventOf = actionlog.Event

// model is what the lines of a log must come to, worked out anew and as plainly as can
// be: it shares nothing with the fold of package task.
type model struct {
	v      settings.Values
	tasks  map[string]*modelTask
	asked  map[string]string // state of a question
	about  map[string]string // tool and input that a question is about
	paused bool
	noPay  bool
	limit  *budget.Cents
	day    string
	today  budget.Cents // spent by the shop
	flying budget.Cents // reserved by the shop
	done   map[string][]string
	wrong  []string
}

type modelTask struct {
	state   task.State
	budget  budget.Cents
	cost    budget.Cents
	layers  []string
	calls   map[string]string       // tool and input by key, while the call runs
	held    map[string]budget.Cents // what it reserved
	results map[string]int
}

func newModel(v settings.Values) *model {
	return &model{v: v, tasks: map[string]*modelTask{}, asked: map[string]string{}, about: map[string]string{}, done: map[string][]string{}}
}

func exitOf(r *rand.Rand) sandbox.Exit {
	if r.IntN(3) == 0 {
		return sandbox.Exit{Code: 1, Output: "it broke\n"}
	}
	return sandbox.Exit{}
}

func (m *model) bad(ev *eventOf, format string, a ...any) {
	m.wrong = append(m.wrong, fmt.Sprintf("line %d: ", ev.Seq)+fmt.Sprintf(format, a...))
}

func money(n json.Number) budget.Cents {
	c, err := budget.ParseCents(string(n))
	if err != nil {
		return budget.Cents{}
	}
	return c
}

func (m *model) line(raw string) {
	ev, err := actionlog.Decode([]byte(raw))
	if err != nil {
		m.wrong = append(m.wrong, err.Error())
		return
	}
	if d := ev.At[:10]; ev.Clock == 0 && d != m.day {
		m.day, m.today = d, budget.Cents{}
	}
	x := m.tasks[ev.Task]
	if x == nil && ev.Task != "" && ev.Type != actionlog.TypeTaskCreated {
		m.bad(&ev, "no task %s", ev.Task)
		return
	}
	switch ev.Type {
	case actionlog.TypeTaskCreated:
		m.created(&ev)
	case actionlog.TypeTaskState:
		m.moved(&ev, x)
	case actionlog.TypeTaskStep:
		if x.state.Ended() || m.paused {
			m.bad(&ev, "a step of a task that is %s, paused %v", x.state, m.paused)
		}
	case actionlog.TypeToolCall:
		m.called(&ev, x)
	case actionlog.TypeToolResult:
		m.returned(&ev, x)
	case actionlog.TypeApprovalAsked:
		m.question(&ev, x)
	case actionlog.TypeApprovalAnswered:
		m.answered(&ev)
	case actionlog.TypeCost:
		x.cost = x.cost.Add(money(ev.Cents))
	case actionlog.TypeNote:
		m.note(&ev)
	}
}

func (m *model) created(ev *eventOf) {
	var s struct {
		BudgetCents budget.Cents `json:"budgetCents"`
	}
	if err := json.Unmarshal(ev.Spec, &s); err != nil || m.tasks[ev.Task] != nil {
		m.bad(ev, "created %v", err)
	}
	m.tasks[ev.Task] = &modelTask{
		state: task.Queued, budget: s.BudgetCents, calls: map[string]string{}, held: map[string]budget.Cents{}, results: map[string]int{},
	}
}

var mayFollow = map[task.State]string{
	task.Queued: "running failed undone", task.Running: "waiting done failed undone",
	task.Waiting: "running done failed undone", task.Done: "undone", task.Failed: "undone",
}

func (m *model) moved(ev *eventOf, x *modelTask) {
	to := task.State(ev.State)
	if !strings.Contains(" "+mayFollow[x.state]+" ", " "+string(to)+" ") {
		m.bad(ev, "%s became %s", x.state, to)
	}
	if x.state == task.Queued && to == task.Running {
		running := 0
		for _, y := range m.tasks {
			if y.state == task.Running {
				running++
			}
		}
		if running >= int(m.v.MaxRunning) || m.paused {
			m.bad(ev, "started as number %d, paused %v", running+1, m.paused)
		}
		want := fmt.Sprint(m.done["home"])
		if fmt.Sprint(ev.Layers) != want {
			m.bad(ev, "sees %v, not %v", ev.Layers, want)
		}
		x.layers = ev.Layers
	}
	var rest []string
	for _, id := range m.done["home"] {
		if id != ev.Task {
			rest = append(rest, id)
		}
	}
	m.done["home"] = rest
	if to == task.Done {
		m.done["home"] = append([]string{ev.Task}, rest...)
	}
	if to.Ended() {
		for id, state := range m.asked {
			if strings.HasPrefix(id, ev.Task+".") && state == string(approval.Pending) {
				m.bad(ev, "ended with %s open", id)
			}
		}
	}
	x.state = to
}

func (m *model) called(ev *eventOf, x *modelTask) {
	what := ev.Tool + " " + string(ev.Input)
	reserved := budget.Cents{}
	for _, f := range ev.Extra {
		if f.Name == "reserved" {
			reserved = money(json.Number(f.Value))
		}
	}
	if m.paused || !x.state.Live() || m.noPay {
		m.bad(ev, "a call, paused %v, task %s, money off %v", m.paused, x.state, m.noPay)
	}
	if x.results[ev.Key] > 0 {
		m.bad(ev, "%s runs though it has a result", ev.Key)
	}
	for key, other := range x.calls {
		if key != ev.Key && other == what {
			m.bad(ev, "%s runs while %s does the same", ev.Key, key)
		}
	}
	if was, again := x.calls[ev.Key]; again && was != what {
		m.bad(ev, "%s runs with another input", ev.Key)
	}
	// A call that a restart cut off and that runs again gives back first.
	m.flying = m.flying.Sub(x.held[ev.Key])
	delete(x.held, ev.Key)
	id := ev.Task + ".budget." + ev.Key
	if state, asked := m.asked[id]; asked {
		if state != string(approval.Approved) || m.about[id] != what {
			m.bad(ev, "%s runs, and its question about %s is %s", what, m.about[id], state)
		}
	} else if reserved.Sign() > 0 {
		sum := x.cost.Add(reserved)
		for _, c := range x.held {
			sum = sum.Add(c)
		}
		if sum.Cmp(x.budget) > 0 {
			m.bad(ev, "%s of %s without an OK", sum, x.budget)
		}
		if reserved.Cmp(budget.Whole(m.v.ApprovalThresholdCents)) > 0 {
			m.bad(ev, "%s above the threshold without an OK", reserved)
		}
		if all := m.today.Add(m.flying).Add(reserved); m.limit != nil && all.Cmp(*m.limit) > 0 {
			m.bad(ev, "%s of %s a day without an OK", all, m.limit)
		}
	}
	x.calls[ev.Key], x.held[ev.Key] = what, reserved
	m.flying = m.flying.Add(reserved)
}

func (m *model) returned(ev *eventOf, x *modelTask) {
	if _, runs := x.calls[ev.Key]; !runs {
		m.bad(ev, "a result of %s, which does not run", ev.Key)
	}
	if x.results[ev.Key]++; x.results[ev.Key] > 1 {
		m.bad(ev, "%s has two results", ev.Key)
	}
	c := money(ev.Cents)
	if c.Cmp(x.held[ev.Key]) > 0 {
		m.bad(ev, "%s spent %s of %s", ev.Key, c, x.held[ev.Key])
	}
	m.flying = m.flying.Sub(x.held[ev.Key])
	delete(x.calls, ev.Key)
	delete(x.held, ev.Key)
	x.cost, m.today = x.cost.Add(c), m.today.Add(c)
}

func (m *model) question(ev *eventOf, x *modelTask) {
	var a approval.Approval
	if err := json.Unmarshal(ev.Approval, &a); err != nil || m.asked[a.ID] != "" || a.State != approval.Pending || a.Task != ev.Task {
		m.bad(ev, "asked %+v, %v, %s", a, err, m.asked[a.ID])
	}
	if m.paused && strings.Contains(a.ID, ".task.") {
		m.bad(ev, "a worker asks while paused")
	}
	if !x.state.Live() {
		m.bad(ev, "a question of a task that is %s", x.state)
	}
	m.asked[a.ID] = string(a.State)
	m.about[a.ID] = a.Tool + " " + string(a.Input)
}

func (m *model) answered(ev *eventOf) {
	if m.asked[ev.ID] != string(approval.Pending) {
		m.bad(ev, "%s answered when it was %q", ev.ID, m.asked[ev.ID])
	}
	m.asked[ev.ID] = string(approval.Denied)
	if *ev.Approved {
		m.asked[ev.ID] = string(approval.Approved)
	}
}

func (m *model) note(ev *eventOf) {
	var d struct {
		What   string          `json:"what"`
		Paused bool            `json:"paused"`
		Set    json.RawMessage `json:"set"`
	}
	if json.Unmarshal(ev.Data, &d) != nil {
		return
	}
	switch d.What {
	case "pause":
		m.paused = d.Paused
	case "permission":
		var set map[string]json.RawMessage
		if err := json.Unmarshal(d.Set, &set); err != nil {
			m.bad(ev, "%v", err)
		}
		if v, ok := set["dailyLimitCents"]; ok {
			if m.limit = nil; string(v) != "null" {
				c := money(json.Number(v))
				m.limit = &c
			}
		}
		if v, ok := set["money"]; ok {
			m.noPay = string(v) == "false"
		}
	}
}

package budget

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// Cell says which spending is added up together.
type Cell struct {
	Day   string `json:"day"`             // UTC, 2026-12-01
	App   string `json:"app,omitempty"`   // whose tool or task spent it, "" for the box's own
	Model string `json:"model,omitempty"` // that was paid for, "" for what tools spent
}

// Sum is what was spent in a cell.
type Sum struct {
	Cell
	Cents Cents `json:"cents"`
}

// Ledger adds up what the log says was spent. Its zero value is empty.
//
// The daily limit needs more than the days of the lines: the clock may be wrong. Its day
// ends when NewDay or Checked says so, by time that really passed.
type Ledger struct {
	cells  map[Cell]Cents
	today  map[string]Cents // by app, what its tools spent since the day began
	doubt  map[string]Cents // of that, while nobody knew which day it really was
	before map[string]Cents // the same of the day before
}

// Day is the UTC day of a line's at.
func Day(at string) string {
	if len(at) < len(time.DateOnly) {
		return ""
	}
	return at[:len(time.DateOnly)]
}

// NewDay tells that time brought another day.
func (l *Ledger) NewDay() { l.today, l.before, l.doubt = nil, l.doubt, nil }

// Checked tells that it is known from now on which day it is, and by how many days it is
// another one than was thought. Whatever was spent in doubt may have been spent on it.
func (l *Ledger) Checked(days int64) {
	if days > 0 {
		l.today = l.doubt
	}
	if days != 0 {
		for app, c := range l.before {
			book(&l.today, app, c)
		}
	}
	l.doubt, l.before = nil, nil
}

// AddTool books what a tool of app spent, "" when nobody knows any more which app's it
// was; known says that the day is known for sure.
func (l *Ledger) AddTool(day, app string, c Cents, known bool) {
	l.add(Cell{Day: day, App: app}, c)
	book(&l.today, app, c)
	if !known {
		book(&l.doubt, app, c)
	}
}

func book(m *map[string]Cents, app string, c Cents) {
	if *m == nil {
		*m = map[string]Cents{}
	}
	(*m)[app] = (*m)[app].Add(c)
}

// AddModel books what a model cost.
func (l *Ledger) AddModel(day, app, model string, c Cents) {
	l.add(Cell{Day: day, App: app, Model: model}, c)
}

func (l *Ledger) add(cell Cell, c Cents) {
	if l.cells == nil {
		l.cells = map[Cell]Cents{}
	}
	l.cells[cell] = l.cells[cell].Add(c)
}

// Today is what tools of app spent since the day began, or may have: what nobody knows
// the app of counts for each.
func (l *Ledger) Today(app string) Cents { return l.today[app].Add(l.today[""]) }

// Sums are the cells of the days from and to, both included, "" for no bound; in
// the order of day, app, model.
func (l *Ledger) Sums(from, to string) []Sum {
	out := []Sum{}
	for cell, c := range l.cells {
		if cell.Day >= from && (to == "" || cell.Day <= to) {
			out = append(out, Sum{cell, c})
		}
	}
	slices.SortFunc(out, func(a, b Sum) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.App, b.App), cmp.Compare(a.Model, b.Model))
	})
	return out
}

// Clone is a copy that changes of l don't reach.
func (l *Ledger) Clone() *Ledger {
	return &Ledger{maps.Clone(l.cells), maps.Clone(l.today), maps.Clone(l.doubt), maps.Clone(l.before)}
}

type ledgerJSON struct {
	Cells  []Sum            `json:"cells"`
	Today  map[string]Cents `json:"today"`
	Doubt  map[string]Cents `json:"doubt,omitempty"`
	Before map[string]Cents `json:"before,omitempty"`
}

// MarshalJSON writes the ledger for a checkpoint, the same bytes for the same sums.
func (l *Ledger) MarshalJSON() ([]byte, error) {
	return json.Marshal(ledgerJSON{l.Sums("", ""), l.today, l.doubt, l.before})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (l *Ledger) UnmarshalJSON(b []byte) error {
	var j ledgerJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*l = Ledger{today: j.Today, doubt: j.Doubt, before: j.Before}
	for _, s := range j.Cells {
		l.add(s.Cell, s.Cents)
	}
	return nil
}

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
// The daily limit needs more than the days of the lines: the clock may be stepped over
// midnight, or back. A day ends for it only when the time that really passed brings
// the clock to another day, never by a step; so a step can make a day longer, which
// asks once too often, and never resets what was spent.
type Ledger struct {
	cells map[Cell]Cents
	today map[string]Cents // by app, what its tools spent since the day began
}

// Day is the UTC day of a line's at.
func Day(at string) string {
	if len(at) < len(time.DateOnly) {
		return ""
	}
	return at[:len(time.DateOnly)]
}

// atForm is the form of a line's at.
const atForm = "2006-01-02T15:04:05.000Z"

// Pass tells that the clock went from one line's at to the next one's, of which step
// milliseconds were a step.
func (l *Ledger) Pass(from, to string, step int64) {
	natural := to
	if step != 0 {
		t, err := time.Parse(atForm, to)
		if err != nil {
			return
		}
		natural = t.Add(-time.Duration(step) * time.Millisecond).UTC().Format(atForm)
	}
	if Day(natural) > Day(from) {
		l.today = nil
	}
}

// AddTool books what a tool of app spent.
func (l *Ledger) AddTool(day, app string, c Cents) {
	l.add(Cell{Day: day, App: app}, c)
	if l.today == nil {
		l.today = map[string]Cents{}
	}
	l.today[app] = l.today[app].Add(c)
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

// Today is what tools of app spent since the day began.
func (l *Ledger) Today(app string) Cents { return l.today[app] }

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
	return &Ledger{cells: maps.Clone(l.cells), today: maps.Clone(l.today)}
}

type ledgerJSON struct {
	Cells []Sum            `json:"cells"`
	Today map[string]Cents `json:"today"`
}

// MarshalJSON writes the ledger for a checkpoint, the same bytes for the same sums.
func (l *Ledger) MarshalJSON() ([]byte, error) {
	return json.Marshal(ledgerJSON{l.Sums("", ""), l.today})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (l *Ledger) UnmarshalJSON(b []byte) error {
	var j ledgerJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*l = Ledger{today: j.Today}
	for _, s := range j.Cells {
		l.add(s.Cell, s.Cents)
	}
	return nil
}

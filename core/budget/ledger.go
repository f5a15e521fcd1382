package budget

import (
	"cmp"
	"encoding/json"
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
type Ledger struct {
	cells map[Cell]Cents
	tools map[dayApp]Cents // what tools of an app spent on a day
	moved map[dayApp]Cents // taken along when the clock was stepped into a later day
}

type dayApp struct{ Day, App string }

// Day is the UTC day of a line's at.
func Day(at string) string {
	if len(at) < len(time.DateOnly) {
		return ""
	}
	return at[:len(time.DateOnly)]
}

// AddTool books what a tool of app spent.
func (l *Ledger) AddTool(day, app string, c Cents) {
	l.add(Cell{Day: day, App: app}, c)
	put(&l.tools, dayApp{day, app}, c)
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

func put(m *map[dayApp]Cents, k dayApp, c Cents) {
	if *m == nil {
		*m = map[dayApp]Cents{}
	}
	(*m)[k] = (*m)[k].Add(c)
}

// OnDay is what tools of app spent on a day, for the daily limit: spending that is
// dated later counts too, since the clock may have gone back, and so does what was
// taken along by Stepped.
func (l *Ledger) OnDay(day, app string) Cents {
	var sum Cents
	for _, m := range []map[dayApp]Cents{l.tools, l.moved} {
		for k, c := range m {
			if k.App == app && k.Day >= day {
				sum = sum.Add(c)
			}
		}
	}
	return sum
}

// Stepped tells of a clock that went from one moment to a later one without the
// time having passed: a new day that comes of it starts with what the old one had.
func (l *Ledger) Stepped(from, to string) {
	if from >= to {
		return
	}
	apps := map[string]bool{}
	for k := range l.tools {
		apps[k.App] = true
	}
	for app := range apps {
		// What is dated to or later counts on the new day anyway.
		if c := l.OnDay(from, app).Sub(l.OnDay(to, app)); c.Sign() > 0 {
			put(&l.moved, dayApp{to, app}, c)
		}
	}
}

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

type ledgerJSON struct {
	Cells []Sum `json:"cells"`
	Tools []Sum `json:"tools"`
	Moved []Sum `json:"moved"`
}

// MarshalJSON writes the ledger for a checkpoint, the same bytes for the same sums.
func (l *Ledger) MarshalJSON() ([]byte, error) {
	return json.Marshal(ledgerJSON{l.Sums("", ""), list(l.tools), list(l.moved)})
}

func list(m map[dayApp]Cents) []Sum {
	out := []Sum{}
	for k, c := range m {
		out = append(out, Sum{Cell{Day: k.Day, App: k.App}, c})
	}
	slices.SortFunc(out, func(a, b Sum) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.App, b.App))
	})
	return out
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (l *Ledger) UnmarshalJSON(b []byte) error {
	var j ledgerJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*l = Ledger{}
	for _, s := range j.Cells {
		l.add(s.Cell, s.Cents)
	}
	for _, s := range j.Tools {
		put(&l.tools, dayApp{s.Day, s.App}, s.Cents)
	}
	for _, s := range j.Moved {
		put(&l.moved, dayApp{s.Day, s.App}, s.Cents)
	}
	return nil
}

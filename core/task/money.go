package task

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"gurtos/core/budget"
)

// today is what an app's tools have spent on the day on which a call made now counts.
// mu is held.
func (t *Tasks) today(f *fold, app string) budget.Cents {
	if (f.Passed.Day+t.since().Milliseconds())/dayMillis > f.Passed.Day/dayMillis {
		return budget.Cents{}
	}
	return f.Ledger.Today(app)
}

// moment is when something was, by the wall clock and by one that is never stepped.
type moment struct {
	wall time.Time
	ran  time.Duration
}

// overspends says why a call needs an OK first, "" when it needs none. What calls in
// flight have reserved counts as spent. mu is held.
func (t *Tasks) overspends(f *fold, e *entry, c Call) string {
	if c.Cost.Sign() == 0 {
		return ""
	}
	app := AppOf(c.Tool)
	reserved, inApp := e.Reserved, f.InFlight[app]
	if known := e.Calls[c.Key]; known != nil {
		// Its own reservation, from before a restart, is not another call's.
		reserved, inApp = reserved.Sub(known.Reserved), inApp.Sub(known.Reserved)
	}
	spent := e.CostCents.Add(reserved)
	if spent.Add(c.Cost).Cmp(e.BudgetCents) > 0 {
		return fmt.Sprintf("The task has spent %s of its budget of %s.", dollars(spent), dollars(e.BudgetCents))
	}
	if most := budget.Whole(t.opt.Settings.Values().ApprovalThresholdCents); c.Cost.Cmp(most) > 0 {
		return fmt.Sprintf("One spend above %s needs an OK.", dollars(most))
	}
	if limit := f.Rights[app].DailyLimitCents; limit != nil {
		today := t.today(f, app).Add(inApp)
		if today.Add(c.Cost).Cmp(*limit) > 0 {
			return fmt.Sprintf("%s has spent %s today of its daily limit of %s.", t.opt.Tools.Title(app), dollars(today), dollars(*limit))
		}
	}
	return ""
}

func dollars(c budget.Cents) string { return "$" + c.Dollars() }

// Spend are the sums of what was spent from a UTC day to another, "" for no bound.
func (t *Tasks) Spend(ctx context.Context, from, to string) ([]budget.Sum, error) {
	var out []budget.Sum
	err := t.read(ctx, func(f *fold) error { out = f.Ledger.Sums(from, to); return nil })
	return out, err
}

// canonical is a form in which two spellings of one JSON value are the same bytes.
// Numbers stay as they are written: 1 and 1.0 differ.
func canonical(raw json.RawMessage) []byte {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return raw
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil { // maps are written in the order of their names
		return raw
	}
	return b.Bytes()
}

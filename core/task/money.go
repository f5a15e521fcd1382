package task

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"gurtos/core/budget"
)

// today is the UTC day that spending counts on: that of the clock, unless the clock
// was stepped forward since the last line; then the day that it would be without the
// step, so that a step resets no limit. mu is held.
func (t *Tasks) today(f *fold) string {
	now := t.opt.Now()
	day := now.UTC().Format("2006-01-02")
	if t.seen.IsZero() {
		return day
	}
	// seen has a monotonic reading, so Sub is the time that passed.
	ran := t.seen.Round(0).Add(now.Sub(t.seen)).UTC().Format("2006-01-02")
	return min(day, ran)
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
		today := f.Ledger.OnDay(t.today(f), app).Add(inApp)
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

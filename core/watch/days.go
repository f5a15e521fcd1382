package watch

import (
	"fmt"
	"slices"
	"time"
)

// Day is a date of no time zone: days since 1970-01-01.
type Day int32

// dayOf is the date that t shows in its own location.
func dayOf(t time.Time) Day {
	y, m, d := t.Date()
	return Day(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86400)
}

// parseDay reads 2026-12-01.
func parseDay(s string) (Day, error) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return 0, fmt.Errorf("%q is no date", s)
	}
	return dayOf(t), nil
}

func (d Day) midnight() time.Time   { return time.Unix(int64(d)*86400, 0).UTC() }
func (d Day) String() string        { return d.midnight().Format(time.DateOnly) }
func (d Day) weekday() time.Weekday { return d.midnight().Weekday() }

// Days is a set of dates, as spans in order that neither meet nor touch: a schedule of
// each day is one span however many years it runs.
type Days []Span

// Span is dates from the first to the last, both in it.
type Span struct {
	From Day `json:"from"`
	To   Day `json:"to"`
}

// has says whether d is in the set.
func (s Days) has(d Day) bool {
	_, ok := s.find(d)
	return ok
}

func (s Days) find(d Day) (int, bool) {
	return slices.BinarySearchFunc(s, d, func(sp Span, d Day) int {
		switch {
		case sp.To < d:
			return -1
		case sp.From > d:
			return 1
		}
		return 0
	})
}

// add is the set with the dates from and to and those between.
func (s Days) add(from, to Day) Days {
	if to < from {
		return s
	}
	out := Days{}
	for _, sp := range s {
		switch {
		case sp.To < from-1 || sp.From > to+1:
			out = append(out, sp)
		default:
			from, to = min(from, sp.From), max(to, sp.To)
		}
	}
	i, _ := slices.BinarySearchFunc(out, from, func(sp Span, d Day) int { return int(sp.From - d) })
	return slices.Insert(out, i, Span{from, to})
}

// without is the set without d.
func (s Days) without(d Day) Days {
	i, ok := s.find(d)
	if !ok {
		return s
	}
	out := slices.Clone(s[:i])
	if s[i].From < d {
		out = append(out, Span{s[i].From, d - 1})
	}
	if s[i].To > d {
		out = append(out, Span{d + 1, s[i].To})
	}
	return append(out, s[i+1:]...)
}

// before is the last date of the set that is earlier than d.
func (s Days) before(d Day) (Day, bool) {
	for _, sp := range slices.Backward(s) {
		if sp.From < d {
			return min(sp.To, d-1), true
		}
	}
	return 0, false
}

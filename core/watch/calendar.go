package watch

import (
	"slices"
	"time"
)

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"} // by time.Weekday

// calendar says when a time of the day is, day by day, in a time zone.
type calendar struct {
	loc  *time.Location
	at   time.Duration // since 00:00, by the clock on the wall
	days []string      // weekdays; all when empty
}

func (c calendar) permits(d Day) bool {
	return len(c.days) == 0 || slices.Contains(c.days, weekdays[d.weekday()])
}

// due is when the clock first shows the time of the day on the date, or, where the
// day leaves the time out, the first instant after it. A date that the zone left out
// whole has none.
func (c calendar) due(d Day) (time.Time, bool) {
	t := c.first(d, c.at)
	if dayOf(t) == d {
		return t, true
	}
	return t, dayOf(c.first(d, 0)) == d
}

// first is the first instant at which the zone's date and clock are d and at, or later.
func (c calendar) first(d Day, at time.Duration) time.Time {
	want := d.midnight().Add(at)
	// No zone is further from UTC than 26 hours. From there on, zone period by zone period.
	t := want.Add(-26 * time.Hour).In(c.loc)
	for {
		start, end := t.ZoneBounds()
		_, off := t.Zone()
		u := want.Add(-time.Duration(off) * time.Second).In(c.loc)
		if !start.IsZero() && u.Before(start) {
			u = start
		}
		if end.IsZero() || u.Before(end) {
			return u
		}
		t = end
	}
}

// reach is over how many days the next one of a weekday can be: a zone may leave out
// one of them.
const reach = 15

// last is the last date whose time has come by now.
func (c calendar) last(now time.Time) (Day, time.Time, bool) {
	today := dayOf(now.In(c.loc))
	for d := today + 1; d > today-reach; d-- {
		if !c.permits(d) {
			continue
		}
		if t, ok := c.due(d); ok && !t.After(now) {
			return d, t, true
		}
	}
	return 0, time.Time{}, false
}

// next is the first date whose time is still to come and that is not among done.
func (c calendar) next(now time.Time, done Days) (Day, time.Time, bool) {
	today := dayOf(now.In(c.loc))
	for d := today - 1; d < today+reach; d++ {
		if !c.permits(d) || done.has(d) {
			continue
		}
		if t, ok := c.due(d); ok && t.After(now) {
			return d, t, true
		}
	}
	return 0, time.Time{}, false
}

// open is t, or the beginning of the first day after it that is permitted.
func (c calendar) open(t time.Time) time.Time {
	d := dayOf(t.In(c.loc))
	if c.permits(d) {
		return t
	}
	for d++; ; d++ {
		if c.permits(d) {
			if s := c.first(d, 0); dayOf(s) == d {
				return s
			}
		}
	}
}

// closes is the first instant after t's day.
func (c calendar) closes(t time.Time) time.Time { return c.first(dayOf(t.In(c.loc))+1, 0) }

// steps counts the runs that are due by now of a span that began at base, and when
// the last of them is due. Where none is, due is when the first one will be.
func (c calendar) steps(base, now time.Time, span time.Duration) (n int64, due time.Time) {
	due = c.open(base.Add(span))
	for !due.After(now) {
		n++
		end := now
		if len(c.days) > 0 {
			if day := c.closes(due).Add(-1); day.Before(end) {
				end = day
			}
		}
		more := int64(max(end.Sub(due), 0) / span)
		n += more
		due = due.Add(time.Duration(more) * span)
		after := c.open(due.Add(span))
		if after.After(now) {
			return n, due
		}
		due = after
	}
	return 0, due
}

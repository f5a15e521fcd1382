package task

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"gurtos/core/actionlog"
)

// passed is the time that went by, as far as the log proves it. While boxd runs that is
// what a clock says that is never stepped: the lines tell each step of the wall clock.
// How long the box was off only a wall clock can say, and that may be wrong, or may have
// been set meanwhile. So it counts once a time server was heard both before and after.
//
// What is to happen after some time, or on another day, goes by this clock; so no step
// brings it about, and no start with a clock that is ahead.
type passed struct {
	Age   int64 `json:"age"`            // milliseconds since line 1 that are proven
	Day   int64 `json:"day"`            // what limits of a day take for the time, in milliseconds since 1970
	Known bool  `json:"known"`          // a time server was heard since boxd started and since the clock was stepped last
	Sure  *sure `json:"sure,omitempty"` // the last line at which one was, nil for none
	Cut   bool  `json:"cut,omitempty"`  // the line before the next one was cut out: a start, or a step of the clock, may be among what it said
}

// sure is a line whose time is right.
type sure struct {
	At  int64 `json:"at"` // milliseconds since 1970
	Age int64 `json:"age"`
}

const dayMillis = 24 * 60 * 60 * 1000

// line goes on to a line, and says whether another day begins with it.
func (p *passed) line(from string, ev *actionlog.Event) (another bool) {
	at := millis(ev.At)
	if from == "" {
		p.Day = at
		return false
	}
	cut := p.Cut
	p.Cut = false
	if ev.Start {
		p.Known = false
		return false
	}
	if cut {
		p.Known = false
		return false
	}
	if ev.Clock != 0 {
		p.Known = false // the day that the clock shows may be another one now: what is spent is in doubt
	}
	went := max(0, at-millis(from)-ev.Clock)
	was := p.Day
	p.Age += went
	p.Day += went
	return p.Day/dayMillis > was/dayMillis
}

// cutOut says whether a line tells of lines that were cut out of the log. It has the time
// at which that was done, which is not the time of the lines around it.
func cutOut(ev *actionlog.Event) bool {
	if ev.Type != actionlog.TypeNote || ev.Track != "box" || !bytes.Contains(ev.Data, []byte(noteCutOut)) {
		return false
	}
	var d struct{ What string }
	return json.Unmarshal(ev.Data, &d) == nil && (d.What == actionlog.NoteQuarantined || d.What == noteCutOut)
}

// checked takes the time of a line that is right. It says by how many days the one of the
// limits was wrong.
func (p *passed) checked(at int64) (days int64) {
	if p.Sure != nil {
		p.Age = max(p.Age, p.Sure.Age+at-p.Sure.At)
	}
	days = at/dayMillis - p.Day/dayMillis
	p.Known, p.Sure, p.Day = true, &sure{at, p.Age}, at
	return days
}

func millis(at string) int64 {
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return 0
	}
	return t.UnixMilli()
}

// since is how long it is since the last line, as far as this run saw it. mu is held.
func (t *Tasks) since() time.Duration {
	if t.seen.wall.IsZero() {
		return 0
	}
	return t.opt.Mono() - t.seen.ran
}

// aged says whether a task ended at least keepDays ago. mu is held.
func (t *Tasks) aged(e *entry) bool {
	keep := t.opt.Settings.Values().KeepDays * dayMillis
	return t.fold.Passed.Age+t.since().Milliseconds()-e.EndAge >= keep
}

// checkClock logs that a time server was heard, once in a run and after each step of the
// clock.
func (t *Tasks) checkClock() error {
	t.mu.Lock()
	known := t.fold.Passed.Known && !t.seen.wall.IsZero() // of this run, which has a line
	t.mu.Unlock()
	if known || t.opt.Synced == nil || !t.opt.Synced() {
		return nil
	}
	if err := t.Note(context.Background(), noteClock, nil, ""); err != nil {
		return err
	}
	t.tidy()
	return nil
}

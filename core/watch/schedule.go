package watch

import (
	"context"
	"time"
)

// idle is how long a watch waits that has nothing to wait for.
const idle = time.Hour

// lookAtDay runs a daily schedule when its time has come: once for each date, whatever
// the clock does.
func (w *watching) lookAtDay() (time.Duration, error) {
	memo, _, _, err := w.opt.Tasks.Watched(w.ctx, w.app, w.Name)
	if err != nil {
		return 0, err
	}
	at, _ := clockTime(w.At)
	c := calendar{loc: w.zone(), at: at, days: w.Weekdays}
	now := w.opt.Clock.Now()
	// Where the clock was set back, the schedule is older than what it shows.
	w.low = min(w.low, now.UnixMilli())
	since := min(memo.Since, w.low)
	if d, due, ok := c.last(now); ok && due.UnixMilli() > since && !memo.Ran.has(d) {
		r := run{due: due, date: d.String(), late: now.Sub(due)}
		if from, n := c.missed(d, memo, since); n > 0 {
			r.left, r.from = n, from.String()
		}
		switch {
		case r.late < tooLate:
			kept, err := w.hands(r)
			if kept {
				return w.again(), err
			}
			return 0, err
		case !memo.Told.has(d):
			if err := w.opt.Tasks.Note(w.ctx, NoteMissed, r.data(w), ""); err != nil {
				return 0, err
			}
		}
	}
	if _, next, ok := c.next(now, memo.Ran); ok {
		return next.Sub(now), nil
	}
	return idle, nil
}

// missed counts the dates before d that neither ran nor were told of, back to the last
// that did or was, or to when the schedule began.
func (c calendar) missed(d Day, memo Memo, since int64) (from Day, n int64) {
	begin := dayOf(time.UnixMilli(since).In(c.loc))
	for _, s := range []Days{memo.Ran, memo.Told} {
		if done, ok := s.before(d); ok {
			begin = max(begin, done+1)
		}
	}
	from = d
	for x := begin; x < d; x++ {
		if !c.permits(x) {
			continue
		}
		if t, ok := c.due(x); ok && t.UnixMilli() > since {
			if n == 0 {
				from = x
			}
			n++
		}
	}
	return from, n
}

// lookAtSpan runs a schedule that runs again and again. Its time is what really
// passes, so a step of the clock changes nothing.
func (w *watching) lookAtSpan() (time.Duration, error) {
	now, mono := w.opt.Clock.Now(), w.opt.Clock.Mono()
	c := calendar{loc: w.zone(), days: w.Weekdays}
	n, due := c.steps(now.Add(w.base-mono), now, w.span())
	if n == 0 {
		return due.Sub(now), nil
	}
	r := run{due: due, late: now.Sub(due), left: n - 1}
	if r.late >= tooLate {
		if w.remembered() {
			if err := w.opt.Tasks.Note(w.ctx, NoteMissed, r.data(w), ""); err != nil {
				return 0, err
			}
		}
		w.base = mono - r.late
		return 0, nil
	}
	was := w.base
	w.base = mono
	kept, err := w.hands(r)
	if kept {
		w.base = was
		return w.again(), err
	}
	return 0, err
}

// run is one run of a schedule.
type run struct {
	due  time.Time
	date string // of a daily one
	late time.Duration
	left int64  // how many before it are left out
	from string // the first of them, of a daily one
}

func (r run) data(w *watching) map[string]any {
	d := map[string]any{"app": w.app, "trigger": w.Name, "due": stamp(r.due)}
	if r.date != "" {
		d["date"] = r.date
	}
	if r.left > 0 {
		d["left"] = r.left
	}
	if r.from != "" {
		d["from"] = r.from
	}
	return d
}

// hands writes that a run begins, and then hands it to the app: a run that the app got
// is never handed out again, even when the power goes the moment after. kept says that
// the app was not reached, which is written too.
func (w *watching) hands(r run) (kept bool, err error) {
	data := r.data(w)
	late := r.late >= punctual
	if late {
		data["late"] = true
	}
	if w.remembered() {
		if err := w.opt.Tasks.Note(w.ctx, NoteRan, data, ""); err != nil {
			return false, err
		}
	}
	why, err := w.hand(Fired{At: stamp(r.due), Late: late})
	if why == nil || !w.remembered() {
		return why != nil, err
	}
	note := map[string]any{"app": w.app, "trigger": w.Name, "due": stamp(r.due), "error": short(why)}
	if r.date != "" {
		note["date"] = r.date
	}
	return true, w.opt.Tasks.Note(context.WithoutCancel(w.ctx), NoteKept, note, "")
}

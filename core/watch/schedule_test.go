package watch_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"gurtos/core/watch"
)

func TestOnceADay(t *testing.T) {
	w := newWorld(t, "Europe/Berlin", "2026-12-01 07:00")
	w.add("hello", daily("morning", "08:00"))
	w.until("2026-12-01 07:59:59")
	w.want()
	w.until("2026-12-01 08:00")
	w.want("2026-12-01 08:00")
	w.until("2026-12-04 07:00")
	w.want("2026-12-02 08:00", "2026-12-03 08:00")
	if n := w.notes(watch.NoteRan); len(n) != 3 || n[0] != "schedule ran morning 2026-12-01T07:00:00.000Z 2026-12-01" {
		t.Errorf("%q", n)
	}
}

func TestScheduleThatBeginsAfterItsTime(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-01 09:00")
	w.add("hello", daily("morning", "08:00"))
	w.until("2026-12-02 07:59")
	w.want()
	w.until("2026-12-02 08:00")
	w.want("2026-12-02 08:00")
}

func TestWeekdays(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-01 09:00") // a Tuesday
	w.add("hello", daily("work", "08:00", "mon", "fri"))
	w.until("2026-12-15 09:00")
	w.want("2026-12-04 08:00", "2026-12-07 08:00", "2026-12-11 08:00", "2026-12-14 08:00")
}

// Each change of the clocks of a year passes, and each date runs once.
func TestDaylightSaving(t *testing.T) {
	for _, row := range []struct{ zone, from, to, at, gap, want string }{
		{"Europe/Berlin", "2026-03-27 12:00", "2026-03-31 12:00", "02:30", "2026-03-29 03:00", "2026-03-28 02:30 2026-03-29 03:00 2026-03-30 02:30 2026-03-31 02:30"},
		{"Europe/Berlin", "2026-10-24 12:00", "2026-10-26 12:00", "02:30", "", "2026-10-25 02:30 2026-10-26 02:30"},
		{"America/New_York", "2026-10-31 12:00", "2026-11-02 12:00", "01:15", "", "2026-11-01 01:15 2026-11-02 01:15"},
		{"Australia/Lord_Howe", "2026-10-03 12:00", "2026-10-05 12:00", "02:10", "", "2026-10-04 02:30 2026-10-05 02:10"},
		{"Australia/Lord_Howe", "2026-04-04 12:00", "2026-04-06 12:00", "01:45", "", "2026-04-05 01:45 2026-04-06 01:45"},
		{"America/Sao_Paulo", "2018-11-03 12:00", "2018-11-05 12:00", "00:00", "", "2018-11-04 01:00 2018-11-05 00:00"},
		{"Asia/Kolkata", "2026-03-27 12:00", "2026-03-29 12:00", "02:30", "", "2026-03-28 02:30 2026-03-29 02:30"},
		{"Pacific/Apia", "2011-12-28 12:00", "2012-01-01 12:00", "08:00", "", "2011-12-29 08:00 2011-12-31 08:00 2012-01-01 08:00"},
	} {
		t.Run(row.zone+" "+row.at, func(t *testing.T) {
			w := newWorld(t, row.zone, row.from)
			w.add("hello", daily("d", row.at))
			w.until(row.to)
			got := fmt.Sprint(w.took())
			if got != "["+row.want+"]" {
				t.Errorf("%s, not %s", got, row.want)
			}
		})
	}
}

func TestClockIsSet(t *testing.T) {
	for _, row := range []struct {
		name   string
		script func(w *world)
	}{
		{"over the time", func(w *world) {
			w.step("2026-12-01 08:00:30")
			w.want("2026-12-01 08:00")
		}},
		{"an hour over the time", func(w *world) {
			w.step("2026-12-01 09:00")
			w.want("2026-12-01 08:00 late")
		}},
		{"back before the time", func(w *world) {
			w.until("2026-12-01 08:10")
			w.want("2026-12-01 08:00")
			w.step("2026-12-01 07:30")
			w.until("2026-12-01 09:00")
			w.want()
			w.until("2026-12-02 09:00")
			w.want("2026-12-02 08:00")
		}},
		{"three days on, and back", func(w *world) {
			w.until("2026-12-01 08:10")
			w.want("2026-12-01 08:00")
			w.step("2026-12-04 08:30")
			w.want("2026-12-04 08:00 late")
			w.step("2026-12-01 08:30")
			w.until("2026-12-05 09:00")
			w.want("2026-12-02 08:00", "2026-12-03 08:00", "2026-12-05 08:00")
		}},
		{"a year back before it was armed", func(w *world) {
			w.step("2025-12-01 07:30")
			w.until("2025-12-01 09:00")
			w.want("2025-12-01 08:00")
			w.step("2026-12-01 09:00")
			w.want("2026-12-01 08:00 late")
		}},
		{"back, and the box is off over the time", func(w *world) {
			w.step("2026-11-20 07:30")
			if err := w.tasks.Note(w.t.Context(), "any line", nil, ""); err != nil {
				w.t.Fatal(err)
			}
			w.off(time.Hour)
			w.add("hello", daily("morning", "08:00"))
			w.want("2026-11-20 08:00 late")
		}},
		{"back and on over a start of the box", func(w *world) {
			w.until("2026-12-01 08:10")
			w.want("2026-12-01 08:00")
			w.halt()
			w.clock.Step(w.at("2026-01-01 00:00"))
			w.boot()
			w.add("hello", daily("morning", "08:00"))
			w.want()
			w.step("2026-12-01 08:20")
			w.want()
			w.until("2026-12-02 08:00")
			w.want("2026-12-02 08:00")
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, "UTC", "2026-12-01 07:00")
			w.add("hello", daily("morning", "08:00"))
			row.script(w)
		})
	}
}

func TestTimeZoneChanges(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-01 07:00")
	w.add("hello", daily("morning", "08:00"))
	w.until("2026-12-01 08:00")
	w.want("2026-12-01 08:00")
	// The settings are noted, and that wakes those who wait.
	change := func(zone string) {
		w.mu.Lock()
		w.zone = zone
		w.mu.Unlock()
		if err := w.tasks.Note(t.Context(), "settings", map[string]any{"set": map[string]any{"timeZone": zone}}, ""); err != nil {
			t.Fatal(err)
		}
	}
	change("America/Los_Angeles") // where it is midnight
	w.until("2026-12-01 22:00")
	w.want()                   // the date had its run
	change("Pacific/Auckland") // 19:00 of the next day
	w.until("2026-12-02 19:00:01")
	w.want("2026-12-02 08:00 late")
	w.until("2026-12-03 08:00")
	w.want("2026-12-03 08:00")
}

func TestBoxWasOff(t *testing.T) {
	for _, row := range []struct {
		name          string
		off           time.Duration // from 07:00 on
		want          []string
		missed, other string
	}{
		{"on again before", 30 * time.Minute, nil, "", ""},
		{"on again just after", time.Hour + 30*time.Second, []string{"2026-12-01 08:00"}, "", ""},
		{"on again an hour late", 2 * time.Hour, []string{"2026-12-01 08:00 late"}, "", "schedule ran morning 2026-12-01T08:00:00.000Z 2026-12-01 true"},
		{"on again almost too late", 13*time.Hour - time.Second, []string{"2026-12-01 08:00 late"}, "", "schedule ran morning 2026-12-01T08:00:00.000Z 2026-12-01 true"},
		{"on again too late", 13 * time.Hour, nil, "schedule missed morning 2026-12-01T08:00:00.000Z 2026-12-01", ""},
		{"on again after three days, in time for the last", 74 * time.Hour, []string{"2026-12-04 08:00 late"}, "", "schedule ran morning 2026-12-04T08:00:00.000Z 2026-12-04 true 3 2026-12-01"},
		{"on again after three days, too late", 86 * time.Hour, nil, "schedule missed morning 2026-12-04T08:00:00.000Z 2026-12-04 3 2026-12-01", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, "UTC", "2026-12-01 06:00")
			w.add("hello", daily("morning", "08:00"))
			w.until("2026-12-01 07:00")
			w.off(row.off)
			w.add("hello", daily("morning", "08:00"))
			w.want(row.want...)
			if got := w.notes(watch.NoteMissed); fmt.Sprint(got) != fmt.Sprintf("[%s]", row.missed) {
				t.Errorf("missed: %q", got)
			}
			if got := w.notes(watch.NoteRan); row.other != "" && fmt.Sprint(got) != fmt.Sprintf("[%s]", row.other) {
				t.Errorf("ran: %q", got)
			}
			// Said once, run once: another start tells nothing anew.
			w.off(time.Second)
			w.add("hello", daily("morning", "08:00"))
			w.want()
			if got := w.notes(watch.NoteMissed); len(got) > 1 {
				t.Errorf("missed: %q", got)
			}
		})
	}
}

// An app that was turned off by its owner makes up for nothing.
func TestAppWasOff(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-01 07:00")
	stop := w.add("hello", daily("morning", "08:00"))
	stop()
	if err := w.ws.Off(t.Context(), "hello"); err != nil {
		t.Fatal(err)
	}
	w.pass(2 * time.Hour)
	w.add("hello", daily("morning", "08:00"))
	w.want()
	w.until("2026-12-02 08:00")
	w.want("2026-12-02 08:00")
}

// One whose process ended and came back has what was due meanwhile.
func TestAppWasAway(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-01 07:00")
	stop := w.add("hello", daily("morning", "08:00"))
	stop()
	w.pass(2 * time.Hour)
	w.add("hello", daily("morning", "08:00"))
	w.want("2026-12-01 08:00 late")
	w.pass(time.Hour)
	w.want()
}

// One whose process was started anew may have its watch again at once.
func TestAppComesBackAtOnce(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-01 07:00")
	for range 200 {
		ctx, end := context.WithCancel(t.Context())
		_, err := w.ws.Add(ctx, "hello", daily("morning", "08:00"), func(context.Context, watch.Fired) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		end()
		stop, err := w.ws.Add(t.Context(), "hello", daily("morning", "08:00"), func(context.Context, watch.Fired) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		stop()
	}
}

// What an app was not reached for waits until it is.
func TestRunIsKept(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-01 07:00")
	stop := w.add("hello", daily("morning", "08:00"))
	w.answers(func(watch.Fired) error { return fmt.Errorf("its process ended: %w", watch.ErrNotTaken) })
	w.until("2026-12-01 08:30")
	w.want()
	kept := w.notes(watch.NoteKept)
	if len(kept) == 0 || kept[0] != "schedule kept morning 2026-12-01T08:00:00.000Z 2026-12-01 its process ended: the app was not reached" {
		t.Fatalf("%q", kept)
	}
	if len(kept) > 6 {
		t.Errorf("%d lines in half an hour", len(kept))
	}
	stop()
	w.answers(nil)
	w.off(time.Hour) // the log has it
	w.add("hello", daily("morning", "08:00"))
	w.want("2026-12-01 08:00 late")
	w.pass(20 * time.Hour)
	w.want()
}

func TestRunIsKeptNoLongerThanHalfADay(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-01 07:00")
	w.add("hello", daily("morning", "08:00"))
	w.answers(func(watch.Fired) error { return watch.ErrNotTaken })
	w.until("2026-12-02 07:00")
	w.answers(nil)
	if got := w.notes(watch.NoteMissed); fmt.Sprint(got) != "[schedule missed morning 2026-12-01T08:00:00.000Z 2026-12-01]" {
		t.Errorf("%q", got)
	}
	w.until("2026-12-02 08:00")
	w.want("2026-12-02 08:00")
}

// An app that takes a run and fails is told of in the log, and has had the run.
func TestRunFails(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-01 07:00")
	w.add("hello", daily("morning", "08:00"))
	calls := 0
	w.answers(func(watch.Fired) error { calls++; return errors.New("no idea what to do") })
	w.until("2026-12-01 12:00")
	w.off(time.Hour)
	w.add("hello", daily("morning", "08:00"))
	w.until("2026-12-02 07:00")
	if calls != 1 {
		t.Errorf("%d calls", calls)
	}
	if got := w.notes(watch.NoteFailed); fmt.Sprint(got) != "[trigger failed morning 2026-12-01T08:00:00.000Z no idea what to do]" {
		t.Errorf("%q", got)
	}
}

func TestEverySpan(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-01 07:00")
	w.add("hello", every("poll", 15*time.Minute))
	w.until("2026-12-01 07:59")
	w.want("2026-12-01 07:15", "2026-12-01 07:30", "2026-12-01 07:45")
	w.step("2026-12-01 03:00") // no time went by
	w.pass(time.Minute)
	w.want("2026-12-01 03:01")
	w.step("2026-12-03 03:00")
	w.want()
	w.pass(15 * time.Minute)
	w.want("2026-12-03 03:15")
	w.off(5 * time.Minute)
	w.add("hello", every("poll", 15*time.Minute))
	w.want()
	w.pass(10 * time.Minute)
	w.want("2026-12-03 03:30")
	w.off(24*time.Hour + 5*time.Minute)
	w.add("hello", every("poll", 15*time.Minute))
	w.want("2026-12-04 03:30 late")
	w.pass(14 * time.Minute)
	w.want()
	w.pass(time.Minute)
	w.want("2026-12-04 03:50")
}

func TestLongSpanIsMissed(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-01 07:00")
	w.add("hello", every("daily", 24*time.Hour))
	w.off((24*3 + 13) * time.Hour)
	w.add("hello", every("daily", 24*time.Hour))
	w.want()
	if got := w.notes(watch.NoteMissed); fmt.Sprint(got) != "[schedule missed daily 2026-12-04T07:00:00.000Z 2]" {
		t.Errorf("%q", got)
	}
	w.until("2026-12-05 07:00")
	w.want("2026-12-05 07:00")
}

func TestSpanOnWeekdays(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-04 22:30") // a Friday
	w.add("hello", every("work", time.Hour, "fri", "mon"))
	w.until("2026-12-07 01:00")
	w.want("2026-12-04 23:30", "2026-12-07 00:00", "2026-12-07 01:00")
}

// A span of less than a minute leaves no line for each run, and begins anew at a start.
func TestShortSpan(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-01 07:00")
	w.add("hello", every("tick", time.Second))
	w.pass(5 * time.Second)
	if n := len(w.took()); n != 5 {
		t.Errorf("%d runs", n)
	}
	if n := w.notes(watch.NoteRan); len(n) != 0 {
		t.Errorf("%q", n)
	}
	w.off(time.Hour)
	w.add("hello", every("tick", time.Second))
	w.want()
	w.pass(time.Second)
	w.want("2026-12-01 08:00")
}

// Another schedule under the same name is a new one, and yet runs once for a date.
func TestScheduleIsChanged(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-01 07:00")
	stop := w.add("hello", daily("morning", "08:00"))
	w.until("2026-12-01 08:30")
	w.want("2026-12-01 08:00")
	stop()
	stop = w.add("hello", daily("morning", "09:00"))
	w.until("2026-12-01 10:00")
	w.want() // the date had its run
	stop()
	w.until("2026-12-02 08:45")
	w.add("hello", daily("morning", "08:30"))
	w.want() // it was due before it was there
	w.until("2026-12-03 08:30")
	w.want("2026-12-03 08:30")
}

func TestWatchesThatAreRefused(t *testing.T) {
	w := newWorld(t, "UTC", "2026-12-01 07:00")
	w.add("hello", daily("morning", "08:00"))
	for _, row := range []struct {
		watch watch.Watch
		want  string
	}{
		{daily("morning", "09:00"), `trigger "morning": hello has another one of this name, and the box remembers each by its name`},
		{daily("", "09:00"), `trigger "": a name of 1 to 100 characters is needed`},
		{daily("a\nb", "09:00"), "trigger \"a\\nb\": a name of 1 to 100 characters is needed"},
		{daily("x", "24:00"), `trigger "x": at is "24:00", and a time from 00:00 to 23:59 such as 08:00 is needed`},
		{daily("x", "8:00"), `trigger "x": at is "8:00", and a time from 00:00 to 23:59 such as 08:00 is needed`},
		{daily("x", "08:00", "sunday"), `trigger "x": "sunday" is no weekday; they are mon, tue, wed, thu, fri, sat, sun`},
		{daily("x", "08:00", "sun", "sun"), `trigger "x": sun is there twice`},
		{every("x", 999*time.Millisecond), `trigger "x": a span of 999 ms is none that can be: whole milliseconds from 1000 to 2678400000 are`},
		{every("x", 32*24*time.Hour), `trigger "x": a span of 2764800000 ms is none that can be: whole milliseconds from 1000 to 2678400000 are`},
		{watch.Watch{Kind: "hourly", Name: "x"}, `trigger "x": the box watches daily, every and files, and not "hourly"`},
		{watch.Watch{Kind: watch.Files, Name: "x", Workspace: "../etc"}, `trigger "x": workspace: a name of 1 to 100 letters, digits, _, . and - is needed, and not . or ..`},
		{watch.Watch{Kind: watch.Files, Name: "x", Workspace: "home", Paths: []string{"a", "/etc"}}, `trigger "x": "/etc" begins with /, and paths begin at the workspace`},
	} {
		_, err := w.ws.Add(t.Context(), "hello", row.watch, nil)
		var bad *watch.Invalid
		if !errors.As(err, &bad) || err.Error() != row.want {
			t.Errorf("%+v: %v, not %s", row.watch, err, row.want)
		}
	}
	for i := range 99 {
		w.add("hello", every(fmt.Sprint(i), time.Hour))
	}
	if _, err := w.ws.Add(t.Context(), "hello", every("x", time.Hour), nil); err == nil || err.Error() != `trigger "x": hello has 100 of them already, and no app may have more` {
		t.Error(err)
	}
	w.add("other", daily("morning", "08:00")) // each app has its own
}

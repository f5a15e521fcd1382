package actionlog

import (
	"encoding/json"
	"testing"
	"time"
)

// TestDays spends one at each event and counts what a limit for today sees.
func TestDays(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const h = time.Hour
	type move struct {
		wall, mono time.Duration // how far the clocks move before an event
	}
	for _, c := range []struct {
		name  string
		moves []move
		want  int // events that count at the end, with the last
	}{
		{"the first", []move{{}}, 1},
		{"the same day", []move{{}, {h, h}, {h, h}}, 3},
		{"a minute before midnight", []move{{}, {11*h + 59*time.Minute, 11*h + 59*time.Minute}}, 2},
		{"midnight", []move{{}, {12 * h, 12 * h}}, 1},
		{"midnight, a millisecond before", []move{{}, {12*h - time.Millisecond, 12*h - time.Millisecond}, {time.Millisecond, time.Millisecond}}, 1},
		{"the day after", []move{{}, {13 * h, 13 * h}, {h, h}}, 2},
		{"set forward a day", []move{{}, {24 * h, 0}}, 2},
		{"set forward to just behind midnight", []move{{}, {12 * h, 0}}, 2},
		{"set forward, again and again", []move{{}, {24 * h, 0}, {24 * h, 0}, {24 * h, 0}}, 4},
		{"set forward and back", []move{{}, {24 * h, 0}, {-24 * h, 0}}, 3},
		{"set back and forward", []move{{}, {-24 * h, 0}, {24 * h, 0}}, 3},
		{"set back years", []move{{}, {-10000 * h, 0}}, 2},
		{"23 hours after a step", []move{{}, {24 * h, 0}, {23 * h, 23 * h}}, 3},
		{"a day and a bit after a step", []move{{}, {24 * h, 0}, {24*h + 2*time.Minute, 24*h + 2*time.Minute}}, 1},
		{"two days after a step back", []move{{}, {-24 * h, 0}, {48 * h, 48 * h}, {time.Minute, time.Minute}}, 2},
		{"a step yesterday, then a day of its own", []move{{}, {24 * h, 0}, {25 * h, 25 * h}, {h, h}, {h, h}}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			wall, mono := start, time.Duration(0)
			l := mustOpen(t, t.TempDir(), Options{Now: func() time.Time { return wall }, Mono: func() time.Duration { return mono }})
			var days Days
			for _, m := range c.moves {
				wall, mono = wall.Add(m.wall), mono+m.mono
				evs := []Event{step("x")}
				if _, err := l.Submit(evs...); err != nil {
					t.Fatal(err)
				}
				days.See(evs[0])
				// A checkpoint in between changes nothing.
				kept, err := json.Marshal(days)
				if err != nil {
					t.Fatal(err)
				}
				days = Days{}
				if err := json.Unmarshal(kept, &days); err != nil {
					t.Fatal(err)
				}
			}
			since := days.Since(l.Now())
			if got := len(c.moves) + 2 - int(since); got != c.want {
				t.Errorf("%d events count, want %d (since line %d of %d)", got, c.want, since, len(c.moves)+1)
			}
		})
	}
}

// TestDaysBeforeTheNextLine: a step that no line shows yet resets nothing either.
func TestDaysBeforeTheNextLine(t *testing.T) {
	wall, mono := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), time.Duration(0)
	l := mustOpen(t, t.TempDir(), Options{Now: func() time.Time { return wall }, Mono: func() time.Duration { return mono }})
	var days Days
	evs := []Event{step("x")}
	l.Submit(evs...)
	days.See(evs[0])
	for _, step := range []time.Duration{24 * time.Hour, -48 * time.Hour} {
		wall = wall.Add(step)
		if since := days.Since(l.Now()); since != 2 {
			t.Errorf("after a step by %v: since %d", step, since)
		}
	}
	wall, mono = wall.Add(72*time.Hour), mono+48*time.Hour
	if since := days.Since(l.Now()); since != None {
		t.Errorf("two days later: since %d", since)
	}
}

// TestDaysStaySmall: a year of events keeps no more than a day of minutes.
func TestDaysStaySmall(t *testing.T) {
	var days Days
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range int64(200_000) {
		e := Event{Seq: i + 1, At: at.Format(timeFormat)}
		if i%1000 == 999 {
			e.Clock = 3600_000
			at = at.Add(time.Hour)
		}
		days.See(e)
		at = at.Add(20 * time.Second)
	}
	if n := len(days.Starts); n > 1500 {
		t.Errorf("%d starts are kept", n)
	}
}

package watch

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func cal(t testing.TB, name, at string, days ...string) calendar {
	t.Helper()
	d, ok := clockTime(at)
	if !ok {
		t.Fatal(at)
	}
	return calendar{zone(t, name), d, days}
}

func day(t testing.TB, s string) Day {
	t.Helper()
	d, err := parseDay(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// When a time of the day is, on days that lack it, have it twice, or are not there. The
// dates are those of the IANA time zone database.
func TestTimesOfTheDay(t *testing.T) {
	for _, row := range []struct{ zone, date, at, want string }{
		{"UTC", "2026-12-01", "08:00", "2026-12-01T08:00:00Z"},
		{"Asia/Kolkata", "2026-12-01", "08:00", "2026-12-01T08:00:00+05:30"},
		{"Europe/Berlin", "2026-03-29", "01:59", "2026-03-29T01:59:00+01:00"},
		{"Europe/Berlin", "2026-03-29", "02:00", "2026-03-29T03:00:00+02:00"}, // left out
		{"Europe/Berlin", "2026-03-29", "02:30", "2026-03-29T03:00:00+02:00"},
		{"Europe/Berlin", "2026-03-29", "03:00", "2026-03-29T03:00:00+02:00"},
		{"Europe/Berlin", "2026-10-25", "02:30", "2026-10-25T02:30:00+02:00"}, // twice: the first
		{"Europe/Berlin", "2026-10-25", "03:00", "2026-10-25T03:00:00+01:00"},
		{"America/New_York", "2026-03-08", "02:15", "2026-03-08T03:00:00-04:00"},
		{"America/New_York", "2026-11-01", "01:30", "2026-11-01T01:30:00-04:00"},
		{"Australia/Lord_Howe", "2026-10-04", "02:10", "2026-10-04T02:30:00+11:00"}, // half an hour
		{"Australia/Lord_Howe", "2026-04-05", "01:45", "2026-04-05T01:45:00+11:00"},
		{"America/Sao_Paulo", "2018-11-04", "00:00", "2018-11-04T01:00:00-02:00"}, // begins at 01:00
		{"America/Sao_Paulo", "2018-11-04", "00:45", "2018-11-04T01:00:00-02:00"},
		{"America/Sao_Paulo", "2019-02-16", "23:30", "2019-02-16T23:30:00-02:00"}, // ends twice
		{"America/Sao_Paulo", "2019-02-17", "00:00", "2019-02-17T00:00:00-03:00"},
		{"America/St_Johns", "2010-11-07", "00:00", "2010-11-07T00:00:00-02:30"}, // 00:01 went back to 23:01 the day before
		{"America/St_Johns", "2010-11-07", "00:30", "2010-11-07T00:30:00-03:30"},
		{"Pacific/Apia", "2011-12-29", "08:00", "2011-12-29T08:00:00-10:00"},
		{"Pacific/Apia", "2011-12-30", "08:00", ""}, // was left out whole
		{"Pacific/Apia", "2011-12-31", "08:00", "2011-12-31T08:00:00+14:00"},
		{"Pacific/Apia", "2011-12-31", "00:00", "2011-12-31T00:00:00+14:00"},
		{"Asia/Pyongyang", "2018-05-04", "23:45", "2018-05-05T00:00:00+09:00"},   // 23:30 went on to 00:00
		{"Antarctica/Troll", "2026-03-29", "02:30", "2026-03-29T03:00:00+02:00"}, // two hours, 01:00 to 03:00
	} {
		c := cal(t, row.zone, row.at)
		due, ok := c.due(day(t, row.date))
		got := ""
		if ok {
			got = due.Format(time.RFC3339)
		}
		if got != row.want {
			t.Errorf("%s %s in %s: %s, not %s", row.date, row.at, row.zone, got, row.want)
		}
	}
}

var zones = []string{
	"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kolkata", "Pacific/Apia", "Africa/Casablanca", "America/St_Johns",
	"Europe/Dublin", "Pacific/Kiritimati", "Antarctica/Troll", "America/Havana", "Asia/Tehran", "Asia/Pyongyang", "UTC",
}

// What due says is what comes of looking at the clock minute by minute.
func TestTimesOfTheDayAreThoseOfTheClock(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, name := range zones {
		loc := zone(t, name)
		for _, year := range []int{2010, 2011, 2018, 2026} {
			// All days on which the offset changes, and a few others.
			from, to := day(t, fmt.Sprintf("%d-01-01", year)), day(t, fmt.Sprintf("%d-12-31", year))
			for d := from; d <= to; d++ {
				_, a := d.midnight().Add(-30 * time.Hour).In(loc).Zone()
				_, b := d.midnight().Add(40 * time.Hour).In(loc).Zone()
				if a == b && rnd.IntN(60) != 0 {
					continue
				}
				for range 6 {
					at := fmt.Sprintf("%02d:%02d", rnd.IntN(24), rnd.IntN(60))
					if rnd.IntN(2) == 0 {
						at = fmt.Sprintf("%02d:%02d", []int{0, 1, 2, 3, 23}[rnd.IntN(5)], rnd.IntN(4)*15)
					}
					c := cal(t, name, at)
					due, ok := c.due(d)
					want, there := byMinutes(loc, d, c.at)
					if ok != there || ok && !due.Equal(want) {
						t.Errorf("%s %s in %s: %v %v, and by the minute %v %v", d, at, name, due, ok, want, there)
					}
				}
			}
		}
	}
}

// byMinutes walks through the date: the first minute that shows the time or a later
// one, or where the date ends before, the first one behind it.
func byMinutes(loc *time.Location, d Day, at time.Duration) (time.Time, bool) {
	there := false
	for u := d.midnight().Add(-20 * time.Hour); u.Before(d.midnight().Add(50 * time.Hour)); u = u.Add(time.Minute) {
		l := u.In(loc)
		clock := time.Duration(l.Hour())*time.Hour + time.Duration(l.Minute())*time.Minute
		there = there || dayOf(l) == d
		if dayOf(l) == d && clock >= at || there && dayOf(l) > d {
			return l, true
		}
	}
	return time.Time{}, false
}

// For each time of the day, each date comes once as the last one, and in order, however
// the days are cut.
func TestEachDateHasItsTurn(t *testing.T) {
	for _, name := range zones {
		for _, at := range []string{"00:00", "00:30", "02:30", "08:00", "23:59"} {
			for _, days := range [][]string{nil, {"mon", "tue", "wed", "thu", "fri"}, {"sun"}} {
				c := cal(t, name, at, days...)
				var ran Days
				now := day(t, "2011-12-01").midnight()
				for now.Before(day(t, "2012-12-01").midnight()) {
					d, due, ok := c.next(now, ran)
					if !ok {
						t.Fatal(name, at, now)
					}
					if due.Sub(now) > 14*24*time.Hour+time.Hour || len(days) == 0 && due.Sub(now) > 49*time.Hour {
						t.Fatalf("%s %s: from %v to %v", name, at, now, due)
					}
					last, was, ok := c.last(due)
					if !ok || last != d || !was.Equal(due) {
						t.Fatalf("%s %s: %v is next, and %v when it is there", name, at, d, last)
					}
					if before, _, ok := c.last(due.Add(-1)); ok && before >= d {
						t.Fatalf("%s %s: %s is there before it is due", name, at, before)
					}
					if ran.has(d) || !c.permits(d) {
						t.Fatalf("%s %s: %s again", name, at, d)
					}
					ran, now = ran.add(d, d), due
				}
				want := 366
				if len(days) == 5 {
					want = 262
				} else if len(days) == 1 {
					want = 52
				}
				n := 0
				for _, sp := range ran {
					n += int(sp.To-sp.From) + 1
				}
				if name == "Pacific/Apia" && len(days) != 1 {
					want-- // Friday, 30 December 2011
				}
				if n < want-2 || n > want+2 {
					t.Errorf("%s %s %v: %d runs in a year, not %d", name, at, days, n, want)
				}
			}
		}
	}
}

func TestSpans(t *testing.T) {
	at := func(s string) time.Time {
		x, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	week := []string{"mon", "tue", "wed", "thu", "fri"}
	for _, row := range []struct {
		base, now string
		span      time.Duration
		days      []string
		n         int64
		due       string
	}{
		{"2026-12-01T10:00:00Z", "2026-12-01T10:59:59Z", time.Hour, nil, 0, "2026-12-01T11:00:00Z"},
		{"2026-12-01T10:00:00Z", "2026-12-01T11:00:00Z", time.Hour, nil, 1, "2026-12-01T11:00:00Z"},
		{"2026-12-01T10:00:00Z", "2026-12-01T13:30:00Z", time.Hour, nil, 3, "2026-12-01T13:00:00Z"},
		{"2026-12-01T10:00:00Z", "2027-12-01T10:00:00Z", time.Second, nil, 365 * 86400, "2027-12-01T10:00:00Z"},
		{"2026-12-04T23:30:00Z", "2026-12-05T12:00:00Z", time.Hour, week, 0, "2026-12-07T00:00:00Z"}, // Friday to Monday
		{"2026-12-04T22:30:00Z", "2026-12-05T12:00:00Z", time.Hour, week, 1, "2026-12-04T23:30:00Z"},
		{"2026-12-04T22:30:00Z", "2026-12-07T02:10:00Z", time.Hour, week, 4, "2026-12-07T02:00:00Z"}, // 23:30, Monday 0, 1, 2
		{"2026-12-04T22:30:00Z", "2026-12-07T00:00:00Z", time.Hour, week, 2, "2026-12-07T00:00:00Z"},
		{"2026-12-01T10:00:00Z", "2026-12-22T10:00:00Z", 24 * time.Hour, []string{"tue"}, 3, "2026-12-22T00:00:00Z"},
	} {
		c := calendar{loc: time.UTC, days: row.days}
		n, due := c.steps(at(row.base), at(row.now), row.span)
		if n != row.n || due.Format(time.RFC3339) != row.due {
			t.Errorf("%s, %v, %v at %s: %d, %s", row.base, row.span, row.days, row.now, n, due.Format(time.RFC3339))
		}
	}
}

// steps jumps where a walk from one run to the next would take them all.
func TestSpansAreAWalk(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 3000 {
		c := calendar{loc: zone(t, zones[rnd.IntN(len(zones))])}
		for _, d := range weekdays {
			if rnd.IntN(3) == 0 {
				c.days = append(c.days, d)
			}
		}
		base := time.Unix(1_290_000_000+rnd.Int64N(500_000_000), 0)
		span := time.Duration(1+rnd.IntN(100_000)) * time.Second
		now := base.Add(time.Duration(rnd.Int64N(int64(span) * 60)))
		var n int64
		due := c.open(base.Add(span))
		for next := due; !next.After(now); next = c.open(next.Add(span)) {
			n, due = n+1, next
		}
		if m, got := c.steps(base, now, span); m != n || !got.Equal(due) {
			t.Fatalf("%v %v from %v by %v to %v: %d at %v, the walk has %d at %v", c.loc, c.days, base, span, now, m, got, n, due)
		}
	}
}

func TestDays(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var s Days
		model := map[Day]bool{}
		for range 40 {
			from := Day(rnd.IntN(60))
			to := from + Day(rnd.IntN(5)-1)
			if rnd.IntN(3) == 0 {
				s = s.without(from)
				delete(model, from)
			} else {
				s = s.add(from, to)
				for d := from; d <= to; d++ {
					model[d] = true
				}
			}
		}
		for i, sp := range s {
			if sp.To < sp.From || i > 0 && s[i-1].To >= sp.From-1 {
				t.Fatal(s)
			}
		}
		last, any := Day(0), false
		for d := Day(0); d < 70; d++ {
			if s.has(d) != model[d] {
				t.Fatal(s, d)
			}
			if b, ok := s.before(d); ok != any || any && b != last {
				t.Fatal(s, d, b, ok, last)
			}
			if model[d] {
				last, any = d, true
			}
		}
	}
}

// fits is the matcher as its words say it, without thought of its time.
func fits(g, names []string) bool {
	switch {
	case len(g) == 0:
		return len(names) == 0
	case g[0] == "**" && len(g) == 1:
		return len(names) > 0
	case g[0] == "**":
		return fits(g[1:], names) || len(names) > 0 && fits(g, names[1:])
	}
	return len(names) > 0 && fitsName([]rune(g[0]), []rune(names[0])) && fits(g[1:], names[1:])
}

func fitsName(p, s []rune) bool {
	switch {
	case len(p) == 0:
		return len(s) == 0
	case p[0] == '*':
		return fitsName(p[1:], s) || len(s) > 0 && fitsName(p, s[1:])
	}
	return len(s) > 0 && (p[0] == '?' || p[0] == s[0]) && fitsName(p[1:], s[1:])
}

func TestGlobs(t *testing.T) {
	for _, row := range []struct {
		glob     string
		yes, not string // paths, with spaces between
	}{
		{"a.txt", "a.txt", "b.txt d/a.txt a.txt/b"},
		{"*.txt", "a.txt .txt", "a.md d/a.txt"},
		{"notes/*", "notes/a", "notes notes/a/b other/a"},
		{"notes/**", "notes/a notes/a/b", "notes other/a"},
		{"**", "a a/b a/b/c", ""},
		{"**/a.txt", "a.txt d/a.txt d/e/a.txt", "a.txt/b ba.txt"},
		{"a/**/b", "a/b a/x/b a/x/y/b", "a b a/bb a/x/bb/c"},
		{"a/**/b/**/c", "a/b/c a/b/b/c a/x/b/y/c", "a/c a/b a/c/b"},
		{"?.txt", "a.txt ü.txt", "ab.txt .txt"},
		{"a**b", "ab axxb", "a/b"},
		{"[a]", "[a]", "a"},
		{"**/*", "a a/b", ""},
		{"**/**", "a a/b", ""},
	} {
		g, err := parseGlob(row.glob)
		if err != nil {
			t.Fatal(err)
		}
		for p := range strings.FieldsSeq(row.yes) {
			if !g.match(p) {
				t.Errorf("%s doesn't fit %s", p, row.glob)
			}
		}
		for p := range strings.FieldsSeq(row.not) {
			if g.match(p) {
				t.Errorf("%s fits %s", p, row.glob)
			}
		}
	}
	for _, bad := range []string{"", "/a", "a//b", "a/", "../a", "a/../b", "./a", "a/.", strings.Repeat("x", 1001)} {
		if _, err := parseGlob(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// A pattern that makes a matcher go back at every star takes no time.
func TestGlobsThatGoBack(t *testing.T) {
	g, err := parseGlob(strings.Repeat("*a", 30) + "b/" + strings.Repeat("**/a/", 30) + "b")
	if err != nil {
		t.Fatal(err)
	}
	if g.match(strings.Repeat("a", 200) + "/" + strings.Repeat("a/", 200) + "c") {
		t.Error("it fits")
	}
}

func FuzzGlob(f *testing.F) {
	for _, s := range []string{"a", "*", "**", "**/a", "a/**", "*a*b*/**/?", "**/*/**", "ü?*"} {
		f.Add(s, "a/b/üx")
		f.Add(s, "aab")
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		g, err := parseGlob(pattern)
		names := strings.Split(path, "/")
		if err != nil || len(pattern) > 24 || len(path) > 24 || strings.ToValidUTF8(pattern, "") != pattern || strings.ToValidUTF8(path, "") != path {
			return
		}
		for _, n := range names {
			if n == "" {
				return
			}
		}
		if got, want := g.match(path), fits(g, names); got != want {
			t.Errorf("%q fits %q: %v, naively %v", path, pattern, got, want)
		}
	})
}

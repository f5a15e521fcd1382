package watch_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"gurtos/core/watch"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "seed of the random times; 0 takes the time")
	roundsFlag = flag.Int("rounds", 3, "rounds of the random times")
)

// Whatever happens to the clock, the box and the app, no date has its run twice. Where
// the clock is never set and nothing is away for half a day, each date has it.
func TestRandomTimes(t *testing.T) {
	zones := []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kolkata", "Pacific/Apia"}
	starts := []string{"2026-03-25 12:00", "2026-10-22 12:00", "2018-11-01 12:00", "2018-02-14 12:00", "2011-12-27 12:00"}
	for round := range *roundsFlag {
		seed := *seedFlag
		if seed == 0 {
			seed = uint64(time.Now().UnixNano())
		}
		seed += uint64(round)
		r := rand.New(rand.NewPCG(seed, 5))
		zone, start, steps := zones[r.IntN(len(zones))], starts[r.IntN(len(starts))], round%2 == 1
		at := fmt.Sprintf("%02d:%02d", []int{0, 0, 1, 2, 8, 23}[r.IntN(6)], r.IntN(4)*15)
		t.Logf("seed %d: %s %s from %s, the clock is set: %v", seed, at, zone, start, steps)
		w := newWorld(t, zone, start)
		begin := w.clock.Now()
		what := daily("d", at)
		stop := w.add("hello", what)
		away, turns := 0, 0 // how often in a row the app is not reached
		w.answers(func(watch.Fired) error {
			if turns++; away > 0 && turns%3 == 0 {
				away--
				return watch.ErrNotTaken
			}
			return nil
		})
		reached := func() { // else two times away come together
			w.mu.Lock()
			defer w.mu.Unlock()
			away = 0
		}
		for range 40 {
			switch x := r.IntN(10); {
			case x < 5:
				w.pass(time.Duration(r.IntN(20*60)) * time.Minute)
			case x == 5:
				reached()
				w.off(time.Duration(r.IntN(11*60)) * time.Minute)
				stop = w.add("hello", what)
			case x == 6:
				reached()
				stop()
				w.pass(time.Duration(r.IntN(11*60)) * time.Minute)
				stop = w.add("hello", what)
			case x == 7:
				w.mu.Lock()
				away = 2
				w.mu.Unlock()
			case steps && x == 8:
				w.clock.Step(w.clock.Now().Add(time.Duration(r.IntN(6*24*60)-3*24*60) * time.Minute))
				w.still()
			case steps && x == 9:
				w.halt()
				w.clock.Step(w.clock.Now().Add(time.Duration(r.IntN(4*24*60)-2*24*60) * time.Minute))
				w.boot()
				stop = w.add("hello", what)
			}
		}
		w.answers(nil)
		w.pass(25 * time.Hour)
		count := map[string]int{}
		for _, f := range w.took() {
			count[f[:10]]++
		}
		for d, n := range count {
			if n != 1 {
				t.Errorf("%s had %d runs", d, n)
			}
		}
		w.halt()
		if steps {
			continue
		}
		loc := begin.Location()
		days := 0
		for d := begin.AddDate(0, 0, 1); d.Before(w.clock.Now().AddDate(0, 0, -1)); d = d.AddDate(0, 0, 1) {
			day := d.In(loc).Format(time.DateOnly)
			if zone == "Pacific/Apia" && day == "2011-12-30" {
				continue
			}
			if count[day] == 0 {
				t.Errorf("%s had no run", day)
			}
			days++
		}
		if days < 3 {
			t.Errorf("%d days", days)
		}
	}
}

package stage2

import (
	"errors"
	"strings"
	"testing"
	"time"

	"gurtos/boot/ring"
)

// When the watchdog is fed.
func TestWell(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, c := range []struct {
		name     string
		h        health
		stopping time.Time
		want     bool
	}{
		{"no data disk: a restart helps nobody", health{}, time.Time{}, true},
		{"boxd is starting", health{began: ago(2 * time.Minute)}, time.Time{}, true},
		{"boxd never answered", health{began: ago(6 * time.Minute)}, time.Time{}, false},
		{"boxd waits for a person", health{began: ago(time.Hour), held: true}, time.Time{}, true},
		{"boxd answers", health{began: ago(time.Hour), answered: ago(5 * time.Second)}, time.Time{}, true},
		{"boxd is silent", health{began: ago(time.Hour), answered: ago(61 * time.Second)}, time.Time{}, false},
		{"a shutdown takes its time", health{began: ago(time.Hour), answered: ago(2 * time.Minute)}, ago(time.Minute), true},
		{"a shutdown hangs", health{began: ago(time.Hour), answered: ago(time.Hour)}, ago(5 * time.Minute), false},
	} {
		if got := c.h.well(now, c.stopping); got != c.want {
			t.Errorf("%s: well = %v", c.name, got)
		}
	}
}

// Reasons are kept in their order, changed in place and taken back.
func TestBecause(t *testing.T) {
	b := New(ring.New(100, time.Now()), time.Now())
	b.because("data", "No disk.")
	b.because("network", "No port.")
	b.because("data", "Two disks.")
	b.because("data", "Two disks.")
	if got := strings.Join(b.screen.Status().Reasons, " "); got != "Two disks. No port." {
		t.Errorf("reasons %q", got)
	}
	b.because("data", "")
	b.because("data", "")
	if got := strings.Join(b.screen.Status().Reasons, " "); got != "No port." {
		t.Errorf("reasons %q", got)
	}
	logged := strings.Join(b.Ring.Last(100), "\n")
	if n := strings.Count(logged, "reason: Two disks."); n != 1 {
		t.Errorf("a reason that stays is logged %d times", n)
	}
}

func TestSentence(t *testing.T) {
	for in, want := range map[string]string{
		"mount /data: no":      "Mount /data: no.",
		"one\ntwo":             "One; two.",
		"A whole one already.": "A whole one already.",
	} {
		if got := sentence(errors.New(in)); got != want {
			t.Errorf("sentence(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestPortal(t *testing.T) {
	if got := portal("203.0.113.15"); got != "http://203.0.113.15" {
		t.Error(got)
	}
	if got := portal("2001:db8::1"); got != "http://[2001:db8::1]" {
		t.Error(got)
	}
}

// On a screen of 25 rows the last lines are what stays of a panic.
func TestLastWords(t *testing.T) {
	text := lastWords([]string{"[ 1.000] init: stage 2"}, "starting", "no memory", []byte(strings.Repeat("goroutine 10 [running]:\n", 60)))
	lines := strings.Split(strings.TrimSpace(text), "\n")
	end := strings.Join(lines[len(lines)-2:], "\n")
	if !strings.Contains(end, "failed while starting: no memory") || !strings.Contains(end, "starts anew in 30s") {
		t.Errorf("the end is %q", end)
	}
}

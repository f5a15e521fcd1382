package ring

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestRingKeepsTheNewest(t *testing.T) {
	r := New(3, time.Now())
	for i := range 5 {
		r.Add(fmt.Sprint(i))
	}
	if got := strings.Join(r.Last(10), " "); got != "2 3 4" {
		t.Errorf("Last(10) = %q, want 2 3 4", got)
	}
	if got := strings.Join(r.Last(2), " "); got != "3 4" {
		t.Errorf("Last(2) = %q, want 3 4", got)
	}
}

func TestWriterCutsLinesAndControlCharacters(t *testing.T) {
	r := New(10, time.Now())
	w := r.Writer("boxd")
	for _, s := range []string{"one\ntw", "o\n", "\x1b[2Jthree\r\n", strings.Repeat("x", 3*maxLine), "\n"} {
		if n, err := w.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatalf("Write(%q) = %d, %v", s, n, err)
		}
	}
	got := r.Last(10)
	for i, want := range []string{"boxd: one", "boxd: two", "boxd: [2Jthree", "boxd: xxx"} {
		if !strings.Contains(got[i], want) || strings.ContainsAny(got[i], "\x1b\r") {
			t.Errorf("line %d = %q, want %q in it and no control characters", i, got[i], want)
		}
	}
	if len(got[3]) > maxLine+40 {
		t.Errorf("a line without end has %d bytes, want it cut near %d", len(got[3]), maxLine)
	}
}

// A reader that stands still loses lines and is told how many; the writer is
// never held up.
func TestSlowReaderLosesLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(4, time.Now())
		r.Preload([]string{"shown before"})
		ctx, cancel := context.WithCancel(t.Context())
		hold := make(chan struct{})
		var got []string
		var lost uint64
		go r.Follow(ctx, func(line string, n uint64) {
			<-hold
			got, lost = append(got, line), lost+n
		})
		r.Add("first")
		synctest.Wait()
		for i := range 10 {
			r.Add(fmt.Sprint(i))
		}
		close(hold)
		synctest.Wait()
		cancel()
		synctest.Wait()
		if want := "first 6 7 8 9"; strings.Join(got, " ") != want || lost != 6 {
			t.Errorf("read %v and lost %d, want %s and 6", got, lost, want)
		}
	})
}

// Drain returns when everything was read, and when the time is over.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(10, time.Now())
		ctx, cancel := context.WithCancel(t.Context())
		var read atomic.Int64
		var followers sync.WaitGroup
		defer followers.Wait()
		defer cancel()
		for range 2 {
			followers.Go(func() {
				r.Follow(ctx, func(string, uint64) {
					<-time.After(time.Second) // a serial port, on synctest's clock
					read.Add(1)
				})
			})
		}
		synctest.Wait()
		start := time.Now()
		for range 3 {
			r.Add("line")
		}
		r.Drain(time.Minute)
		if took := time.Since(start); read.Load() != 6 || took != 3*time.Second {
			t.Errorf("after %v %d lines were read, want 6 after 3 s", took, read.Load())
		}
		start = time.Now()
		r.Add("line")
		r.Drain(10 * time.Millisecond)
		if took := time.Since(start); took != 10*time.Millisecond {
			t.Errorf("gave up after %v", took)
		}
	})
}

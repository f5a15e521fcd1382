package clock

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestWaitEnds(t *testing.T) {
	var s System
	begin := s.Mono()
	s.Wait(t.Context(), 20*time.Millisecond)
	if d := s.Mono() - begin; d < 19*time.Millisecond {
		t.Errorf("it waited %v", d)
	}
	for _, d := range []time.Duration{0, -time.Hour} {
		s.Wait(t.Context(), d)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { s.Wait(ctx, time.Hour); close(done) }()
	cancel()
	<-done
}

// Without a file descriptor left it waits all the same, and doesn't spin.
func TestWaitWithoutDescriptors(t *testing.T) {
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	var s System
	begin := s.Mono()
	s.Wait(t.Context(), 20*time.Millisecond)
	d := s.Mono() - begin
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if d < 19*time.Millisecond {
		t.Errorf("it waited %v", d)
	}
}

// A step of the clock ends the wait. Where the test may not set the clock, a time that
// is set to what it is does as well, and where that isn't allowed either, the step is
// left to the guest of QEMU, in which the box sets it.
func TestStepEndsTheWait(t *testing.T) {
	var s System
	done := make(chan struct{})
	begin := s.Mono()
	go func() { s.Wait(t.Context(), longest); close(done) }()
	for {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
			t.Fatal(err)
		}
		if err := unix.ClockSettime(unix.CLOCK_REALTIME, &now); err != nil {
			t.Skip("the clock can't be set here: ", err)
		}
		select {
		case <-done:
			if s.Mono()-begin >= longest {
				t.Error("it was the time that ended it")
			}
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

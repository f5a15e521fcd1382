package clock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Clock is what the daemon tells time by.
type Clock interface {
	// Now is what the wall clock shows.
	Now() time.Time
	// Mono is the time that really passed since some moment before: never stepped,
	// and going on while the machine sleeps.
	Mono() time.Duration
	// Wait returns once d has passed, the wall clock was stepped, or ctx ended; now
	// and then earlier. So whoever waits looks at the clock again.
	Wait(ctx context.Context, d time.Duration)
}

// System is the machine's own clock.
type System struct{}

var _ Clock = System{}

// Now is time.Now without Go's monotonic reading, by which a difference of two
// times would not be one of the wall clock.
func (System) Now() time.Time { return time.Now().Round(0) }

// Mono is CLOCK_BOOTTIME, since Go's own clock stands still while the machine sleeps.
func (System) Mono() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(fmt.Sprintf("clock_gettime: %v", err)) // only a bad address or clock
	}
	return time.Duration(ts.Nano())
}

// longest is after how long Wait returns anyway: a step between the look at the
// clock and the start of the timer is not seen by the timer.
const longest = time.Minute

// Wait is a timer on the wall clock that the kernel ends when that is set, or when
// the machine wakes.
func (s System) Wait(ctx context.Context, d time.Duration) {
	d = min(d, longest)
	if d <= 0 || ctx.Err() != nil {
		return
	}
	if err := s.timer(ctx, d); err != nil {
		// Without file descriptors left the box still keeps time.
		t := time.NewTimer(min(d, time.Second))
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
}

func (s System) timer(ctx context.Context, d time.Duration) error {
	fd, err := unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "timer")
	defer f.Close()
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(time.Now().Add(d).UnixNano())}
	if err := unix.TimerfdSettime(fd, unix.TFD_TIMER_ABSTIME|unix.TFD_TIMER_CANCEL_ON_SET, &at, nil); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	// ECANCELED is the step; it, the end of ctx and the time itself all end the wait.
	_, err = f.Read(make([]byte, 8))
	if errors.Is(err, unix.ECANCELED) || errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

package watchdog

import (
	"context"
	"errors"
	"io"
	"log"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// dog counts what it is fed.
type dog struct{ fed atomic.Int64 }

func (d *dog) Write(p []byte) (int, error) {
	for _, b := range p {
		if b == 'V' {
			panic("the watchdog was disarmed")
		}
	}
	d.fed.Add(1)
	return len(p), nil
}

// It is fed while all is well, starves while not, and nothing disarms it.
func TestFedOnlyWhileWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var well atomic.Bool
		well.Store(true)
		d := &dog{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			feed(ctx, log.New(io.Discard, "", 0), d, 15*time.Second, well.Load)
		}()
		<-time.After(time.Minute + time.Second) // on synctest's clock
		if n := d.fed.Load(); n != 5 {
			t.Errorf("fed %d times in a minute, want 5", n)
		}
		well.Store(false)
		<-time.After(time.Minute)
		if n := d.fed.Load(); n != 5 {
			t.Errorf("fed %d times while not well", n-5)
		}
		well.Store(true)
		<-time.After(time.Minute)
		if n := d.fed.Load(); n < 8 {
			t.Errorf("fed %d times after it was well again", n-5)
		}
		cancel()
		<-done
	})
}

func TestNoWatchdog(t *testing.T) {
	err := Run(t.Context(), log.New(io.Discard, "", 0), filepath.Join(t.TempDir(), "watchdog"), func() bool { return true })
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Run without hardware = %v", err)
	}
}

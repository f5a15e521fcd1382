package watchdog

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// timeout is what the hardware is asked for, in seconds. Some take less.
const timeout = 60

// Run feeds the watchdog at path while well says so, until ctx ends. It stays
// armed then: a shutdown that hangs is a hang too. It returns at once when there
// is no watchdog.
func Run(ctx context.Context, log *log.Logger, path string, well func() bool) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("open the watchdog: %w", err)
	}
	seconds := timeout
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.WDIOC_SETTIMEOUT, seconds); err != nil {
		log.Printf("watchdog: its time limit stays as it is: %v", err)
	}
	if got, err := unix.IoctlGetInt(int(f.Fd()), unix.WDIOC_GETTIMEOUT); err == nil && got > 0 {
		seconds = got
	}
	log.Printf("watchdog: %d seconds", seconds)
	feed(ctx, log, f, time.Duration(seconds)*time.Second/4, well)
	return nil
}

func feed(ctx context.Context, log *log.Logger, d io.Writer, every time.Duration, well func() bool) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	fed := true
	for {
		if ok := well(); ok {
			if _, err := d.Write([]byte{0}); err != nil { // any byte but V, which would disarm it
				log.Printf("watchdog: %v", err)
			}
			if !fed {
				log.Print("watchdog: fed again")
			}
			fed = true
		} else {
			if fed {
				log.Print("watchdog: no longer fed, since boxd does not answer")
			}
			fed = false
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

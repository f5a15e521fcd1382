package device

import (
	"testing"
	"time"
)

func TestHowLongToWait(t *testing.T) {
	for after, says := range map[time.Duration]string{
		0:                                 "1 second",
		5 * time.Second:                   "6 seconds",
		80*time.Second + time.Millisecond: "81 seconds",
		2 * time.Minute:                   "3 minutes", // never too early
		10*time.Minute - time.Second:      "10 minutes",
	} {
		if got := (&Slow{After: after}).Error(); got != "too many tries to pair: wait "+says+" and try again" {
			t.Errorf("%v: %s", after, got)
		}
	}
}

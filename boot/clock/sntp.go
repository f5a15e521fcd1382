package clock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/beevik/ntp"
	"golang.org/x/sys/unix"

	"gurtos/boot/guard"
)

// Pool are the servers that are asked beside those of DHCP.
var Pool = []string{"0.pool.ntp.org", "1.pool.ntp.org", "2.pool.ntp.org", "time.cloudflare.com"}

const (
	atOnce    = 4                      // servers asked in one round
	agreement = 500 * time.Millisecond // two servers that differ by more disagree
	slewBelow = 128 * time.Millisecond // more than this is set, less is steered to
	firstWait = time.Second            // after a round without result; doubled each time
	lastWait  = time.Minute            // up to this
	nextRound = 30 * time.Minute       // after one with a result
)

// A Sync is what a round of questions found.
type Sync struct {
	Server string
	Offset time.Duration // to be added to the clock
	At     time.Time     // the right time, when it was found
}

// A Syncer keeps the clock right.
type Syncer struct {
	Log     *log.Logger
	Servers func() []string // those to ask, best first
	Known   func() Known
	Wake    <-chan struct{} // the network has changed: ask now
	Synced  func(Sync)      // told of each result, after the clock was set

	// The machine's, but in tests.
	Query func(server string) (offset time.Duration, err error)
	Set   func(offset time.Duration) error
}

// Run asks until ctx ends.
func (s *Syncer) Run(ctx context.Context) {
	wait := firstWait
	told := ""
	for {
		got, err := s.round()
		pause := wait
		switch {
		case err == nil:
			if err := s.Set(got.Offset); err != nil {
				s.Log.Printf("set the clock: %v", err)
				break
			}
			s.Synced(got)
			pause, wait, told = nextRound, firstWait, ""
		case err.Error() != told:
			s.Log.Print(err)
			told = err.Error()
			fallthrough
		default:
			wait = min(2*wait, lastWait)
		}
		select {
		case <-time.After(pause + rand.N(pause/8)):
		case <-s.Wake:
			wait = firstWait
		case <-ctx.Done():
			return
		}
	}
}

type answer struct {
	server string
	offset time.Duration
	err    error
}

// round asks some servers at once and joins what they say.
func (s *Syncer) round() (Sync, error) {
	servers := s.Servers()
	servers = servers[:min(atOnce, len(servers))]
	if len(servers) == 0 {
		return Sync{}, errors.New("no time server is known")
	}
	answers := make(chan answer, len(servers))
	for _, server := range servers {
		guard.Go("asking "+server+" for the time", func() {
			offset, err := s.Query(server)
			answers <- answer{server, offset, err}
		})
	}
	known := s.Known()
	var good []answer
	var faults []string
	for range servers {
		a := <-answers // each ends by its own time limit
		if a.err == nil && !known.Believable(time.Now().Add(a.offset)) {
			a.err = fmt.Errorf("says %s, which can't be", time.Now().Add(a.offset).UTC().Format(time.RFC3339))
		}
		if a.err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", a.server, a.err))
			continue
		}
		good = append(good, a)
	}
	if len(good) == 0 {
		slices.Sort(faults)
		return Sync{}, fmt.Errorf("no time server answered usefully: %s", strings.Join(faults, "; "))
	}
	best, err := agree(good)
	if err != nil {
		return Sync{}, err
	}
	return Sync{Server: best.server, Offset: best.offset, At: time.Now().Add(best.offset)}, nil
}

// agree picks the middle answer, if more than half of all are near it. One
// server alone is believed.
func agree(answers []answer) (answer, error) {
	slices.SortFunc(answers, func(a, b answer) int {
		return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.server, b.server))
	})
	middle := answers[len(answers)/2]
	near := 0
	for _, a := range answers {
		if d := a.offset - middle.offset; d >= -agreement && d <= agreement {
			near++
		}
	}
	if 2*near <= len(answers) {
		return answer{}, fmt.Errorf("the time servers disagree: %s says %v, %s says %v", answers[0].server, answers[0].offset, answers[len(answers)-1].server, answers[len(answers)-1].offset)
	}
	return middle, nil
}

// Query asks one server, a name or address with or without a port.
func Query(server string) (time.Duration, error) {
	r, err := ntp.QueryWithOptions(server, ntp.QueryOptions{Timeout: 4 * time.Second})
	if err != nil {
		return 0, err
	}
	if err := r.Validate(); err != nil { // stratum, leap, kiss of death, age
		return 0, err
	}
	return r.ClockOffset, nil
}

// Adjust sets the clock by an offset and tells the kernel that the time is
// trusted, which has it keep the hardware's clock too. A small offset is
// steered to, so that no time comes twice.
func Adjust(offset time.Duration) error {
	const singleShot = 0x8001 // ADJ_OFFSET_SINGLESHOT
	t := unix.Timex{}
	if offset.Abs() >= slewBelow {
		if err := Step(time.Now().Add(offset)); err != nil {
			return err
		}
	} else {
		t.Modes, t.Offset = singleShot, offset.Microseconds()
		if _, err := unix.Adjtimex(&t); err != nil {
			return fmt.Errorf("steer the clock: %w", err)
		}
	}
	t = unix.Timex{Modes: unix.ADJ_STATUS | unix.ADJ_MAXERROR | unix.ADJ_ESTERROR, Maxerror: 500_000, Esterror: 100_000} // microseconds
	if _, err := unix.Adjtimex(&t); err != nil {
		return fmt.Errorf("mark the clock as set: %w", err)
	}
	return nil
}

// Step sets the clock.
func Step(to time.Time) error {
	ts := unix.NsecToTimespec(to.UnixNano())
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &ts); err != nil {
		return fmt.Errorf("set the clock to %s: %w", to.UTC().Format(time.RFC3339), err)
	}
	return nil
}

package device

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"math/big"
	"sync"
	"time"
)

// Limits of pairing.
const (
	CodeLife  = 5 * time.Minute
	WrongMost = 5 // wrong tries after which every code that is out is void

	codeMost    = 10 // codes out at once; the oldest goes
	addrTries   = 10 // tries from one address in tryWindow
	allTries    = 60 // tries from everywhere in tryWindow
	tryWindow   = 10 * time.Minute
	addrsOnMind = 4096
)

// Code pairs one device.
type Code struct {
	Code      string
	Role      Role
	ExpiresAt time.Time
}

// Wrong is a code that is not out: mistyped, used, too old, or void after too
// many wrong tries.
type Wrong struct{}

func (*Wrong) Error() string {
	return fmt.Sprintf("this code is not valid. A code has 8 digits, pairs one device, lasts %d minutes and ends after %d wrong tries: ask for a new one on the box", int(CodeLife.Minutes()), WrongMost)
}

// Slow says that there were too many tries, and after how long to come again.
type Slow struct{ After time.Duration }

func (e *Slow) Error() string {
	wait, unit := int64((e.After+time.Second)/time.Second), "second"
	if wait > 90 {
		wait, unit = (wait+59)/60, "minute"
	}
	if wait != 1 {
		unit += "s"
	}
	return fmt.Sprintf("too many tries to pair: wait %d %s and try again", wait, unit)
}

// codes are the codes that are out and the tries to guess one. A wrong try
// counts against every code, since nobody can say which was meant.
type codes struct {
	now func() time.Time

	mu    sync.Mutex
	out   []*code              // guarded by mu; oldest first
	tries map[string]*attempts // guarded by mu; by address
	all   attempts             // guarded by mu
}

type code struct {
	Code
	wrong int
}

// attempts counts tries since the first of a window.
type attempts struct {
	since time.Time
	n     int
}

// take counts a try and says how long to wait when there were too many.
func (a *attempts) take(now time.Time, most int) (time.Duration, bool) {
	if now.Sub(a.since) >= tryWindow {
		a.since, a.n = now, 0
	}
	if a.n >= most {
		return tryWindow - now.Sub(a.since), false
	}
	a.n++
	return 0, true
}

func (c *codes) issue(role Role) Code {
	n, err := rand.Int(rand.Reader, big.NewInt(100_000_000))
	if err != nil {
		panic(err) // the kernel's random source can't fail
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.out) >= codeMost {
		c.out = c.out[1:]
	}
	made := Code{fmt.Sprintf("%08d", n), role, c.now().Add(CodeLife)}
	c.out = append(c.out, &code{Code: made})
	return made
}

// redeem takes a code out and gives its role.
func (c *codes) redeem(given, addr string) (Role, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if c.tries == nil || len(c.tries) > addrsOnMind {
		c.tries = map[string]*attempts{}
	}
	if c.tries[addr] == nil {
		c.tries[addr] = &attempts{}
	}
	if wait, ok := c.tries[addr].take(now, addrTries); !ok {
		return "", &Slow{wait}
	}
	if wait, ok := c.all.take(now, allTries); !ok {
		return "", &Slow{wait}
	}
	var live []*code
	var hit *code
	for _, o := range c.out {
		if !now.Before(o.ExpiresAt) {
			continue
		}
		if subtle.ConstantTimeCompare([]byte(o.Code.Code), []byte(given)) == 1 {
			hit = o
			continue
		}
		live = append(live, o)
	}
	if hit != nil {
		c.out = live
		return hit.Role, nil
	}
	c.out = nil
	for _, o := range live {
		if o.wrong++; o.wrong < WrongMost {
			c.out = append(c.out, o)
		}
	}
	return "", &Wrong{}
}

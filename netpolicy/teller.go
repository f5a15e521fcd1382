package netpolicy

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/publicsuffix"
)

// tellEvery is how often one host:port is told again.
const tellEvery = time.Minute

// quota is how many lines are told at once, and how many more each minute.
type quota struct{ atOnce, more int }

// What there is room for. All refused tries share toldInAll, and of that the names below
// one registered domain, or the addresses of one network, have toldOfOne: whoever tries
// ever new names of one domain leaves room for others. A host that a rule names has room
// of its own, toldOfNamed: a try at it that is refused may be a leak through what the
// owner let through, and no noise before it hides that.
var (
	toldInAll   = quota{1000, 100}
	toldOfOne   = quota{100, 10}
	toldOfNamed = quota{20, 2}
)

// room is what of a quota is used up.
type room struct {
	spent int       // lines told, of those at once
	since time.Time // when spent was last made less
}

// left says whether there is room for a line.
func (r *room) left(q quota) bool {
	if n := int(time.Since(r.since) / tellEvery); n > 0 {
		r.spent, r.since = max(0, r.spent-q.more*min(n, q.atOnce)), time.Now()
	}
	return r.spent < q.atOnce
}

// teller passes refused tries on, each host:port at once and then once a minute with a
// count, so that a loop can't flood a log. One that tries ever new ones can't either:
// what there is no room for is told together, as others.
type teller struct {
	tell  func(hostport string, count int)
	named func(host string) bool // whether a rule names this one host; nil for no rules

	mu     sync.Mutex
	counts map[string]int // tries since it was last told
	all    room
	shares map[share]*room // that something was told of lately
	more   int             // tries that there was no room for
	timer  *time.Timer     // running while counts, shares or more holds anything
	closed bool
}

// share is whose room a line takes.
type share struct {
	of    string // a host that a rule names; else a registered domain, or a network
	named bool
}

// refused counts a try.
func (t *teller) refused(hostport string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	if t.timer == nil {
		t.timer = time.AfterFunc(tellEvery, t.minute)
	}
	if n, known := t.counts[hostport]; known {
		t.counts[hostport] = n + 1
		return
	}
	if !t.take(hostport) {
		t.more++
		return
	}
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	t.counts[hostport] = 0
	t.tell(hostport, 1)
}

// take takes the room of a line about hostport, with t.mu held.
func (t *teller) take(hostport string) bool {
	of, q := t.shareOf(hostport)
	r := t.shares[of]
	if r == nil {
		r = &room{since: time.Now()}
	}
	if !r.left(q) || !of.named && !t.all.left(toldInAll) {
		return false
	}
	r.spent++
	if !of.named {
		t.all.spent++
	}
	if t.shares == nil {
		t.shares = map[share]*room{}
	}
	t.shares[of] = r
	return true
}

// shareOf says whose room a line about hostport takes.
func (t *teller) shareOf(hostport string) (share, quota) {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	if t.named != nil && t.named(host) {
		return share{host, true}, toldOfNamed
	}
	if a, err := netip.ParseAddr(host); err == nil {
		bits := 48
		if a.Is4() {
			bits = 16
		}
		if p, err := a.WithZone("").Prefix(bits); err == nil {
			host = p.String()
		}
	} else if domain, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		host = domain
	}
	return share{of: host}, toldOfOne
}

// minute tells what came in since the last time and forgets what has stopped.
func (t *teller) minute() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = nil
	if t.closed {
		return
	}
	for h, n := range t.counts {
		switch {
		case n == 0:
			delete(t.counts, h)
		case t.take(h):
			t.counts[h] = 0
			t.tell(h, n)
		default:
			t.more += n
			delete(t.counts, h)
		}
	}
	t.rest()
	for of, r := range t.shares {
		q := toldOfOne
		if of.named {
			q = toldOfNamed
		}
		if r.left(q) && r.spent == 0 {
			delete(t.shares, of)
		}
	}
	if len(t.counts)+len(t.shares) > 0 {
		t.timer = time.AfterFunc(tellEvery, t.minute)
	}
}

// rest tells of those that there was no room for, with t.mu held.
func (t *teller) rest() {
	if t.more > 0 {
		t.tell(others+":0", t.more)
		t.more = 0
	}
}

// close tells what is left.
func (t *teller) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.timer != nil {
		t.timer.Stop()
	}
	for h, n := range t.counts {
		if n > 0 {
			t.tell(h, n)
		}
	}
	t.counts, t.shares = nil, nil
	t.rest()
}

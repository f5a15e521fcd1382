package netpolicy

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Limit is one of a namespace's limits on what its program may have at once. What comes
// to one is no refused try: a rule lets it through, and it waits or is closed.
type Limit int

// The limits (specification 6, Limits, and beginRate).
const (
	LimitBegun Limit = iota // connections a second
	LimitAsked              // questions for names a second
	LimitOpen               // connections at once
)

// Sentence says it to the owner. host is whom the connection went to that came to it, ""
// where that is not known.
func (l Limit) Sentence(host string) string {
	if host != "" {
		host = ", such as one to " + host
	}
	switch l {
	case LimitBegun:
		return fmt.Sprintf("More than %d connections a second were begun; those above that wait%s, which a rule lets through.", beginRate, host)
	case LimitAsked:
		return fmt.Sprintf("More than %d questions a second were put to the name server; those above that are not answered.", beginRate)
	}
	return fmt.Sprintf("%d connections are open, as many as may be; more are refused%s, until one of them ends.", MaxConns, host)
}

// limitEvery is how often one limit is told.
const limitEvery = time.Hour

// limiter tells which limits a program comes to, each at once and then once an hour.
type limiter struct {
	tell func(l Limit, host string) // may be nil

	mu   sync.Mutex
	last [LimitOpen + 1]time.Time // when each was told
}

func (m *limiter) met(l Limit, host string) {
	if m.tell == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if at := m.last[l]; !at.IsZero() && time.Since(at) < limitEvery {
		return
	}
	m.last[l] = time.Now()
	m.tell(l, host)
}

// dropped tells of a packet that the kernel did not let out. One that is held back says
// nothing of where it goes: a connection's comes again, and is judged then.
func (s *Space) dropped(p packet) {
	if !p.held {
		s.tell.refused(s.spell(p.to))
		return
	}
	own := p.to.Addr().IsLoopback()
	switch {
	case p.proto == unix.IPPROTO_UDP, p.to.Port() == 53, own && p.to.Port() == namePort:
		s.limits.met(LimitAsked, "")
	case own && p.to.Port() == proxyPort:
		s.limits.met(LimitBegun, "")
	default:
		t := s.targetOf(p.to)
		if _, err := t.verdict(s.set.Load()); err != nil {
			s.tell.refused(t.String())
			return
		}
		s.limits.met(LimitBegun, t.String())
	}
}

// full tells that a connection had no room. s.mu is not held: the map of names asks for the
// open connections while it is locked itself.
func (s *Space) full(to netip.AddrPort) {
	if s.ctx.Err() != nil {
		return // it ends, and has room for nobody
	}
	host := ""
	if to.IsValid() && !to.Addr().IsLoopback() {
		host = s.targetOf(to).String()
	}
	s.limits.met(LimitOpen, host)
}

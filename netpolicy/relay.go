package netpolicy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"gurtos/netpolicy/rules"
)

// target is where a connection is meant to go: a port of a name, or of an address
// that no name stands for.
type target struct {
	name string // normalised; "" when addr is meant
	addr netip.Addr
	port uint16
}

// String is host:port, as the log and the portal show it.
func (t target) String() string { return net.JoinHostPort(t.host(), fmt.Sprint(t.port)) }

func (t target) host() string {
	if t.name != "" {
		return t.name
	}
	return t.addr.String()
}

// errNoRule is what a target without a rule gets.
var errNoRule = &Refused{"no rule of this task allows it"}

// verdict finds the rule that lets the target through.
func (t target) verdict(set *rules.Set) (rules.Rule, error) {
	var r rules.Rule
	ok := false
	if t.name != "" {
		r, ok = set.Match(t.name, t.port)
	} else {
		r, ok = set.MatchAddr(netip.AddrPortFrom(t.addr, t.port))
	}
	if !ok {
		return r, errNoRule
	}
	return r, nil
}

// stat counts what passes to and from one host:port.
type stat struct{ sent, received, conns atomic.Int64 }

// allowance is how much may be sent to what one rule names, whatever the port. All
// names below a wildcard share one, or each new name would be a new allowance.
type allowance struct {
	host string
	sent atomic.Int64 // with what is about to go

	once sync.Once // asks the upload question
	yes  bool      // the answer, set by once
}

// conn is one connection of a program and, once dialled, the one outside.
type conn struct {
	down *net.TCPConn
	dst  netip.AddrPort // where it was meant to go, when it was redirected
	made *knock         // what was made for it outside, or nil

	mu      sync.Mutex
	up      *net.TCPConn
	target  *target
	private bool // it leads to a private network
	closed  bool
}

// allowed says whether the rules still let the connection be, as far as it is known
// where it goes.
func (k *conn) allowed(set *rules.Set) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.target == nil {
		return true
	}
	rule, err := k.target.verdict(set)
	return err == nil && (!k.private || rule.Exact())
}

// leads notes the address that was dialled.
func (k *conn) leads(up *net.TCPConn) {
	if a, ok := up.RemoteAddr().(*net.TCPAddr); ok && rules.Classify(a.AddrPort().Addr()) == rules.Private {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.private = true
	}
}

func (k *conn) aim(t target) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.target = &t
}

// join adds the connection outside; it is closed at once when k is closed already.
func (k *conn) join(up *net.TCPConn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.up = up
	if k.closed {
		up.Close()
	}
}

func (k *conn) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	k.down.Close()
	if k.up != nil {
		k.up.Close()
	}
}

// reset closes so that the program sees a reset and not an orderly end.
func reset(c *net.TCPConn) {
	c.SetLinger(0) //nolint:errcheck // it is closed next
	c.Close()
}

// relayed serves a connection that nftables redirected.
func (s *Space) relayed(k *conn) {
	if !k.dst.IsValid() {
		s.n.log.Debug("a connection without a destination")
		reset(k.down)
		return
	}
	t := s.targetOf(k.dst)
	in := &peeker{c: k.down}
	if sw := s.swapFor(t); sw != nil {
		s.swapped(k, t, sw, in)
		return
	}
	k.aim(t)
	if k.made != nil {
		if s.bring(k, k.made.up) != nil {
			reset(k.down)
			return
		}
		s.pass(k, t, k.made.rule, k.made.up, in)
		return
	}
	up, rule, err := s.open(k, t)
	if err != nil {
		reset(k.down)
		return
	}
	s.pass(k, t, rule, up, in)
}

// open dials a target for k, or tells why not.
func (s *Space) open(k *conn, t target) (*net.TCPConn, rules.Rule, error) {
	k.aim(t)
	up, rule, err := s.reach(t)
	if err == nil {
		err = s.bring(k, up)
	}
	return up, rule, err
}

// reach dials a target, or tells why not.
func (s *Space) reach(t target) (*net.TCPConn, rules.Rule, error) {
	rule, err := t.verdict(s.set.Load())
	if err != nil {
		s.tell.refused(t.String())
		return nil, rule, err
	}
	up, err := s.n.dial.dial(s.ctx, t.host(), t.port, rule.Exact())
	if no, refused := errors.AsType[*Refused](err); refused {
		s.tell.refused(t.String())
		return nil, rule, no
	}
	return up, rule, err
}

// bring gives k its connection outside, unless the rule went before k had its aim.
func (s *Space) bring(k *conn, up *net.TCPConn) error {
	k.leads(up)
	if !k.allowed(s.set.Load()) {
		up.Close()
		return errNoRule
	}
	k.join(up)
	return nil
}

// pass moves bytes both ways until both sides have ended. in is where the
// program's bytes come from: k.down with what was read ahead of it.
func (s *Space) pass(k *conn, t target, rule rules.Rule, up *net.TCPConn, in *peeker) {
	st, al := s.account(t, rule)
	st.conns.Add(1)
	f := &flow{s: s, k: k, t: t, st: st, al: al, up: up, in: in}
	f.answers = &answers{f: f}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.download()
	}()
	err := f.upload()
	if no, differs := errors.AsType[*Refused](err); differs {
		s.n.log.Debug("a connection was closed", "to", t.String(), "why", no.Why)
		s.tell.refused(t.String())
	}
	if err != nil {
		reset(k.down)
		reset(up)
	} else {
		up.CloseWrite() //nolint:errcheck // the other side may have closed first
	}
	<-done
}

// maxStats bounds the host:port pairs that are counted apart, and others counts the
// rest: a wildcard over a server of the program's own has no end of names and ports.
const (
	maxStats = 1000
	others   = "others"
)

func (s *Space) account(t target, rule rules.Rule) (*stat, *allowance) {
	at := t.String()
	st, al, first := s.accountOf(at, rule)
	if first && s.p.Reached != nil {
		s.p.Reached(at)
	}
	return st, al
}

// accountOf finds the counters; first says that nothing was counted for at before.
func (s *Space) accountOf(at string, rule rules.Rule) (st *stat, al *allowance, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stats[at] == nil && len(s.stats) >= maxStats {
		at = others
	}
	host := rule.Host()
	st, al = s.stats[at], s.uploads[host]
	if st == nil {
		st = &stat{}
		s.stats[at] = st
		first = at != others
	}
	if al == nil {
		al = &allowance{host: host}
		s.uploads[host] = al
	}
	return st, al, first
}

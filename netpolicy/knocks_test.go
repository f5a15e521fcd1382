package netpolicy

import (
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
)

// TestGivesUpAgain holds that a program which knocks from one port again and again, and
// is gone each time before it is let in, has one connection outside and no more.
func TestGivesUpAgain(t *testing.T) {
	i := outside(t)
	i.name("example.com", webAddr)
	var made, ended atomic.Int64
	serveTCP(t, i, 2800, func(c *net.TCPConn) {
		made.Add(1)
		io.Copy(io.Discard, c) //nolint:errcheck // until it ends
		ended.Add(1)
	})
	s, _ := space(t, "example.com")
	a, err := program{t, s}.lookup("example.com", false)
	if err != nil {
		t.Fatal(err)
	}
	from, to := netip.MustParseAddrPort("127.0.0.1:5556"), netip.AddrPortFrom(a, 2800)
	at := pair{from, to}
	const id = 1 << 30 // of no packet
	s.comes(id, from, to)
	stands := func() *knock {
		s.mu.Lock()
		defer s.mu.Unlock()
		if k := s.knocks[at]; k != nil && k.up != nil {
			return k
		}
		return nil
	}
	if !eventually(func() bool { return stands() != nil && made.Load() == 1 }) {
		t.Fatal("no connection outside")
	}
	first := stands()
	for n := range uint32(10) {
		s.comes(id+n, from, to)
		if stands() != first {
			t.Fatal("the connection outside was lost")
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if !eventually(func() bool { return ended.Load() == made.Load() }) || made.Load() != 1 {
		t.Errorf("%d connections outside, %d ended", made.Load(), ended.Load())
	}
}

package netpolicy

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"gurtos/netpolicy/rules"
)

// TestFullHoldsNobodyUp holds that nothing of a namespace is locked while it is told that a
// connection had no room: the map of names asks for the open connections while it is locked
// itself, so a program that has all connections and all names would have each wait for the
// other, and who ends it for both.
func TestFullHoldsNobodyUp(t *testing.T) {
	outside(t) // brings the loopback up
	set, err := rules.ParseList([]string{"192.0.2.34:80"})
	if err != nil {
		t.Fatal(err)
	}
	queue, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer queue.Close()
	s := &Space{ctx: t.Context(), bare: &bare{queue: queue}, names: &names{byName: map[string]*named{}}, conns: map[*conn]struct{}{}, knocks: map[pair]*knock{}}
	s.set.Store(&set)
	for range MaxConns {
		s.conns[&conn{}] = struct{}{}
	}
	var told []string
	tell := func(_ Limit, host string) {
		told = append(told, host)
		if !s.mu.TryLock() {
			t.Errorf("the connections are locked while it is told of %q", host)
			return
		}
		s.mu.Unlock()
		if !s.names.mu.TryLock() {
			t.Errorf("the names are locked while it is told of %q", host)
			return
		}
		s.names.mu.Unlock()
	}
	s.limits.tell = tell
	s.comes(1, netip.MustParseAddrPort("192.0.2.1:50000"), netip.MustParseAddrPort("192.0.2.34:80"))

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	out, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	s.limits = limiter{tell: tell}
	if _, ok := s.admit(in.(*net.TCPConn)); ok {
		t.Error("one more than there is room for is let in")
	}
	if want := []string{"192.0.2.34:80", ""}; !slices.Equal(told, want) {
		t.Errorf("told of %q, want %q", told, want)
	}
}

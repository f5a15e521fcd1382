package netpolicy

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	vnl "github.com/vishvananda/netlink"
)

// A host's address is held against the box's own in the form in which it is dialled, and in the one in which a gateway would reach it.
func TestOwnInEachForm(t *testing.T) {
	for _, c := range []struct{ own, dialled string }{
		{"9.9.9.9", "9.9.9.9"},
		{"9.9.9.9", "::ffff:9.9.9.9"},
		{"2606:4700::1", "2606:4700::1"},
		{"2002:909:909:1::5", "2002:909:909:1::5"}, // 6to4: what it holds is the router's address
		{"9.9.9.9", "64:ff9b::909:909"},
	} {
		d := &dialer{own: func(a netip.Addr) (bool, error) { return a == netip.MustParseAddr(c.own), nil }}
		if err := d.check(netip.MustParseAddr(c.dialled), true); err == nil {
			t.Errorf("%s may be dialled from a box that has %s", c.dialled, c.own)
		}
	}
	d := &dialer{own: func(netip.Addr) (bool, error) { return false, errors.New("no answer") }}
	if err := d.check(netip.MustParseAddr("9.9.9.9"), true); err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Error("an address that nobody could judge may be dialled:", err)
	}
}

// A socket that can't be made is made at the next question, and one that failed is not asked again.
func TestRoutingTableComesBack(t *testing.T) {
	tries := 0
	table := routingTable{open: func() (*vnl.Handle, error) {
		if tries++; tries == 1 {
			return nil, errors.New("too many open files")
		}
		return openTable()
	}}
	local := netip.MustParseAddr("127.0.0.1")
	if _, err := table.get(local); err == nil {
		t.Fatal("no socket, and an answer")
	}
	if _, err := table.get(local); err != nil || table.h == nil {
		t.Fatal("the socket was not made anew:", err)
	}
}

package network

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// namespace is what a test program that wants one starts itself with.
func namespace() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
}

func ack(t *testing.T, mods ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	t.Helper()
	a, err := dhcpv4.New(append([]dhcpv4.Modifier{
		dhcpv4.WithMessageType(dhcpv4.MessageTypeAck),
		dhcpv4.WithYourIP(net.IPv4(203, 0, 113, 77)),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.IPv4(203, 0, 113, 1))),
	}, mods...)...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func duration(code dhcpv4.OptionCode, seconds uint32) dhcpv4.Modifier {
	return dhcpv4.WithGeneric(code, binary.BigEndian.AppendUint32(nil, seconds))
}

func TestLeaseTimes(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for _, c := range []struct {
		name                   string
		mods                   []dhcpv4.Modifier
		renew, rebind, expires time.Duration
	}{
		{"all by default", nil, 30 * time.Minute, 52*time.Minute + 30*time.Second, time.Hour},
		{"a day", []dhcpv4.Modifier{dhcpv4.WithLeaseTime(86400)}, 12 * time.Hour, 21 * time.Hour, 24 * time.Hour},
		{"the server's own", []dhcpv4.Modifier{dhcpv4.WithLeaseTime(1000), duration(dhcpv4.OptionRenewTimeValue, 100), duration(dhcpv4.OptionRebindingTimeValue, 200)}, 100 * time.Second, 200 * time.Second, 1000 * time.Second},
		{"in no order", []dhcpv4.Modifier{dhcpv4.WithLeaseTime(1000), duration(dhcpv4.OptionRenewTimeValue, 900), duration(dhcpv4.OptionRebindingTimeValue, 200)}, 500 * time.Second, 875 * time.Second, 1000 * time.Second},
		{"zero", []dhcpv4.Modifier{dhcpv4.WithLeaseTime(0)}, 30 * time.Second, 52500 * time.Millisecond, time.Minute},
		{"for ever", []dhcpv4.Modifier{dhcpv4.WithLeaseTime(0xffffffff)}, maxLease / 2, maxLease * 7 / 8, maxLease},
	} {
		l, err := readLease(ack(t, c.mods...), now)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if l.renew.Sub(now) != c.renew || l.rebind.Sub(now) != c.rebind || l.expires.Sub(now) != c.expires {
			t.Errorf("%s: %v, %v, %v; want %v, %v, %v", c.name, l.renew.Sub(now), l.rebind.Sub(now), l.expires.Sub(now), c.renew, c.rebind, c.expires)
		}
	}
}

func TestLeaseFields(t *testing.T) {
	now := time.Now()
	for _, ip := range []net.IP{net.IPv4zero, net.IPv4(127, 0, 0, 1), net.IPv4(224, 0, 0, 1), net.IPv4bcast, net.IPv4(169, 254, 1, 1)} {
		if l, err := readLease(ack(t, dhcpv4.WithYourIP(ip)), now); err == nil {
			t.Errorf("an address of %v was taken: %+v", ip, l)
		}
	}
	l, err := readLease(ack(t,
		dhcpv4.WithDNS(net.IPv4zero, net.IPv4(127, 0, 0, 53), net.IPv4(192, 0, 2, 1)),
		dhcpv4.WithGeneric(dhcpv4.OptionInterfaceMTU, []byte{0, 68})), now)
	if err != nil {
		t.Fatal(err)
	}
	if l.addr.String() != "203.0.113.77/24" || len(l.dns) != 1 || l.mtu != 0 {
		t.Errorf("lease %+v: want the class's mask, one name server, the port's MTU", l)
	}
	if l, err = readLease(ack(t, dhcpv4.WithGeneric(dhcpv4.OptionInterfaceMTU, []byte{5, 120})), now); err != nil || l.mtu != 1400 {
		t.Errorf("MTU %d, %v; want 1400", l.mtu, err)
	}
}

func TestAgain(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for _, c := range []struct{ stage, expires, want time.Duration }{
		{time.Hour, 2 * time.Hour, 30 * time.Minute},
		{time.Minute, time.Hour, time.Minute},
		{time.Second, 20 * time.Second, 20 * time.Second},
	} {
		if got := again(now, now.Add(c.stage), now.Add(c.expires)).Sub(now); got != c.want {
			t.Errorf("again after %v of a stage and %v of the lease: in %v, want %v", c.stage, c.expires, got, c.want)
		}
	}
}

func TestRDNSS(t *testing.T) {
	option := func(lifetime uint32, addrs ...string) []byte {
		b := []byte{optionRDNSS, byte(1 + 2*len(addrs)), 0, 0}
		b = binary.BigEndian.AppendUint32(b, lifetime)
		for _, a := range addrs {
			b = append(b, netip.MustParseAddr(a).AsSlice()...)
		}
		return b
	}
	message := func(index uint32, opts ...byte) []byte {
		b := []byte{10, 0}
		b = binary.NativeEndian.AppendUint16(b, uint16(len(opts)))
		b = binary.NativeEndian.AppendUint32(b, index)
		return append(append(b, 134, 0, 0, 0, 0, 0, 0, 0), opts...)
	}
	for _, c := range []struct {
		name  string
		msg   []byte
		index int
		want  string
		ok    bool
	}{
		{"two", message(3, option(600, "2001:db8::53", "2001:db8::54")...), 3, "2001:db8::53 2001:db8::54", true},
		{"taken back", message(3, option(0, "2001:db8::53")...), 3, "", true},
		{"link-local and multicast", message(4, option(600, "fe80::1", "ff02::1", "2001:db8::1")...), 4, "2001:db8::1", true},
		{"another option first", message(5, append([]byte{31, 1, 0, 0, 0, 0, 0, 0}, option(9, "2001:db8::1")...)...), 5, "2001:db8::1", true},
		{"none", message(5, 31, 1, 0, 0, 0, 0, 0, 0), 5, "", false},
		{"an option of no length", message(5, 25, 0, 0, 0, 0, 0, 0, 0), 0, "", false},
		{"cut off", message(5, option(600, "2001:db8::53")[:16]...), 0, "", false},
		{"empty", nil, 0, "", false},
	} {
		index, servers, ok := parseRDNSS(c.msg)
		var words []string
		for _, s := range servers {
			words = append(words, s.String())
		}
		if index != c.index || strings.Join(words, " ") != c.want || ok != c.ok {
			t.Errorf("%s: %d, %v, %v", c.name, index, servers, ok)
		}
	}
}

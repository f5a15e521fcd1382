package network

import (
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

const (
	minLease     = time.Minute // a shorter one is taken for this, so that a bad server costs no storm of requests
	defaultLease = time.Hour   // when the server says nothing
	maxLease     = 365 * 24 * time.Hour
)

// A lease is what a server gave for a time.
type lease struct {
	addr    netip.Prefix
	server  netip.Addr // not valid when it gave no identifier
	routers []netip.Addr
	routes  []route // option 121; when there are any, routers are not used
	dns     []netip.Addr
	ntp     []netip.Addr
	mtu     int // 0 for the port's own
	renew   time.Time
	rebind  time.Time
	expires time.Time
	ack     *dhcpv4.DHCPv4
}

type route struct {
	to  netip.Prefix
	via netip.Addr
}

// readLease reads and checks a server's ACK, got at the time now.
func readLease(ack *dhcpv4.DHCPv4, now time.Time) (*lease, error) {
	ip, ok := netip.AddrFromSlice(ack.YourIPAddr.To4())
	if !ok || !ip.IsGlobalUnicast() {
		return nil, fmt.Errorf("the DHCP server gave the address %v", ack.YourIPAddr)
	}
	ones, bits := ack.SubnetMask().Size()
	if bits != 32 || ones == 0 { // none given, or none that is one
		ones, _ = ip4Mask(ip).Size()
	}
	server, _ := netip.AddrFromSlice(ack.ServerIdentifier().To4())
	l := &lease{
		addr:    netip.PrefixFrom(ip, ones),
		server:  server,
		routers: usable(ack.Router()),
		dns:     usable(ack.DNS()),
		ntp:     usable(ack.NTPServers()),
		ack:     ack,
	}
	for _, r := range ack.ClasslessStaticRoute() {
		to, ok := netip.AddrFromSlice(r.Dest.IP.To4())
		via, ok2 := netip.AddrFromSlice(r.Router.To4())
		ones, _ := r.Dest.Mask.Size()
		if ok && ok2 {
			l.routes = append(l.routes, route{netip.PrefixFrom(to, ones).Masked(), via})
		}
	}
	if b := ack.Options.Get(dhcpv4.OptionInterfaceMTU); len(b) == 2 {
		if mtu := int(b[0])<<8 | int(b[1]); mtu >= 1280 && mtu <= 9216 { // below, IPv6 would be off
			l.mtu = mtu
		}
	}
	length := min(max(ack.IPAddressLeaseTime(defaultLease), minLease), maxLease)
	t1, t2 := ack.IPAddressRenewalTime(length/2), ack.IPAddressRebindingTime(length*7/8)
	if t1 <= 0 || t1 >= t2 || t2 >= length {
		t1, t2 = length/2, length*7/8
	}
	l.renew, l.rebind, l.expires = now.Add(t1), now.Add(t2), now.Add(length)
	return l, nil
}

// ip4Mask is a guess for servers that give none.
func ip4Mask(ip netip.Addr) net.IPMask {
	b := ip.As4()
	return net.IP(b[:]).DefaultMask()
}

func usable(ips []net.IP) []netip.Addr {
	var out []netip.Addr
	for _, ip := range ips {
		if a, ok := netip.AddrFromSlice(ip.To4()); ok && a.IsGlobalUnicast() {
			out = append(out, a)
		}
	}
	return out
}

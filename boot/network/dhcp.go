package network

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	firstTry  = 2 * time.Second  // for an answer; doubled each time (RFC 2131, 4.1)
	lastTry   = 64 * time.Second // up to this
	routeDHCP = 16               // RTPROT_DHCP: our routes, told from a person's
	metric    = 1024             // plus the port's index: the first port's default route wins
)

var errNak = errors.New("the DHCP server refused")

// A client leases an address for one port.
type client struct {
	network *Network
	index   int
	name    string
	log     *log.Logger
	lease   *lease // nil, or the current or last one
	applied *lease // whose address and routes are on the port
}

// run leases and renews until ctx ends. The address stays then: a carrier that
// comes back soon finds it unchanged.
func (c *client) run(ctx context.Context) {
	c.applied = c.lease
	for ctx.Err() == nil {
		if err := c.acquire(ctx); err != nil {
			return // ctx
		}
		c.hold(ctx)
	}
}

// acquire gets a lease, trying until ctx ends.
func (c *client) acquire(ctx context.Context) error {
	if c.lease != nil && time.Now().Before(c.lease.expires) {
		l, err := c.reboot(ctx)
		switch {
		case err == nil:
			return c.take(l)
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errNak):
			c.drop("the server refused it")
		}
	}
	wait := firstTry
	told := false
	for {
		l, err := c.discover(ctx, jitter(wait))
		if err == nil {
			if err = c.take(l); err == nil {
				return nil
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !told || !errors.Is(err, nclient4.ErrNoResponse) {
			c.log.Printf("%s: no lease yet: %v", c.name, err)
			told = true
		}
		// The answer was waited for already, unless sending failed at once.
		if !errors.Is(err, nclient4.ErrNoResponse) {
			select {
			case <-time.After(jitter(wait)):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if c.lease != nil && time.Now().After(c.lease.expires) {
			c.drop("it has ended")
		}
		wait = min(2*wait, lastTry)
	}
}

// jitter spreads a time by a quarter, so that boxes switched on together don't
// ask together.
func jitter(d time.Duration) time.Duration {
	return d - d/8 + rand.N(d/4)
}

// hold keeps the lease until it has to be acquired anew.
func (c *client) hold(ctx context.Context) {
	next := c.lease.renew
	for {
		select {
		case <-time.After(time.Until(next)):
		case <-ctx.Done():
			return
		}
		l, now := c.lease, time.Now()
		if !now.Before(l.expires) {
			c.drop("it has ended")
			return
		}
		ask, stage := c.renew, l.rebind
		if !now.Before(l.rebind) || !l.server.IsValid() {
			ask, stage = c.rebind, l.expires
		}
		fresh, err := ask(ctx)
		switch {
		case err == nil:
			if err := c.take(fresh); err != nil {
				c.log.Printf("%s: %v", c.name, err)
				return
			}
			next = fresh.renew
		case ctx.Err() != nil:
			return
		case errors.Is(err, errNak):
			c.drop("the server refused it")
			return
		default:
			c.log.Printf("%s: the lease was not renewed: %v", c.name, err)
			next = again(time.Now(), stage, l.expires)
		}
	}
}

// again is when to ask next: after half of what is left of the stage, but at
// least a minute (RFC 2131, 4.4.5), and never past the lease's end.
func again(now, stage, expires time.Time) time.Time {
	next := now.Add(max(stage.Sub(now)/2, minLease))
	if next.After(expires) {
		return expires
	}
	return next
}

// asked are the options that are wanted from a server.
var asked = []dhcpv4.OptionCode{
	dhcpv4.OptionSubnetMask, dhcpv4.OptionRouter, dhcpv4.OptionDomainNameServer, dhcpv4.OptionNTPServers, dhcpv4.OptionInterfaceMTU,
	dhcpv4.OptionClasslessStaticRoute, dhcpv4.OptionIPAddressLeaseTime, dhcpv4.OptionRenewTimeValue, dhcpv4.OptionRebindingTimeValue,
}

func (c *client) options() []dhcpv4.Modifier {
	mods := []dhcpv4.Modifier{dhcpv4.WithRequestedOptions(asked...)}
	if c.network.HostName != nil {
		if name := c.network.HostName(); name != "" {
			mods = append(mods, dhcpv4.WithOption(dhcpv4.OptHostName(name)))
		}
	}
	return mods
}

// broadcast opens the port's raw socket for one exchange. It needs no address.
func (c *client) broadcast(wait time.Duration) (*nclient4.Client, error) {
	return nclient4.New(c.name, nclient4.WithTimeout(wait), nclient4.WithRetry(1))
}

func (c *client) discover(ctx context.Context, wait time.Duration) (*lease, error) {
	n, err := c.broadcast(wait)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	offer, err := n.DiscoverOffer(ctx, c.options()...)
	if err != nil {
		return nil, err
	}
	got, err := n.RequestFromOffer(ctx, offer, c.options()...)
	if err != nil {
		return nil, err
	}
	return readLease(got.ACK, time.Now())
}

// reboot asks for the last lease's address on what may be another network.
func (c *client) reboot(ctx context.Context) (*lease, error) {
	n, err := c.broadcast(firstTry)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	ip := c.lease.addr.Addr().As4()
	req, err := dhcpv4.New(append(c.options(),
		dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest),
		dhcpv4.WithHwAddr(n.InterfaceAddr()),
		dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(ip[:])),
		dhcpv4.WithOption(dhcpv4.OptMaxMessageSize(nclient4.MaxMessageSize)))...)
	if err != nil {
		return nil, err
	}
	return exchange(ctx, n, nclient4.DefaultServers, req)
}

// renew asks the lease's server, from its address.
func (c *client) renew(ctx context.Context) (*lease, error) {
	link, err := netlink.LinkByIndex(c.index)
	if err != nil {
		return nil, err
	}
	from := c.lease.addr.Addr()
	listen := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var bound error
		if err := raw.Control(func(fd uintptr) { bound = unix.BindToDevice(int(fd), c.name) }); err != nil {
			return err
		}
		return bound
	}}
	conn, err := listen.ListenPacket(ctx, "udp4", netip.AddrPortFrom(from, nclient4.ClientPort).String())
	if err != nil {
		return nil, err
	}
	n, err := nclient4.NewWithConn(conn, link.Attrs().HardwareAddr, nclient4.WithTimeout(2*firstTry), nclient4.WithRetry(2))
	if err != nil {
		conn.Close()
		return nil, err
	}
	defer n.Close()
	req, err := dhcpv4.NewRenewFromAck(c.lease.ack, c.options()...)
	if err != nil {
		return nil, err
	}
	server := c.lease.server.As4()
	return exchange(ctx, n, &net.UDPAddr{IP: server[:], Port: nclient4.ServerPort}, req)
}

// rebind asks whichever server hears it.
func (c *client) rebind(ctx context.Context) (*lease, error) {
	n, err := c.broadcast(2 * firstTry)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	req, err := dhcpv4.NewRenewFromAck(c.lease.ack, c.options()...)
	if err != nil {
		return nil, err
	}
	return exchange(ctx, n, nclient4.DefaultServers, req)
}

// exchange sends a request and reads the first ACK or NAK.
func exchange(ctx context.Context, n *nclient4.Client, to *net.UDPAddr, req *dhcpv4.DHCPv4) (*lease, error) {
	answer, err := n.SendAndRead(ctx, to, req, nclient4.IsMessageType(dhcpv4.MessageTypeAck, dhcpv4.MessageTypeNak))
	if err != nil {
		return nil, err
	}
	if answer.MessageType() == dhcpv4.MessageTypeNak {
		return nil, errNak
	}
	return readLease(answer, time.Now())
}

// take puts a lease on the port and makes it the client's.
func (c *client) take(l *lease) error {
	if c.applied == nil || c.applied.addr != l.addr {
		c.log.Printf("%s: %s from %s for %v", c.name, l.addr, l.server, time.Until(l.expires).Round(time.Second))
	}
	if c.applied != nil && c.applied.addr != l.addr {
		c.clear()
	}
	if err := c.apply(l); err != nil {
		return err
	}
	c.lease, c.applied = l, l
	c.network.learn(c.index, func(k *learned) { k.dns, k.ntp = l.dns, l.ntp })
	return nil
}

func (c *client) apply(l *lease) error {
	link, err := netlink.LinkByIndex(c.index)
	if err != nil {
		return err
	}
	if l.mtu != 0 && l.mtu != link.Attrs().MTU {
		if err := netlink.LinkSetMTU(link, l.mtu); err != nil {
			c.log.Printf("%s: set the MTU to %d: %v", c.name, l.mtu, err)
		}
	}
	// The kernel counts the lease down too: if init should hang, the address
	// still goes when it must.
	left := int(time.Until(l.expires).Seconds())
	if err := netlink.AddrReplace(link, &netlink.Addr{IPNet: ipNet(l.addr), ValidLft: left, PreferedLft: left}); err != nil {
		return fmt.Errorf("put %s on %s: %w", l.addr, c.name, err)
	}
	routes := l.routes
	if len(routes) == 0 {
		for _, r := range l.routers[:min(1, len(l.routers))] {
			routes = append(routes, route{netip.PrefixFrom(netip.IPv4Unspecified(), 0), r})
		}
	}
	for _, r := range routes {
		if err := netlink.RouteReplace(c.netlinkRoute(l, r)); err != nil {
			c.log.Printf("%s: route to %s by %s: %v", c.name, r.to, r.via, err)
		}
	}
	return nil
}

func (c *client) netlinkRoute(l *lease, r route) *netlink.Route {
	src := l.addr.Addr().As4()
	out := &netlink.Route{LinkIndex: c.index, Protocol: routeDHCP, Priority: metric + c.index, Dst: ipNet(r.to), Src: src[:]}
	if r.via.IsUnspecified() { // on the link itself (RFC 3442)
		out.Scope = netlink.SCOPE_LINK
		return out
	}
	via := r.via.As4()
	out.Gw = via[:]
	if !l.addr.Contains(r.via) { // a router outside the subnet, as some hosters have
		out.Flags = int(netlink.FLAG_ONLINK)
	}
	return out
}

// drop ends the lease.
func (c *client) drop(why string) {
	if c.lease == nil {
		return
	}
	c.log.Printf("%s: the lease of %s is over: %s", c.name, c.lease.addr, why)
	c.clear()
	c.lease = nil
	c.network.learn(c.index, func(k *learned) { k.dns, k.ntp = nil, nil })
}

// clear takes the applied address off the port; the routes over it go with it.
func (c *client) clear() {
	if c.applied == nil {
		return
	}
	link, err := netlink.LinkByIndex(c.index)
	if err == nil {
		err = netlink.AddrDel(link, &netlink.Addr{IPNet: ipNet(c.applied.addr)})
	}
	// EADDRNOTAVAIL: the kernel has counted it down already.
	if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		c.log.Printf("%s: take %s off: %v", c.name, c.applied.addr, err)
	}
	c.applied = nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

package network

import (
	"context"
	"log"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/server4"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"gurtos/boot/ring"
)

// A lab is two network namespaces with a cable between: the box's, which this
// whole test program moves into, and one with a DHCP server.
type lab struct {
	t    *testing.T
	far  *netlink.Handle // acts in the server's namespace
	ns   netns.NsHandle
	ring *ring.Ring
	net  *Network
}

// inNamespace runs the tests in a network namespace of their own: the package
// works on the namespace of whatever thread a goroutine is on, so all threads
// must be in it. TestMain does that by starting the program again.
const inNamespace = "GURTOS_TEST_NETNS"

func TestMain(m *testing.M) {
	if os.Getenv(inNamespace) == "" && os.Getuid() == 0 {
		os.Exit(inOwnNamespace())
	}
	os.Exit(m.Run())
}

func inOwnNamespace() int {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	p, err := os.StartProcess(self, os.Args, &os.ProcAttr{
		Env:   append(os.Environ(), inNamespace+"=1"),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   namespace(),
	})
	if err != nil {
		panic(err)
	}
	state, err := p.Wait()
	if err != nil {
		panic(err)
	}
	return state.ExitCode()
}

func newLab(t *testing.T) *lab {
	t.Helper()
	if os.Getenv(inNamespace) == "" {
		t.Skip("needs root to make a network namespace")
	}
	l := &lab{t: t, ring: ring.New(1000, time.Now())}
	runtime.LockOSThread()
	here, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	if l.ns, err = netns.New(); err != nil { // moves this thread there
		t.Fatal(err)
	}
	if err := netns.Set(here); err != nil {
		t.Fatal(err)
	}
	here.Close()
	runtime.UnlockOSThread()
	if l.far, err = netlink.NewHandleAt(l.ns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if l, err := netlink.LinkByName("port0"); err == nil {
			_ = netlink.LinkDel(l)
		}
		l.far.Close()
		l.ns.Close()
		if t.Failed() {
			t.Logf("log:\n%s", strings.Join(l.ring.Last(1000), "\n"))
		}
	})
	return l
}

// cable lays a cable from the box's port0 to the server's far0, which has the
// address 203.0.113.1.
func (l *lab) cable() {
	l.t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "port0"
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "far0", PeerNamespace: netlink.NsFd(int(l.ns))}); err != nil {
		l.t.Fatal(err)
	}
	far := l.farLink()
	if err := l.far.AddrAdd(far, &netlink.Addr{IPNet: ipNet(netip.MustParsePrefix("203.0.113.1/24"))}); err != nil {
		l.t.Fatal(err)
	}
	l.plug(true)
}

func (l *lab) farLink() netlink.Link {
	l.t.Helper()
	far, err := l.far.LinkByName("far0")
	if err != nil {
		l.t.Fatal(err)
	}
	return far
}

// plug puts the far end of the cable in or takes it out.
func (l *lab) plug(in bool) {
	l.t.Helper()
	set := l.far.LinkSetDown
	if in {
		set = l.far.LinkSetUp
	}
	if err := set(l.farLink()); err != nil {
		l.t.Fatal(err)
	}
}

// box starts the package under test.
func (l *lab) box() {
	l.net = &Network{
		Log:      log.New(l.ring.Writer("net"), "", 0),
		Resolv:   filepath.Join(l.t.TempDir(), "resolv.conf"),
		HostName: func() string { return "gurtos-test" },
		Wired:    func(link netlink.Link) bool { return link.Attrs().Name == "port0" },
	}
	ctx, cancel := context.WithCancel(l.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := l.net.Run(ctx); err != nil {
			l.t.Error(err)
		}
	}()
	l.t.Cleanup(func() { cancel(); <-done })
}

// A server answers with what answer makes of the answer that it would give; nil
// keeps silent. It notes what was asked.
type server struct {
	mu     sync.Mutex
	asked  []string // message types, with R for a unicast renewal and I for an init-reboot
	hosts  []string
	answer func(ask, reply *dhcpv4.DHCPv4) *dhcpv4.DHCPv4
}

func (l *lab) serve(s *server) {
	l.t.Helper()
	runtime.LockOSThread()
	here, err := netns.Get()
	if err != nil {
		l.t.Fatal(err)
	}
	defer here.Close()
	if err := netns.Set(l.ns); err != nil {
		l.t.Fatal(err)
	}
	srv, err := server4.NewServer("far0", &net.UDPAddr{Port: dhcpv4.ServerPort}, s.handle)
	if err2 := netns.Set(here); err2 != nil { // the socket stays where it was made
		l.t.Fatal(err2)
	}
	runtime.UnlockOSThread()
	if err != nil {
		l.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve() }()
	l.t.Cleanup(func() { srv.Close(); <-done })
}

func (s *server) handle(conn net.PacketConn, peer net.Addr, ask *dhcpv4.DHCPv4) {
	kind := ask.MessageType().String()
	if ask.MessageType() == dhcpv4.MessageTypeRequest {
		switch {
		case !ask.ClientIPAddr.IsUnspecified():
			kind = "RENEW"
		case ask.ServerIdentifier() == nil:
			kind = "REBOOT"
		}
	}
	s.mu.Lock()
	s.asked, s.hosts = append(s.asked, kind), append(s.hosts, ask.HostName())
	answer := s.answer
	s.mu.Unlock()

	typ := dhcpv4.MessageTypeAck
	if ask.MessageType() == dhcpv4.MessageTypeDiscover {
		typ = dhcpv4.MessageTypeOffer
	}
	reply, err := dhcpv4.NewReplyFromRequest(ask,
		dhcpv4.WithMessageType(typ),
		dhcpv4.WithServerIP(net.IPv4(203, 0, 113, 1)),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.IPv4(203, 0, 113, 1))),
		dhcpv4.WithYourIP(net.IPv4(203, 0, 113, 77)),
		dhcpv4.WithNetmask(net.CIDRMask(24, 32)),
		dhcpv4.WithRouter(net.IPv4(203, 0, 113, 1)),
		dhcpv4.WithDNS(net.IPv4(203, 0, 113, 53), net.IPv4(203, 0, 113, 54)),
		dhcpv4.WithOption(dhcpv4.OptNTPServers(net.IPv4(203, 0, 113, 123))),
		dhcpv4.WithLeaseTime(3600),
	)
	if err != nil {
		return
	}
	if answer != nil {
		if reply = answer(ask, reply); reply == nil {
			return
		}
	}
	to := peer
	if ask.ClientIPAddr.IsUnspecified() {
		to = &net.UDPAddr{IP: net.IPv4bcast, Port: dhcpv4.ClientPort}
	}
	_, _ = conn.WriteTo(reply.ToBytes(), to)
}

func (s *server) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (l *lab) await(what string, ok func() bool) {
	l.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			l.t.Fatalf("%s: not within 40 s", what)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-l.t.Context().Done():
			l.t.Fatal("the test ended")
		}
	}
}

// addrs are the IPv4 addresses on port0.
func (l *lab) addrs() string {
	port, err := netlink.LinkByName("port0")
	if err != nil {
		return ""
	}
	list, err := netlink.AddrList(port, netlink.FAMILY_V4)
	if err != nil {
		return ""
	}
	var out []string
	for _, a := range list {
		out = append(out, a.IPNet.String())
	}
	return strings.Join(out, " ")
}

func (l *lab) defaultRoute() string {
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Protocol: routeDHCP}, netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, r := range routes {
		to := "default"
		if r.Dst != nil && r.Dst.IP != nil && !r.Dst.IP.IsUnspecified() {
			to = r.Dst.String()
		}
		out = append(out, to+" via "+r.Gw.String())
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func (l *lab) resolv() string {
	b, _ := os.ReadFile(l.net.Resolv)
	return string(b)
}

// The whole way: the cable comes after the box has started, the server later
// still; then the lease holds over a pulled cable and is asked for again.
func TestLease(t *testing.T) {
	l := newLab(t)
	l.box()
	l.await("an empty resolv.conf", func() bool { _, err := os.Stat(l.net.Resolv); return err == nil })
	l.cable()
	l.await("the carrier", func() bool { return strings.Contains(strings.Join(l.ring.Last(100), "\n"), "port0 has a carrier") })
	s := &server{}
	l.serve(s)
	l.await("the address", func() bool { return l.addrs() == "203.0.113.77/24" })
	l.await("the route", func() bool { return l.defaultRoute() == "default via 203.0.113.1" })
	l.await("the name servers", func() bool { return l.resolv() == "nameserver 203.0.113.53\nnameserver 203.0.113.54\n" })
	l.await("the time servers", func() bool {
		return slices.Equal(l.net.TimeServers(), []netip.Addr{netip.MustParseAddr("203.0.113.123")})
	})
	l.await("the address told", func() bool { return slices.Contains(l.net.Addresses(), netip.MustParseAddr("203.0.113.77")) })
	s.mu.Lock()
	host := s.hosts[len(s.hosts)-1]
	s.mu.Unlock()
	if host != "gurtos-test" {
		t.Errorf("the server was told the host name %q", host)
	}

	l.plug(false)
	l.await("the loss", func() bool { return strings.Contains(strings.Join(l.ring.Last(100), "\n"), "lost its carrier") })
	if l.addrs() != "203.0.113.77/24" {
		t.Errorf("with the cable out the port has %q", l.addrs())
	}
	l.plug(true)
	l.await("the lease asked for again", func() bool { return slices.Contains(s.seen(), "REBOOT") })

	// Another network: the server there refuses the old address.
	l.plug(false)
	l.await("the second loss", func() bool { return strings.Count(strings.Join(l.ring.Last(100), "\n"), "lost its carrier") == 2 })
	s.mu.Lock()
	s.answer = func(ask, reply *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
		if ask.MessageType() == dhcpv4.MessageTypeRequest && ask.ServerIdentifier() == nil {
			reply.UpdateOption(dhcpv4.OptMessageType(dhcpv4.MessageTypeNak))
			reply.YourIPAddr = net.IPv4zero
		} else {
			reply.YourIPAddr = net.IPv4(203, 0, 113, 99)
		}
		return reply
	}
	s.mu.Unlock()
	l.plug(true)
	l.await("the new address alone", func() bool { return l.addrs() == "203.0.113.99/24" })

	// The port is taken away with all that came by it.
	port, err := netlink.LinkByName("port0")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkDel(port); err != nil {
		t.Fatal(err)
	}
	l.await("name servers gone", func() bool { return l.resolv() == "" })
	l.await("no address told", func() bool { return len(l.net.Addresses()) == 0 })
}

// client gets a client of its own on a port that has a server.
func (l *lab) client(s *server) *client {
	l.t.Helper()
	l.cable()
	port, err := netlink.LinkByName("port0")
	if err != nil {
		l.t.Fatal(err)
	}
	if err := netlink.LinkSetUp(port); err != nil {
		l.t.Fatal(err)
	}
	l.await("the carrier", func() bool {
		p, err := netlink.LinkByName("port0")
		return err == nil && p.Attrs().RawFlags&unix.IFF_LOWER_UP != 0
	})
	l.serve(s)
	logger := log.New(l.ring.Writer("net"), "", 0)
	n := &Network{Log: logger, Resolv: filepath.Join(l.t.TempDir(), "resolv.conf"), learned: map[int]learned{}}
	l.net = n
	return &client{network: n, index: port.Attrs().Index, name: "port0", log: logger}
}

// A lease is renewed with its server, then with any, and dropped when a server
// refuses it.
func TestRenewal(t *testing.T) {
	l := newLab(t)
	s := &server{}
	c := l.client(s)
	if err := c.acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l.addrs() != "203.0.113.77/24" {
		t.Fatalf("address %q", l.addrs())
	}
	ends := c.lease.expires

	// T1 has come.
	ctx, cancel := context.WithCancel(t.Context())
	c.lease.renew = time.Now()
	done := make(chan struct{})
	go func() { defer close(done); c.hold(ctx) }()
	l.await("a renewal", func() bool { return slices.Contains(s.seen(), "RENEW") })
	l.await("its end", func() bool {
		l.net.mu.Lock()
		defer l.net.mu.Unlock()
		return len(l.net.learned[c.index].dns) == 2
	})
	cancel()
	<-done
	if !c.lease.expires.After(ends) {
		t.Errorf("the lease ends at %v, before %v", c.lease.expires, ends)
	}

	// T2 has come, and the server has forgotten us.
	s.mu.Lock()
	s.asked = nil
	s.answer = func(ask, reply *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
		reply.UpdateOption(dhcpv4.OptMessageType(dhcpv4.MessageTypeNak))
		return reply
	}
	s.mu.Unlock()
	c.lease.renew, c.lease.rebind = time.Now(), time.Now()
	c.hold(t.Context())
	if c.lease != nil || l.addrs() != "" {
		t.Errorf("after the refusal the port has %q", l.addrs())
	}
	if got := s.seen(); !slices.Equal(got, []string{"RENEW"}) {
		t.Errorf("asked %v, want one request for the lease", got)
	}
	if l.resolv() != "" {
		t.Errorf("resolv.conf still has %q", l.resolv())
	}
}

// A server that gives no identifier (RFC 2131 wants one) can't be asked alone:
// whoever hears it is.
func TestRenewalWithoutAnIdentifier(t *testing.T) {
	l := newLab(t)
	s := &server{answer: func(_, reply *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
		reply.Options.Del(dhcpv4.OptionServerIdentifier)
		return reply
	}}
	c := l.client(s)
	if err := c.acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c.lease.renew = time.Now()
	done := make(chan struct{})
	go func() { defer close(done); c.hold(ctx) }()
	l.await("a renewal", func() bool { return slices.Contains(s.seen(), "RENEW") })
	cancel()
	<-done
	if c.lease == nil || l.addrs() != "203.0.113.77/24" {
		t.Errorf("the port has %q", l.addrs())
	}
}

// A lease that nobody renews ends.
func TestLeaseEnds(t *testing.T) {
	l := newLab(t)
	s := &server{}
	c := l.client(s)
	if err := c.acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.answer = func(_, _ *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 { return nil }
	s.mu.Unlock()
	now := time.Now()
	c.lease.renew, c.lease.rebind, c.lease.expires = now, now, now.Add(2*time.Second)
	c.hold(t.Context())
	if c.lease != nil || l.addrs() != "" {
		t.Errorf("the port still has %q", l.addrs())
	}
}

// Classless routes (RFC 3442) take the place of the router, and a router may lie
// outside the subnet.
func TestRoutes(t *testing.T) {
	l := newLab(t)
	s := &server{answer: func(_, reply *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
		reply.UpdateOption(dhcpv4.OptClasslessStaticRoute(
			&dhcpv4.Route{Dest: &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}, Router: net.IPv4(198, 51, 100, 1)},
			&dhcpv4.Route{Dest: &net.IPNet{IP: net.IPv4(192, 0, 2, 0).To4(), Mask: net.CIDRMask(24, 32)}, Router: net.IPv4(203, 0, 113, 9)},
		))
		return reply
	}}
	c := l.client(s)
	if err := c.acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := l.defaultRoute(); got != "192.0.2.0/24 via 203.0.113.9, default via 198.51.100.1" {
		t.Errorf("routes: %s", got)
	}
}

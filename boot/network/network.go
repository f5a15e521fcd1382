package network

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"gurtos/boot/guard"
)

// A Network is all wired ports.
type Network struct {
	Log      *log.Logger
	Resolv   string                  // file that the name servers are written to
	HostName func() string           // said to the DHCP server; may change
	Wired    func(netlink.Link) bool // nil: ports with a device behind them that is no radio
	Changed  func()                  // called after addresses or servers changed; may be nil

	mu       sync.Mutex
	learned  map[int]learned // by link index
	ports    map[int]*port
	addrs    []netip.Addr
	resolved string // what resolv.conf holds
}

// learned is what a port's networks told.
type learned struct {
	dns    []netip.Addr // of the lease
	dns6   []netip.Addr // of router advertisements
	ntp    []netip.Addr
	search string
}

// A port is one wired link.
type port struct {
	index  int
	name   string
	cancel context.CancelFunc // of its client; nil without a carrier
	done   chan struct{}
	last   *lease // the client's, kept over the loss of the carrier
}

// Run serves the ports until ctx ends.
func (n *Network) Run(ctx context.Context) error {
	n.mu.Lock()
	n.learned, n.ports = map[int]learned{}, map[int]*port{}
	if n.Wired == nil {
		n.Wired = wired
	}
	n.mu.Unlock()
	n.writeResolv()
	if lo, err := netlink.LinkByName("lo"); err == nil {
		if err := netlink.LinkSetUp(lo); err != nil {
			n.Log.Printf("lo: %v", err)
		}
	}

	links := make(chan netlink.LinkUpdate, 64)
	addrs := make(chan netlink.AddrUpdate, 64)
	fault := func(err error) {
		if ctx.Err() == nil {
			n.Log.Printf("netlink: %v", err)
		}
	}
	// The sockets end with ctx; their channels are closed then.
	if err := netlink.LinkSubscribeWithOptions(links, ctx.Done(), netlink.LinkSubscribeOptions{ErrorCallback: fault, ListExisting: true, ReceiveBufferSize: 1 << 20}); err != nil {
		return fmt.Errorf("listen for network ports: %w", err)
	}
	if err := netlink.AddrSubscribeWithOptions(addrs, ctx.Done(), netlink.AddrSubscribeOptions{ErrorCallback: fault, ReceiveBufferSize: 1 << 20}); err != nil {
		return fmt.Errorf("listen for addresses: %w", err)
	}
	if err := n.listenRDNSS(ctx); err != nil {
		n.Log.Print(err) // IPv4's name servers are left
	}
	defer n.stopAll()
	for {
		select {
		case u, ok := <-links:
			if !ok {
				return n.closed(ctx)
			}
			n.link(ctx, u)
		case _, ok := <-addrs:
			if !ok {
				return n.closed(ctx)
			}
			n.readAddrs()
		case <-ctx.Done():
			return nil
		}
	}
}

func (n *Network) closed(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	return errors.New("the kernel closed the netlink socket")
}

func (n *Network) stopAll() {
	for _, p := range n.ports {
		n.stop(p)
	}
}

// link takes one change of a link.
func (n *Network) link(ctx context.Context, u netlink.LinkUpdate) {
	attrs := u.Link.Attrs()
	p := n.ports[attrs.Index]
	if u.Header.Type == unix.RTM_DELLINK {
		if p != nil {
			n.Log.Printf("%s is gone", p.name)
			n.stop(p)
			delete(n.ports, p.index)
			n.forget(p.index)
		}
		return
	}
	if p == nil {
		if !n.Wired(u.Link) {
			return
		}
		p = &port{index: attrs.Index, name: attrs.Name}
		n.ports[p.index] = p
		n.prepare(u.Link)
	}
	p.name = attrs.Name
	switch carrier := attrs.RawFlags&unix.IFF_LOWER_UP != 0 && attrs.RawFlags&unix.IFF_UP != 0; {
	case carrier && p.cancel == nil:
		n.Log.Printf("%s has a carrier", p.name)
		n.start(ctx, p)
	case !carrier && p.cancel != nil:
		n.Log.Printf("%s has lost its carrier", p.name)
		n.stop(p)
	}
}

// prepare sets a new port's IPv6 and switches it on.
func (n *Network) prepare(l netlink.Link) {
	name := l.Attrs().Name
	for file, value := range map[string]string{"accept_ra": "1", "autoconf": "1", "accept_redirects": "0", "use_tempaddr": "0"} {
		path := filepath.Join("/proc/sys/net/ipv6/conf", name, file)
		if err := os.WriteFile(path, []byte(value), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			n.Log.Printf("%s: %v", name, err)
		}
	}
	if err := netlink.LinkSetUp(l); err != nil {
		n.Log.Printf("switch %s on: %v", name, err)
	}
}

func (n *Network) start(ctx context.Context, p *port) {
	ctx, cancel := context.WithCancel(ctx)
	p.cancel, p.done = cancel, make(chan struct{})
	c := &client{network: n, index: p.index, name: p.name, lease: p.last, log: n.Log}
	guard.Go("keeping the lease of "+p.name, func() {
		defer close(p.done)
		c.run(ctx)
		p.last = c.lease // read after done by whoever starts the next
	})
}

func (n *Network) stop(p *port) {
	if p.cancel == nil {
		return
	}
	p.cancel()
	<-p.done
	p.cancel = nil
}

// wired says whether a link is an Ethernet port with hardware behind it.
func wired(l netlink.Link) bool {
	dir := filepath.Join("/sys/class/net", l.Attrs().Name)
	if l.Type() != "device" || l.Attrs().EncapType != "ether" {
		return false
	}
	if _, err := os.Stat(filepath.Join(dir, "device")); err != nil {
		return false
	}
	for _, radio := range []string{"wireless", "phy80211"} {
		if _, err := os.Stat(filepath.Join(dir, radio)); err == nil {
			return false
		}
	}
	return true
}

// learn replaces what a port's lease told.
func (n *Network) learn(index int, change func(*learned)) {
	n.mu.Lock()
	l := n.learned[index]
	change(&l)
	n.learned[index] = l
	n.mu.Unlock()
	n.writeResolv()
	n.changed()
}

func (n *Network) forget(index int) {
	n.mu.Lock()
	delete(n.learned, index)
	n.mu.Unlock()
	n.writeResolv()
	n.changed()
}

func (n *Network) changed() {
	if n.Changed != nil {
		n.Changed()
	}
}

// collect joins a list of all ports, in the order of their indexes, without
// what stands twice.
func (n *Network) collect(of func(learned) []netip.Addr) []netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	var indexes []int
	for i := range n.learned {
		indexes = append(indexes, i)
	}
	slices.Sort(indexes)
	var out []netip.Addr
	for _, i := range indexes {
		for _, a := range of(n.learned[i]) {
			if !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out
}

// TimeServers are those that DHCP named.
func (n *Network) TimeServers() []netip.Addr {
	return n.collect(func(l learned) []netip.Addr { return l.ntp })
}

// Addresses are the ports' own, as far as others can reach them.
func (n *Network) Addresses() []netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.addrs)
}

// maxServers is how many name servers a resolver looks at (MAXNS of glibc).
const maxServers = 3

func (n *Network) writeResolv() {
	servers := n.collect(func(l learned) []netip.Addr { return l.dns })
	for _, a := range n.collect(func(l learned) []netip.Addr { return l.dns6 }) {
		if !slices.Contains(servers, a) {
			servers = append(servers, a)
		}
	}
	var b strings.Builder
	for _, a := range servers[:min(len(servers), maxServers)] {
		fmt.Fprintf(&b, "nameserver %s\n", a)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.Resolv == "" || b.String() == n.resolved && n.resolved != "" {
		return
	}
	n.resolved = b.String()
	if err := os.WriteFile(n.Resolv+".new", []byte(n.resolved), 0o644); err != nil {
		n.Log.Printf("write the name servers: %v", err)
		return
	}
	if err := os.Rename(n.Resolv+".new", n.Resolv); err != nil {
		n.Log.Printf("write the name servers: %v", err)
	}
}

// readAddrs reads the ports' addresses anew.
func (n *Network) readAddrs() {
	var list []netip.Addr
	for _, p := range n.ports {
		link, err := netlink.LinkByIndex(p.index)
		if err != nil {
			continue
		}
		addrs, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		if err != nil {
			continue
		}
		for _, a := range addrs {
			ip, ok := netip.AddrFromSlice(a.IP)
			if ip = ip.Unmap(); ok && ip.IsGlobalUnicast() && a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED|unix.IFA_F_DEPRECATED) == 0 {
				list = append(list, ip)
			}
		}
	}
	// IPv4 first: it is what people type.
	slices.SortFunc(list, func(a, b netip.Addr) int {
		if a.Is4() != b.Is4() {
			if a.Is4() {
				return -1
			}
			return 1
		}
		return a.Compare(b)
	})
	n.mu.Lock()
	same := slices.Equal(list, n.addrs)
	n.addrs = list
	n.mu.Unlock()
	if !same {
		n.Log.Printf("addresses: %v", list)
		n.changed()
	}
}

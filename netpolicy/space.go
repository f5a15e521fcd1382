package netpolicy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"

	"github.com/mdlayher/netlink"
	vnl "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// bare is a namespace with its fence up and its listeners open, not yet given to
// anyone. Made ahead of need, since making one takes milliseconds.
type bare struct {
	ns     *os.File
	relay  []net.Listener // TCP that was redirected, v4 and v6
	proxy  []net.Listener
	nameTC []net.Listener
	nameUD []net.PacketConn
	nflog  *netlink.Conn
	queue  *netlink.Conn // of first packets; nil where the kernel has none

	ctx context.Context // ends as the sockets are closed: netlink says that of its own in no way that errors.Is knows
	end context.CancelFunc
}

// newBare makes a namespace on a thread of its own, which ends with it; the
// sockets opened there stay in the namespace.
func newBare(by queueing) (*bare, error) {
	type made struct {
		b   *bare
		err error
	}
	ch := make(chan made)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread is thrown away with its namespace
		b := &bare{}
		b.ctx, b.end = context.WithCancel(context.Background())
		err := b.make(by)
		if err != nil {
			b.close()
			b = nil
		}
		ch <- made{b, err}
	}()
	m := <-ch
	return m.b, m.err
}

func (b *bare) make(by queueing) (err error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make a network namespace: %w", err)
	}
	if b.ns, err = os.Open("/proc/thread-self/ns/net"); err != nil {
		return fmt.Errorf("open the new network namespace: %w", err)
	}
	if err := allLocal(); err != nil {
		return err
	}
	if b.queue, err = raise(by); err != nil {
		return err
	}
	return b.listen()
}

// allLocal brings the loopback up and makes every address a local one.
func allLocal() error {
	h, err := vnl.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open route netlink: %w", err)
	}
	defer h.Close()
	lo, err := h.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find the loopback: %w", err)
	}
	if err := h.LinkSetUp(lo); err != nil {
		return fmt.Errorf("bring the loopback up: %w", err)
	}
	for _, all := range []net.IPNet{{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}, {IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}} {
		r := vnl.Route{LinkIndex: lo.Attrs().Index, Dst: &all, Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: unix.RT_SCOPE_HOST}
		if err := h.RouteAdd(&r); err != nil {
			return fmt.Errorf("make %s local: %w", all.String(), err)
		}
	}
	// As container engines do: a development server may take port 80 in a
	// namespace that is its own. Port 53 is redirected before anyone hears it.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0); err != nil && !errors.Is(err, os.ErrPermission) && !errors.Is(err, unix.EROFS) {
		return fmt.Errorf("open low ports in the namespace: %w", err)
	}
	return nil
}

func (b *bare) listen() error {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // an MPTCP socket can't be spliced and has no SO_ORIGINAL_DST
	ctx := context.Background()
	for _, host := range []string{"127.0.0.1", "[::1]"} {
		for _, l := range []struct {
			port int
			to   *[]net.Listener
		}{{relayPort, &b.relay}, {proxyPort, &b.proxy}, {namePort, &b.nameTC}} {
			ln, err := lc.Listen(ctx, "tcp", fmt.Sprintf("%s:%d", host, l.port))
			if err != nil {
				return fmt.Errorf("listen in the namespace: %w", err)
			}
			*l.to = append(*l.to, ln)
		}
		pc, err := lc.ListenPacket(ctx, "udp", fmt.Sprintf("%s:%d", host, namePort))
		if err != nil {
			return fmt.Errorf("listen for names in the namespace: %w", err)
		}
		b.nameUD = append(b.nameUD, pc)
	}
	var err error
	b.nflog, err = openLog()
	return err
}

// close gives everything back. Closing twice is harmless.
func (b *bare) close() error {
	b.end()
	var errs []error
	for _, l := range [][]net.Listener{b.relay, b.proxy, b.nameTC} {
		for _, ln := range l {
			errs = append(errs, ignoreClosed(ln.Close()))
		}
	}
	for _, pc := range b.nameUD {
		errs = append(errs, ignoreClosed(pc.Close()))
	}
	for _, c := range []*netlink.Conn{b.nflog, b.queue} {
		if c != nil {
			errs = append(errs, ignoreClosed(c.Close()))
		}
	}
	if b.ns != nil {
		errs = append(errs, ignoreClosed(b.ns.Close()))
	}
	return errors.Join(errs...)
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// originalDst is where a redirected connection was meant to go. A connection that
// was made to the listener itself has its own address.
func originalDst(c *net.TCPConn) (netip.AddrPort, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("reach the connection's socket: %w", err)
	}
	v4 := c.LocalAddr().(*net.TCPAddr).IP.To4() != nil
	var dst netip.AddrPort
	var serr error
	err = raw.Control(func(fd uintptr) {
		if v4 {
			// struct sockaddr_in has the 16 bytes of an IPv6Mreq's first field (linux/netfilter_ipv4.h).
			var m *unix.IPv6Mreq
			if m, serr = unix.GetsockoptIPv6Mreq(int(fd), unix.IPPROTO_IP, unix.SO_ORIGINAL_DST); serr == nil {
				b := m.Multiaddr
				dst = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), uint16(b[2])<<8|uint16(b[3]))
			}
			return
		}
		// IP6T_SO_ORIGINAL_DST (80) gives a struct sockaddr_in6, which begins an IPv6MTUInfo.
		var m *unix.IPv6MTUInfo
		if m, serr = unix.GetsockoptIPv6MTUInfo(int(fd), unix.IPPROTO_IPV6, unix.SO_ORIGINAL_DST); serr == nil {
			p := m.Addr.Port // network order, read as native
			dst = netip.AddrPortFrom(netip.AddrFrom16(m.Addr.Addr), p<<8|p>>8)
		}
	})
	if err = errors.Join(err, serr); err != nil {
		return netip.AddrPort{}, fmt.Errorf("ask for the original destination: %w", err)
	}
	return dst, nil
}

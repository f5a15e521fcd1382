package netpolicy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	vnl "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"gurtos/netpolicy/rules"
)

// dialTimeout bounds a connection that is half open (specification 6, Limits).
const dialTimeout = 30 * time.Second

// Refused is why a connection was not made although a rule names its host. Its
// text is a sentence's end that a person can read.
type Refused struct{ Why string }

func (r *Refused) Error() string { return r.Why }

// errNoName is the answer of a name server that knows no such name.
var errNoName = errors.New("the name does not exist")

// dialer connects from the box to the outside. It resolves by itself and checks
// the address it really dials, each time, so that a name that changes its address
// gains nothing.
type dialer struct {
	resolver *net.Resolver
	own      func(netip.Addr) (bool, error) // whether an address is the box itself
	half     time.Duration                  // that a connection may be half open
}

// newDialer uses the machine's /etc/resolv.conf, by Go's own resolver: never a
// library that could ask elsewhere.
func newDialer() *dialer {
	return &dialer{resolver: &net.Resolver{PreferGo: true}, own: isOwn, half: dialTimeout}
}

// dial connects to a port of a name, or of an address literal, with addresses of
// both families tried as RFC 8305 says. exact is whether the rule names this host
// and port, which alone opens a private network.
func (d *dialer) dial(ctx context.Context, host string, port uint16, exact bool) (*net.TCPConn, error) {
	nd := net.Dialer{Timeout: d.half, Resolver: d.resolver, KeepAlive: 30 * time.Second}
	nd.SetMultipathTCP(false) // a plain socket is what the kernel splices
	nd.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		a, err := netip.ParseAddrPort(address)
		if err != nil {
			return &Refused{fmt.Sprintf("%s is no address", address)}
		}
		return d.check(a.Addr(), exact)
	}
	c, err := nd.DialContext(ctx, "tcp", net.JoinHostPort(absolute(host), fmt.Sprint(port)))
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// check says whether an address may be dialled.
func (d *dialer) check(a netip.Addr, exact bool) error {
	dialled := a.WithZone("")
	a = rules.Embedded(dialled)
	switch c := rules.Classify(a); {
	case c == rules.Private && !exact:
		return &Refused{fmt.Sprintf("it leads to %s, %s, which needs a rule with that exact host and port", a, c)}
	case c != rules.Public && c != rules.Private:
		return &Refused{fmt.Sprintf("it leads to %s, %s", a, c)}
	}
	own, err := d.own(dialled)
	if err == nil && !own && a != dialled { // a gateway of the box's own network would lead there
		own, err = d.own(a)
	}
	if err != nil {
		return fmt.Errorf("ask whether %s is the box itself: %w", dialled, err)
	}
	if own {
		return &Refused{fmt.Sprintf("it leads to %s, the box itself", dialled)}
	}
	return nil
}

// exists says whether a name has any address. Its verdict on the addresses is
// left to the dialler.
func (d *dialer) exists(ctx context.Context, name string) error {
	_, err := d.resolver.LookupNetIP(ctx, "ip", absolute(name))
	var de *net.DNSError
	if errors.As(err, &de) && de.IsNotFound {
		return errNoName
	}
	return err
}

// absolute keeps the resolver from trying its search domains on a full name: a
// rule for example.com never means example.com.lan. A single label, such as a
// printer's, has no other way to be found.
func absolute(host string) string {
	if _, err := netip.ParseAddr(host); err == nil || !strings.Contains(host, ".") {
		return host
	}
	return host + "."
}

// routes is one socket for all who ask, which takes half the time of one each.
var routes routingTable

// askTimeout ends a question that the kernel doesn't answer: it does at once, or is out of memory.
const askTimeout = 5 * time.Second

// routingTable asks the kernel's. Its socket is made when it is asked for, anew after one that failed.
type routingTable struct {
	mu   sync.Mutex
	open func() (*vnl.Handle, error) // nil: openTable
	h    *vnl.Handle
}

func openTable() (*vnl.Handle, error) {
	h, err := vnl.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	if err := h.SetSocketTimeout(askTimeout); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// get answers how the kernel would reach an address; none when there is no way.
func (t *routingTable) get(a netip.Addr) ([]vnl.Route, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.h == nil {
		open := t.open
		if open == nil {
			open = openTable
		}
		h, err := open()
		if err != nil {
			return nil, err
		}
		t.h = h
	}
	ways, err := t.h.RouteGet(a.AsSlice())
	switch {
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EACCES):
		return nil, nil
	case err != nil:
		t.h.Close() // an answer that comes late would be taken for the next one's
		t.h = nil
		return nil, err
	}
	return ways, nil
}

// isOwn asks whether an address is one of the box itself, at this moment: addresses come and go with leases, and whole networks can be local. What there is
// no way to is for the dialler to say.
func isOwn(a netip.Addr) (bool, error) {
	ways, err := routes.get(a)
	return slices.ContainsFunc(ways, func(r vnl.Route) bool { return r.Type == unix.RTN_LOCAL || r.Type == unix.RTN_ANYCAST }), err
}

package netpolicy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"

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
	own      func() ([]netip.Addr, error) // addresses of the box itself
}

// newDialer uses the machine's /etc/resolv.conf, by Go's own resolver: never a
// library that could ask elsewhere.
func newDialer() *dialer {
	return &dialer{resolver: &net.Resolver{PreferGo: true}, own: interfaceAddrs}
}

// dial connects to a port of a name, or of an address literal, with addresses of
// both families tried as RFC 8305 says. exact is whether the rule names this host
// and port, which alone opens a private network.
func (d *dialer) dial(ctx context.Context, host string, port uint16, exact bool) (*net.TCPConn, error) {
	nd := net.Dialer{Timeout: dialTimeout, Resolver: d.resolver, KeepAlive: 30 * time.Second}
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
	a = rules.Embedded(a.WithZone(""))
	switch c := rules.Classify(a); {
	case c == rules.Private && !exact:
		return &Refused{fmt.Sprintf("it leads to %s, %s, which needs a rule with that exact host and port", a, c)}
	case c != rules.Public && c != rules.Private:
		return &Refused{fmt.Sprintf("it leads to %s, %s", a, c)}
	}
	own, err := d.own()
	if err != nil {
		return fmt.Errorf("read the box's own addresses: %w", err)
	}
	for _, o := range own {
		if o == a {
			return &Refused{fmt.Sprintf("it leads to %s, the box itself", a)}
		}
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

// interfaceAddrs lists the box's addresses, read anew at most once a second since
// every connection asks.
var interfaceAddrs = func() func() ([]netip.Addr, error) {
	var mu sync.Mutex
	var at time.Time
	var last []netip.Addr
	return func() ([]netip.Addr, error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(at) < time.Second && last != nil {
			return last, nil
		}
		list, err := net.InterfaceAddrs()
		if err != nil {
			return nil, err
		}
		var out []netip.Addr
		for _, a := range list {
			if n, ok := a.(*net.IPNet); ok {
				if ip, ok := netip.AddrFromSlice(n.IP); ok {
					out = append(out, ip.Unmap())
				}
			}
		}
		at, last = time.Now(), out
		return out, nil
	}
}()

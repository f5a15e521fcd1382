package netpolicy

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"gurtos/test/netns"
)

// program is a test that acts inside a namespace.
type program struct {
	t testing.TB
	s *Space
}

// inside runs f on a thread in the namespace.
func (p program) inside(f func()) {
	p.t.Helper()
	if err := (netns.Namespace{File: p.s.bare.ns}).Do(func() error { f(); return nil }); err != nil {
		p.t.Fatal(err)
	}
}

// dial connects to an address from inside; ten seconds are all it has.
func (p program) dial(network, addr string) (c net.Conn, err error) {
	p.t.Helper()
	p.inside(func() { c, err = (&net.Dialer{Timeout: time.Minute}).Dial(network, addr) })
	if err == nil {
		c.SetDeadline(time.Now().Add(time.Minute)) //nolint:errcheck // fresh
		p.t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// ask puts a question to a name server.
func (p program) ask(network, server, name string, kind uint16) (*dns.Msg, error) {
	p.t.Helper()
	c, err := p.dial(network, server)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	q := new(dns.Msg)
	q.SetQuestion(dns.Fqdn(name), kind)
	q.SetEdns0(1232, false)
	co := &dns.Conn{Conn: c}
	if err := co.WriteMsg(q); err != nil {
		return nil, err
	}
	return co.ReadMsg()
}

// lookup asks the namespace's name server.
func (p program) lookup(name string, v6 bool) (netip.Addr, error) {
	p.t.Helper()
	kind := dns.TypeA
	if v6 {
		kind = dns.TypeAAAA
	}
	m, err := p.ask("udp", netip.AddrPortFrom(NameServer, 53).String(), name, kind)
	if err != nil {
		return netip.Addr{}, err
	}
	for _, rr := range m.Answer {
		var ip net.IP
		switch rr := rr.(type) {
		case *dns.A:
			ip = rr.A
		case *dns.AAAA:
			ip = rr.AAAA
		}
		if a, ok := netip.AddrFromSlice(ip); ok {
			return a.Unmap(), nil
		}
	}
	return netip.Addr{}, errors.New(dns.RcodeToString[m.Rcode])
}

// connect looks a name up and dials it.
func (p program) connect(name string, port uint16, v6 bool) (net.Conn, error) {
	p.t.Helper()
	a, err := p.lookup(name, v6)
	if err != nil {
		return nil, err
	}
	return p.dial("tcp", netip.AddrPortFrom(a, port).String())
}

// says writes pieces, one packet each, and gives what comes back until the end.
func says(c net.Conn, pieces ...string) (string, error) {
	for _, s := range pieces {
		if _, err := io.WriteString(c, s); err != nil {
			return "", err
		}
		if len(pieces) > 1 {
			// The other side has to see the pieces one by one.
			drained(c)
		}
	}
	b, err := io.ReadAll(c)
	return string(b), err
}

// drained waits until the peer's kernel has acknowledged all that was written, or has
// reset the connection: then it acknowledges nothing any more.
func drained(c net.Conn) {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return
	}
	eventually(func() bool {
		n := 0
		raw.Control(func(fd uintptr) { //nolint:errcheck // closed is drained
			const closed = 7 // TCP_CLOSE of linux/net/tcp_states.h
			if i, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil && i.State != closed {
				n, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
			}
		})
		return n == 0
	})
}

// proxied sends a head to the namespace's proxy and gives the answer's first line.
func (p program) proxied(head string) (string, error) {
	p.t.Helper()
	c, err := p.dial("tcp", fmt.Sprintf("127.0.0.1:%d", proxyPort))
	if err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, head); err != nil {
		return "", err
	}
	return bufio.NewReader(c).ReadString('\n')
}

// hello does a TLS handshake that names sni.
func (p program) hello(c net.Conn, cfg *tls.Config) error {
	return tls.Client(c, cfg).Handshake()
}

// theBox is the box's own API, on all of its addresses. The result tells whether it was
// reached since.
func theBox(t testing.TB) (reached func(t testing.TB)) {
	t.Helper()
	l, err := net.Listen("tcp", "[::]:7700")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	from := make(chan string, 100)
	go http.Serve(l, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { from <- r.RemoteAddr })) //nolint:errcheck,gosec // ends with its listener
	return func(t testing.TB) {
		t.Helper()
		select {
		case who := <-from:
			t.Errorf("the box was reached from %s", who)
		default:
		}
	}
}

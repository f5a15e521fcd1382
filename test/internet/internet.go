package internet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"gurtos/netpolicy/authority"
	"gurtos/test/netns"
)

// Main runs a package's tests in a network and a mount namespace of their own. Programs that a test starts are in them too.
func Main(m *testing.M) { netns.Main(m) }

// Addresses of the internet, from ranges that are kept for documentation (RFC 5737), and of the box's uplink to it.
const (
	boxAddr = "198.51.100.2"
	netAddr = "198.51.100.1"
)

// Addr is where hosts of the internet are, from 192.0.2.1 on.
func Addr(n int) string { return fmt.Sprintf("192.0.2.%d", n) }

// Net is the internet: a namespace at the other end of a veth, with a name server and an authority of its own.
type Net struct {
	CA *authority.Authority // signs for every name that Secure serves

	out netns.Namespace

	mu    sync.Mutex
	names map[string]string // guarded by mu; address by name
	asked []string          // guarded by mu; names that were asked for
}

var connected = sync.OnceValues(connect)

// Connect makes the internet, once for all tests of a package.
func Connect(t testing.TB) *Net {
	t.Helper()
	n, err := connected()
	if err != nil {
		t.Fatal("making an internet: ", err)
	}
	return n
}

func connect() (*Net, error) {
	n := &Net{names: map[string]string{}}
	var err error
	if n.out, err = netns.New(); err != nil {
		return nil, err
	}
	err = errors.Join(netns.Veth("up0", "net0", n.out), netns.Up("lo"), netns.Up("up0", boxAddr+"/24"), netns.Route("up0", "0.0.0.0/0"))
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "internet")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if n.CA, err = authority.Open(filepath.Join(dir, "ca")); err != nil {
		return nil, err
	}
	if err := netns.Trust(dir, n.CA.PEM(), netAddr); err != nil {
		return nil, err
	}
	return n, n.out.Do(func() error {
		if err := netns.Up("net0", netAddr+"/24", Addr(1)+"/24"); err != nil {
			return err
		}
		pc, err := net.ListenPacket("udp", netAddr+":53")
		if err != nil {
			return err
		}
		go (&dns.Server{PacketConn: pc, Handler: n}).ActivateAndServe() //nolint:errcheck // lives as long as the tests
		return nil
	})
}

// Name gives a name an address; "" makes its name server silent about it, as one that can't be reached is.
func (n *Net) Name(name, addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names[name] = addr
}

// Asked are the names that the name server was asked for.
func (n *Net) Asked() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.asked...)
}

// ServeDNS answers for the names.
func (n *Net) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	m := new(dns.Msg)
	m.SetReply(q)
	ask := q.Question[0]
	name := strings.ToLower(strings.TrimSuffix(ask.Name, "."))
	n.mu.Lock()
	addr, ok := n.names[name]
	n.asked = append(n.asked, name)
	n.mu.Unlock()
	switch {
	case !ok:
		m.Rcode = dns.RcodeNameError
	case addr == "":
		m.Rcode = dns.RcodeServerFailure
	case ask.Qtype == dns.TypeA:
		m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: ask.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}, A: net.ParseIP(addr)}}
	}
	w.WriteMsg(m) //nolint:errcheck // the client asks again
}

// Listen listens at an address of the internet, which it makes.
func (n *Net) Listen(t testing.TB, addr string) net.Listener {
	t.Helper()
	var l net.Listener
	err := n.out.Do(func() (err error) {
		host, _, err := net.SplitHostPort(addr)
		if err == nil {
			err = netns.Up("net0", host+"/24")
		}
		if err == nil {
			l, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", addr)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// Serve serves plain HTTP at an address until the test ends.
func (n *Net) Serve(t testing.TB, addr string, h http.Handler) {
	t.Helper()
	s := &http.Server{Handler: h} //nolint:gosec // only tests ask it
	l := n.Listen(t, addr)
	go s.Serve(l) //nolint:errcheck // until it is closed
	t.Cleanup(func() { s.Close() })
}

// Secure serves HTTPS at an address until the test ends, for every name, by the internet's authority.
func (n *Net) Secure(t testing.TB, addr string, h http.Handler) {
	t.Helper()
	s := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0), TLSConfig: &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) { return n.CA.Leaf(h.ServerName) }}} //nolint:gosec // only tests ask it
	l := n.Listen(t, addr)
	go s.ServeTLS(l, "", "") //nolint:errcheck // until it is closed
	t.Cleanup(func() { s.Close() })
}

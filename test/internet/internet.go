package internet

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/miekg/dns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"gurtos/netpolicy/authority"
)

// inside marks the process that is in the namespaces.
const inside = "GURTOS_TEST_INTERNET_OF"

// Main runs a package's tests in a network and a mount namespace of their own. Programs that a test starts are in them too.
func Main(m *testing.M) {
	if os.Getenv(inside) != "" {
		os.Exit(m.Run())
	}
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	c := exec.Command(self, os.Args[1:]...)
	c.Env = append(os.Environ(), inside+"=1")
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := c.Run(); err != nil {
		if c.ProcessState == nil {
			fmt.Fprintln(os.Stderr, "these tests make namespaces and need root:", err)
		}
		os.Exit(1)
	}
}

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

	out func(func() error) error // runs in its namespace

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
	var outside int // thread that is in the namespace
	work, made := make(chan func() error), make(chan error)
	go func() {
		runtime.LockOSThread() // and never back: the thread ends with the test
		outside = unix.Gettid()
		made <- unix.Unshare(unix.CLONE_NEWNET)
		for f := range work {
			made <- f()
		}
	}()
	if err := <-made; err != nil {
		return nil, fmt.Errorf("making a network namespace: %w", err)
	}
	var one sync.Mutex
	n.out = func(f func() error) error {
		one.Lock()
		defer one.Unlock()
		work <- f
		return <-made
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "up0"
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "net0", PeerNamespace: netlink.NsPid(outside)}); err != nil {
		return nil, fmt.Errorf("veth: %w", err)
	}
	if err := up("lo"); err != nil {
		return nil, err
	}
	if err := up("up0", boxAddr+"/24"); err != nil {
		return nil, err
	}
	uplink, err := netlink.LinkByName("up0")
	if err != nil {
		return nil, err
	}
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: uplink.Attrs().Index, Dst: &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}}); err != nil {
		return nil, fmt.Errorf("route: %w", err)
	}
	dir, err := os.MkdirTemp("", "internet")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if n.CA, err = authority.Open(filepath.Join(dir, "ca")); err != nil {
		return nil, err
	}
	if err := trusted(dir, n.CA.PEM()); err != nil {
		return nil, err
	}
	return n, n.out(func() error {
		if err := up("net0", netAddr+"/24", Addr(1)+"/24"); err != nil {
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

// trusted has programs of this mount namespace ask the internet's name server and trust its authority besides the machine's.
func trusted(dir string, ca []byte) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	const bundle = "/etc/ssl/certs/ca-certificates.crt"
	own, err := os.ReadFile(bundle)
	if err != nil {
		return err
	}
	for at, text := range map[string]string{"/etc/resolv.conf": "nameserver " + netAddr + "\n", bundle: string(own) + string(ca)} {
		f := filepath.Join(dir, filepath.Base(at))
		if err := os.WriteFile(f, []byte(text), 0o644); err != nil { //nolint:gosec // all may read both
			return err
		}
		if at, err = filepath.EvalSymlinks(at); err != nil {
			return err
		}
		if err := unix.Mount(f, at, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

func up(name string, addrs ...string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	for _, a := range addrs {
		addr, err := netlink.ParseAddr(a)
		if err != nil {
			return err
		}
		if err := netlink.AddrReplace(l, addr); err != nil {
			return fmt.Errorf("address %s: %w", a, err)
		}
	}
	return netlink.LinkSetUp(l)
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
	err := n.out(func() (err error) {
		host, _, err := net.SplitHostPort(addr)
		if err == nil {
			err = up("net0", host+"/24")
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

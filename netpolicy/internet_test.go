package netpolicy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	vnl "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"gurtos/netpolicy/authority"
	"gurtos/test/internet/shops"
	"gurtos/test/netns"
)

// The tests run in a network and mount namespace of their own, in which a veth
// leads to an internet that the test makes: hosts with public addresses, their own
// name server, and a record of all that reached them. Nothing leaves the machine.
func TestMain(m *testing.M) {
	if target := os.Getenv(grpcClient); target != "" {
		if err := runGRPC(target); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	netns.Main(m)
}

// internet is the outside: a namespace at the other end of a veth.
type internet struct {
	t    testing.TB
	do   func(func()) // runs in its namespace
	mu   sync.Mutex
	zone map[string][]net.IP // names that exist
	also map[string]string   // names that stand for others
	seen []string            // "packet PROTO ADDR:PORT", "dns NAME", "http HOST PATH", "tls NAME"
	raw  strings.Builder     // all bytes that came over TCP
	pool *x509.CertPool      // its one authority
	cert *authority.Authority
}

// Addresses of the test's internet. The box has boxAddr on its uplink.
const (
	boxAddr  = "198.51.100.2"
	netAddr  = "198.51.100.1"
	webAddr  = "192.0.2.34"
	webAddr6 = "2001:db8:1::34"
	lanAddr  = "10.9.9.9"
	metaAddr = "169.254.169.254"
)

var theInternet = sync.OnceValues(func() (*internet, error) { return connect() })

// outside gives the test the internet, emptied of what others asked.
func outside(t testing.TB) *internet {
	i, err := theInternet()
	if err != nil {
		t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.t, i.seen, i.zone, i.also = t, nil, map[string][]net.IP{}, map[string]string{}
	i.raw.Reset()
	return i
}

// bytes are all that came over TCP.
func (i *internet) bytes() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.raw.String()
}

// settled waits until all packets sent so far are recorded: one sent last has been.
func (i *internet) settled(t testing.TB) {
	t.Helper()
	c, err := net.Dial("udp", netAddr+":9")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	mark := "packet udp " + c.LocalAddr().String() + " to " + netAddr + ":9"
	if _, err := c.Write([]byte("mark")); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool {
		i.mu.Lock()
		defer i.mu.Unlock()
		at := slices.Index(i.seen, mark)
		if at >= 0 {
			i.seen = slices.Delete(i.seen, at, at+1)
		}
		return at >= 0
	}) {
		t.Fatal("the internet's record stands still")
	}
}

// listenRaw gives a listener in the internet whose connections' bytes are recorded.
// The caller closes it.
func (i *internet) listenRaw(addr string) (ln net.Listener, err error) {
	i.do(func() { ln, err = net.Listen("tcp", addr) })
	return recorded{ln, i}, err
}

type recorded struct {
	net.Listener
	i *internet
}

func (r recorded) Accept() (net.Conn, error) {
	c, err := r.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &recordedConn{c.(*net.TCPConn), r.i}, nil
}

type recordedConn struct {
	*net.TCPConn
	i *internet
}

func (c *recordedConn) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	c.i.mu.Lock()
	defer c.i.mu.Unlock()
	c.i.raw.Write(b[:n])
	return n, err
}

// capture records every packet that comes over the uplink, but for the neighbour
// discovery of the link itself. What it sees is the proof.
func (i *internet) capture() error {
	const every = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, every)
	if err != nil {
		return err
	}
	l, err := net.InterfaceByName("net0")
	if err != nil {
		return err
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: every, Ifindex: l.Index}); err != nil {
		return err
	}
	go func() {
		b := make([]byte, 1<<16)
		for {
			n, from, err := unix.Recvfrom(fd, b, 0)
			if err != nil {
				return
			}
			if ll, ok := from.(*unix.SockaddrLinklayer); ok && ll.Pkttype != unix.PACKET_OUTGOING {
				i.packet(b[:n])
			}
		}
	}()
	return nil
}

func (i *internet) packet(p []byte) {
	dst, proto, ok := destination(p)
	if !ok {
		return // ARP and neighbour discovery
	}
	rest, src := p[min(40, len(p)):], netip.AddrFrom16([16]byte(p[8:24]))
	if p[0]>>4 == 4 {
		rest, src = p[int(p[0]&15)*4:], netip.AddrFrom4([4]byte(p[12:16]))
	}
	name := map[byte]string{unix.IPPROTO_TCP: "tcp", unix.IPPROTO_UDP: "udp", unix.IPPROTO_ICMP: "icmp", unix.IPPROTO_ICMPV6: "icmp6"}[proto]
	line := fmt.Sprintf("packet %s %s", name, dst)
	if dst.Port() == 9 && len(rest) >= 2 {
		line = fmt.Sprintf("packet %s %s to %s", name, netip.AddrPortFrom(src, binary.BigEndian.Uint16(rest)), dst)
	}
	if name == "icmp6" && (dst.Addr().IsLinkLocalUnicast() || rest[0] >= 133 && rest[0] <= 136) {
		return // neighbour discovery
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if !slices.Contains(i.seen, line) {
		i.seen = append(i.seen, line)
	}
}

func (i *internet) note(format string, a ...any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.seen = append(i.seen, fmt.Sprintf(format, a...))
}

// record is what reached the internet.
func (i *internet) record() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]string(nil), i.seen...)
}

func connect() (*internet, error) {
	i := &internet{zone: map[string][]net.IP{}}
	ns, err := netns.New()
	if err != nil {
		return nil, err
	}
	i.do = func(f func()) {
		if err := ns.Do(func() error { f(); return nil }); err != nil {
			panic(err) // its file is open
		}
	}
	err = errors.Join(netns.Veth("up0", "net0", ns), netns.Up("lo"), netns.Up("up0", boxAddr+"/24", "2001:db8::2/64", "10.9.9.1/24"), netns.Route("up0", "0.0.0.0/0", "::/0"),
		ns.Do(func() error {
			return netns.Up("net0", netAddr+"/24", webAddr+"/24", lanAddr+"/24", "2001:db8::1/64", webAddr6+"/64", metaAddr+"/32")
		}))
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "internet")
	if err != nil {
		return nil, err
	}
	if i.cert, err = authority.Open(dir); err != nil {
		return nil, err
	}
	if err := netns.Trust(dir, i.cert.PEM(), netAddr); err != nil { // what has no environment looks there for whom it trusts
		return nil, err
	}
	return i, i.listen()
}

// addr gives the internet one more address, as long as the test runs.
func (i *internet) addr(t testing.TB, addr string) {
	change := func(how func(vnl.Link, *vnl.Addr) error) {
		i.do(func() {
			l, err := vnl.LinkByName("net0")
			if err != nil {
				t.Error(err)
				return
			}
			a, err := vnl.ParseAddr(addr + "/32")
			if err == nil {
				err = how(l, a)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	change(vnl.AddrReplace)
	t.Cleanup(func() { change(vnl.AddrDel) })
}

func (i *internet) listen() error {
	var err error
	i.pool = x509.NewCertPool()
	i.pool.AppendCertsFromPEM(i.cert.PEM())
	i.do(func() {
		if err = i.capture(); err != nil {
			return
		}
		var pc net.PacketConn
		if pc, err = net.ListenPacket("udp", netAddr+":53"); err != nil {
			return
		}
		go (&dns.Server{PacketConn: pc, Handler: i}).ActivateAndServe() //nolint:errcheck // lives as long as the tests
	})
	if err != nil {
		return err
	}
	plain := &http.Server{Handler: i, Protocols: new(http.Protocols)} //nolint:gosec // only tests ask it
	plain.Protocols.SetHTTP1(true)
	plain.Protocols.SetUnencryptedHTTP2(true)
	secure := &http.Server{Handler: i, TLSConfig: i.tls(), ErrorLog: discardLog} //nolint:gosec // the same
	for _, a := range []string{webAddr, "[" + webAddr6 + "]", lanAddr, metaAddr} {
		ln, err := i.listenRaw(a + ":80")
		if err != nil {
			return err
		}
		go plain.Serve(ln) //nolint:errcheck // lives as long as the tests
		if ln, err = i.listenRaw(a + ":443"); err != nil {
			return err
		}
		go secure.ServeTLS(ln, "", "") //nolint:errcheck // the same
	}
	return nil
}

// tls answers for every name, with the internet's own authority.
func (i *internet) tls() *tls.Config {
	return &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		i.note("tls %s", h.ServerName)
		return i.cert.Leaf(h.ServerName)
	}}
}

// ServeDNS answers for the zone.
func (i *internet) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	m := new(dns.Msg)
	m.SetReply(q)
	name := strings.ToLower(strings.TrimSuffix(q.Question[0].Name, "."))
	i.note("dns %s", name)
	if asked := strings.TrimSuffix(q.Question[0].Name, "."); asked != name {
		i.note("dns in capitals %s", asked)
	}
	if o := q.IsEdns0(); o != nil && len(o.Option) > 0 {
		i.note("dns with options %s", o)
	}
	i.mu.Lock()
	other := i.also[name]
	if other == "" {
		other = name
	}
	addrs, ok := i.zone[other]
	i.mu.Unlock()
	if !ok {
		m.Rcode = dns.RcodeNameError
	}
	at := q.Question[0].Name
	if other != name {
		m.Answer = append(m.Answer, &dns.CNAME{Hdr: dns.RR_Header{Name: at, Rrtype: dns.TypeCNAME, Class: dns.ClassINET, Ttl: 1}, Target: other + "."})
		at = other + "."
	}
	for _, a := range addrs {
		h := dns.RR_Header{Name: at, Class: dns.ClassINET, Ttl: 1}
		if v4 := a.To4(); v4 != nil && q.Question[0].Qtype == dns.TypeA {
			h.Rrtype = dns.TypeA
			m.Answer = append(m.Answer, &dns.A{Hdr: h, A: v4})
		} else if v4 == nil && q.Question[0].Qtype == dns.TypeAAAA {
			h.Rrtype = dns.TypeAAAA
			m.Answer = append(m.Answer, &dns.AAAA{Hdr: h, AAAA: a})
		}
	}
	w.WriteMsg(m) //nolint:errcheck // the client asks again
}

// ServeHTTP is every web host of the internet.
func (i *internet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.note("http %s %s", r.Host, r.URL.Path)
	if _, pattern := theShops().Handler(r); pattern != "" {
		theShops().ServeHTTP(w, r)
		return
	}
	io.Copy(io.Discard, r.Body) //nolint:errcheck // a client that sends something wants it taken
	if to := r.URL.Query().Get("redirect"); to != "" {
		http.Redirect(w, r, to, http.StatusFound)
		return
	}
	fmt.Fprintf(w, "you reached %s%s", r.Host, r.URL.Path)
}

var theShops = sync.OnceValue(shops.Web)

// name makes a name exist.
func (i *internet) name(name string, addrs ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.zone[name] = nil
	for _, a := range addrs {
		i.zone[name] = append(i.zone[name], net.ParseIP(a))
	}
}

// alias makes a name stand for another one.
func (i *internet) alias(name, other string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.also[name] = other
}

func quietLog(t testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

// space gives a namespace with these hosts; blocked collects what it refused.
func space(t testing.TB, hosts ...string) (s *Space, blocked func() []string) {
	var mu sync.Mutex
	var list []string
	s = attached(t, Policy{Hosts: hosts, Names: filepath.Join(t.TempDir(), "names"), Blocked: func(h string, _ int) {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, h)
	}})
	return s, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), list...)
	}
}

// attached gives a namespace with a policy, until the test ends.
func attached(t testing.TB, p Policy) *Space {
	t.Helper()
	n, err := Open(quietLog(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	ns, err := n.Namespace()
	if err != nil {
		t.Fatal(err)
	}
	if p.Blocked == nil {
		p.Blocked = func(string, int) {}
	}
	s, err := ns.Attach(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), n.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// in runs a shell command in the namespace as a user without rights, with the
// namespace's name server, and gives its exit code and output.
func in(t testing.TB, s *Space, env []string, command string) (int, string) {
	t.Helper()
	resolv := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(resolv, []byte("nameserver "+NameServer.String()+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "nsenter", "--net=/proc/self/fd/3", "unshare", "--mount", "sh", "-c",
		`mount --bind "$0" "$(readlink -f /etc/resolv.conf)" && exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs sh -c "$1"`, resolv, command)
	c.ExtraFiles = []*os.File{s.bare.ns}
	c.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/nonexistent", "LANG=C"}, env...)
	out, err := c.CombinedOutput()
	if err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(out)
}

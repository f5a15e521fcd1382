package netpolicy

import (
	"fmt"
	"log/slog"
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
	vnl "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The tests run in a network and mount namespace of their own, in which a veth
// leads to an internet that the test makes: hosts with public addresses, their own
// name server, and a record of all that reached them. Nothing leaves the machine.
const inside = "GURTOS_TEST_INTERNET"

func TestMain(m *testing.M) {
	if os.Getenv(inside) != "" {
		os.Exit(m.Run())
	}
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "netpolicy: these tests make network namespaces and need root")
		os.Exit(1)
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
		os.Exit(max(c.ProcessState.ExitCode(), 1))
	}
}

// internet is the outside: a namespace at the other end of a veth.
type internet struct {
	t    testing.TB
	do   func(func()) // runs in its namespace
	mu   sync.Mutex
	zone map[string][]net.IP // names that exist
	seen []string            // "dns NAME", "tcp ADDR:PORT", "udp ADDR:PORT", "http HOST PATH"
}

// Addresses of the test's internet. The box has boxAddr on its uplink.
const (
	boxAddr  = "198.51.100.2"
	netAddr  = "198.51.100.1"
	webAddr  = "192.0.2.34"
	webAddr6 = "2001:db8:1::34"
	lanAddr  = "10.9.9.9"
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
	i.t, i.seen = t, nil
	return i
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
	work := make(chan func())
	made := make(chan error)
	var pid int
	go func() {
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		pid = unix.Gettid()
		made <- err
		for f := range work {
			f()
		}
	}()
	if err := <-made; err != nil {
		return nil, err
	}
	i.do = func(f func()) {
		done := make(chan struct{})
		work <- func() { defer close(done); f() }
		<-done
	}
	attrs := vnl.NewLinkAttrs()
	attrs.Name = "up0"
	if err := vnl.LinkAdd(&vnl.Veth{LinkAttrs: attrs, PeerName: "net0", PeerNamespace: vnl.NsPid(pid)}); err != nil {
		return nil, fmt.Errorf("veth: %w", err)
	}
	var err error
	up := func(name string, addrs []string, routes []string) {
		l, e := vnl.LinkByName(name)
		if e != nil {
			err = e
			return
		}
		for _, a := range addrs {
			addr, e := vnl.ParseAddr(a)
			if e != nil {
				err = e
				return
			}
			addr.Flags = unix.IFA_F_NODAD
			if e := vnl.AddrAdd(l, addr); e != nil {
				err = fmt.Errorf("address %s: %w", a, e)
			}
		}
		if e := vnl.LinkSetUp(l); e != nil {
			err = e
		}
		for _, r := range routes {
			_, dst, _ := net.ParseCIDR(r)
			if e := vnl.RouteAdd(&vnl.Route{LinkIndex: l.Attrs().Index, Dst: dst}); e != nil {
				err = fmt.Errorf("route %s: %w", r, e)
			}
		}
	}
	up("lo", nil, nil)
	up("up0", []string{boxAddr + "/24", "2001:db8::2/64", "10.9.9.1/24"}, []string{"0.0.0.0/0", "::/0"})
	i.do(func() {
		up("lo", nil, nil)
		up("net0", []string{netAddr + "/24", webAddr + "/24", lanAddr + "/24", "2001:db8::1/64", webAddr6 + "/64"}, nil)
	})
	if err != nil {
		return nil, err
	}
	if err := i.resolvConf(); err != nil {
		return nil, err
	}
	return i, i.listen()
}

// resolvConf puts the internet's name server into this mount namespace.
func (i *internet) resolvConf() error {
	dir, err := os.MkdirTemp("", "internet")
	if err != nil {
		return err
	}
	f := filepath.Join(dir, "resolv.conf")
	if err := os.WriteFile(f, []byte("nameserver "+netAddr+"\noptions timeout:1 attempts:2\n"), 0o644); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	target, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if err != nil {
		return err
	}
	return unix.Mount(f, target, "", unix.MS_BIND, "")
}

func (i *internet) listen() error {
	var err error
	i.do(func() {
		var pc net.PacketConn
		if pc, err = net.ListenPacket("udp", netAddr+":53"); err != nil {
			return
		}
		go (&dns.Server{PacketConn: pc, Handler: i}).ActivateAndServe() //nolint:errcheck // lives as long as the tests
		for _, a := range []string{webAddr, "[" + webAddr6 + "]", lanAddr} {
			var ln net.Listener
			if ln, err = net.Listen("tcp", a+":80"); err != nil {
				return
			}
			go http.Serve(ln, i) //nolint:errcheck,gosec // lives as long as the tests
		}
	})
	return err
}

// ServeDNS answers for the zone.
func (i *internet) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	m := new(dns.Msg)
	m.SetReply(q)
	name := strings.ToLower(strings.TrimSuffix(q.Question[0].Name, "."))
	i.note("dns %s", name)
	i.mu.Lock()
	addrs, ok := i.zone[name]
	i.mu.Unlock()
	if !ok {
		m.Rcode = dns.RcodeNameError
	}
	for _, a := range addrs {
		h := dns.RR_Header{Name: q.Question[0].Name, Class: dns.ClassINET, Ttl: 1}
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
	fmt.Fprintf(w, "you reached %s%s", r.Host, r.URL.Path)
}

// name makes a name exist.
func (i *internet) name(name string, addrs ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.zone[name] = nil
	for _, a := range addrs {
		i.zone[name] = append(i.zone[name], net.ParseIP(a))
	}
}

// space gives a namespace with these hosts; blocked collects what it refused.
func space(t testing.TB, hosts ...string) (s *Space, blocked func() []string) {
	n, err := Open(slog.New(slog.NewTextHandler(t.Output(), nil)), 1)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var list []string
	ns, err := n.Namespace()
	if err != nil {
		t.Fatal(err)
	}
	s, err = ns.Attach(Policy{Hosts: hosts, Names: filepath.Join(t.TempDir(), "names"), Blocked: func(h string, _ int) {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, h)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), list...)
	}
}

// in runs a shell command in the namespace as a user without rights, with the
// namespace's name server, and gives its exit code and output.
func in(t testing.TB, s *Space, env []string, command string) (int, string) {
	t.Helper()
	resolv := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(resolv, []byte("nameserver "+NameServer.String()+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("nsenter", "--net=/proc/self/fd/3", "unshare", "--mount", "sh", "-c",
		`mount --bind "$0" "$(readlink -f /etc/resolv.conf)" && exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs sh -c "$1"`, resolv, command)
	c.ExtraFiles = []*os.File{s.bare.ns}
	c.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/nonexistent", "LANG=C"}, env...)
	out, err := c.CombinedOutput()
	if err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(out)
}

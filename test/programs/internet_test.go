package programs

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/miekg/dns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// inside marks the process that is in the namespaces.
const inside = "GURTOS_TEST_PROGRAMS"

// The tests run in a network and a mount namespace of their own, where a veth leads to the internet. boxd is their child.
func TestMain(m *testing.M) {
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
			fmt.Fprintln(os.Stderr, "programs: these tests make namespaces and need root:", err)
		}
		os.Exit(1)
	}
}

// Addresses of the internet, from ranges that are kept for documentation, and of the box's uplink to it.
const (
	boxAddr = "198.51.100.2/24"
	netAddr = "198.51.100.1"
	webAddr = "192.0.2.34"
)

var theShop = sync.OnceValues(connect)

// connect makes the internet: a namespace at the other end of a veth, in which a name server gives webAddr for every name below example.com, where
// the shop answers.
func connect() (*shop, error) {
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
	out := func(f func() error) error { work <- f; return <-made }

	attrs := netlink.NewLinkAttrs()
	attrs.Name = "up0"
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "net0", PeerNamespace: netlink.NsPid(outside)}); err != nil {
		return nil, fmt.Errorf("veth: %w", err)
	}
	if err := up("lo"); err != nil {
		return nil, err
	}
	if err := up("up0", boxAddr); err != nil {
		return nil, err
	}
	uplink, err := netlink.LinkByName("up0")
	if err != nil {
		return nil, err
	}
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: uplink.Attrs().Index, Dst: &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}}); err != nil {
		return nil, fmt.Errorf("route: %w", err)
	}
	if err := askThere(); err != nil {
		return nil, err
	}
	s, err := open()
	if err != nil {
		return nil, err
	}
	return s, out(func() error {
		if err := up("net0", netAddr+"/24", webAddr+"/32"); err != nil {
			return err
		}
		names, err := net.ListenPacket("udp", netAddr+":53")
		if err != nil {
			return err
		}
		web, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", webAddr+":80")
		if err != nil {
			return err
		}
		go (&dns.Server{PacketConn: names, Handler: dns.HandlerFunc(answer)}).ActivateAndServe() //nolint:errcheck // lives as long as the tests
		go http.Serve(web, s)                                                                    //nolint:errcheck,gosec // the same
		return nil
	})
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
		if err := netlink.AddrAdd(l, addr); err != nil {
			return fmt.Errorf("address %s: %w", a, err)
		}
	}
	return netlink.LinkSetUp(l)
}

// askThere has this mount namespace's programs ask the internet's name server.
func askThere() error {
	f := filepath.Join(os.TempDir(), "resolv-"+strconv.Itoa(os.Getpid()))
	if err := os.WriteFile(f, []byte("nameserver "+netAddr+"\n"), 0o644); err != nil {
		return err
	}
	defer os.Remove(f)
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	at, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if err != nil {
		return err
	}
	return unix.Mount(f, at, "", unix.MS_BIND, "")
}

func answer(w dns.ResponseWriter, q *dns.Msg) {
	m := new(dns.Msg)
	m.SetReply(q)
	switch asked := q.Question[0]; {
	case !dns.IsSubDomain("example.com.", asked.Name):
		m.Rcode = dns.RcodeNameError
	case asked.Qtype == dns.TypeA:
		m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: asked.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.ParseIP(webAddr)}}
	}
	w.WriteMsg(m) //nolint:errcheck // the client asks again
}

package netpolicy

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestReaches holds that an allowed host answers, by the proxy and without.
func TestReaches(t *testing.T) {
	i := outside(t)
	i.name("example.com", webAddr, webAddr6)
	s, blocked := space(t, "example.com")
	for _, env := range [][]string{nil, Env()} {
		if code, out := in(t, s, env, "curl -sS -m 10 http://example.com/a"); code != 0 || out != "you reached example.com/a" {
			t.Errorf("curl with %v: exit %d, %q", env, code, out)
		}
	}
	if b := blocked(); len(b) > 0 {
		t.Errorf("blocked %v", b)
	}
}

// TestRefuses holds that nothing else answers, at once, and that it is told.
func TestRefuses(t *testing.T) {
	i := outside(t)
	i.name("example.com", webAddr)
	i.name("example.org", webAddr)
	i.name("inner.example.com", lanAddr)
	s, blocked := space(t, "example.com", "inner.example.com")
	for _, c := range []struct{ command, told string }{
		{"curl -sS -m 10 -f http://example.org/", "example.org:53"},
		{"curl -sS -m 10 -f http://" + webAddr + "/", webAddr + ":80"},
		{"curl -sS -m 10 -f -H 'Host: example.org' http://example.com/", "example.com:80"},
		{"curl -sS -m 10 -f http://inner.example.com/", "inner.example.com:80"},
		{"curl -sS -m 10 -f -g 'http://[" + webAddr6 + "]/'", "[" + webAddr6 + "]:80"},
		{"python3 -c \"import socket;s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM);s.connect(('198.51.100.1',443));s.send(b'x')\"", "198.51.100.1:443"},
	} {
		i.mu.Lock()
		i.seen = nil
		i.mu.Unlock()
		if code, out := in(t, s, nil, c.command); code == 0 {
			t.Errorf("%s: exit 0, %q", c.command, out)
		}
		if !eventually(func() bool { return slices.Contains(blocked(), c.told) }) {
			t.Errorf("%s: told %v, want %s", c.command, blocked(), c.told)
		}
		for _, r := range i.record() {
			if !strings.HasPrefix(r, "dns example.com") && !strings.HasPrefix(r, "dns inner.example.com") && !strings.HasPrefix(r, "packet ") {
				t.Errorf("%s: the internet saw %q", c.command, r)
			}
		}
	}
}

// eventually polls for what another goroutine or the kernel is about to tell.
func eventually(fn func() bool) bool {
	late := time.NewTimer(time.Minute)
	defer late.Stop()
	tick := time.NewTicker(500 * time.Microsecond)
	defer tick.Stop()
	for !fn() {
		select {
		case <-tick.C:
		case <-late.C:
			return fn()
		}
	}
	return true
}

// TestOwnLoopback holds that a program has a loopback of its own, in both families,
// on which a server of it is reached by whoever is in the same namespace alone.
func TestOwnLoopback(t *testing.T) {
	outside(t)
	s, blocked := space(t, "example.com")
	p := program{t, s}
	for _, addr := range []string{"127.0.0.1:80", "127.0.0.7:8080", "[::1]:80"} {
		var ln net.Listener
		var err error
		p.inside(func() { ln, err = net.Listen("tcp", addr) })
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if c, err := ln.Accept(); err == nil {
				io.WriteString(c, "mine") //nolint:errcheck // the reader tells
				c.Close()
			}
		}()
		c, err := p.dial("tcp", addr)
		if err != nil {
			t.Fatalf("%s: %v", addr, err)
		} else if b, err := io.ReadAll(c); err != nil || string(b) != "mine" {
			t.Errorf("%s: %q, %v", addr, b, err)
		}
		// Every address is the namespace's, so a program may come from any.
		from := map[bool]string{true: "[2001:db8::77]:0", false: "10.1.2.3:0"}[addr[0] == '[']
		go func() {
			if c, err := ln.Accept(); err == nil {
				io.WriteString(c, "mine") //nolint:errcheck // the reader tells
				c.Close()
			}
		}()
		p.inside(func() {
			d := net.Dialer{Timeout: time.Minute, LocalAddr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from)), Control: func(network, _ string, rc syscall.RawConn) error {
				var serr error
				err := rc.Control(func(fd uintptr) {
					if network == "tcp6" {
						serr = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1)
					}
				})
				return errors.Join(err, serr)
			}}
			c, err = d.Dial("tcp", addr)
		})
		if err != nil {
			t.Fatalf("%s from %s: %v", addr, from, err)
		} else if b, err := io.ReadAll(c); err != nil || string(b) != "mine" {
			t.Errorf("%s from %s: %q, %v", addr, from, b, err)
		}
		ln.Close()
		var pc net.PacketConn
		p.inside(func() { pc, err = net.ListenPacket("udp", addr) })
		if err != nil {
			t.Fatal(err)
		}
		if c, err = p.dial("udp", addr); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "mine"); err != nil {
			t.Errorf("UDP to %s: %v", addr, err)
		}
		pc.Close()
	}
	for _, name := range []string{"localhost", "a.localhost", "LocalHost", HostName} {
		if a, err := p.lookup(name, false); err != nil || a.String() != "127.0.0.1" {
			t.Errorf("%s is %v, %v", name, a, err)
		}
		if a, err := p.lookup(name, true); err != nil || a.String() != "::1" {
			t.Errorf("%s is %v, %v", name, a, err)
		}
	}
	if b := blocked(); len(b) > 0 {
		t.Errorf("blocked %q", b)
	}
}

// A sandbox may give its namespace back before its space is closed: what the kernel tells of it ends then, without a word in the log.
func TestNamespaceEndsFirst(t *testing.T) {
	outside(t)
	var said strings.Builder
	n, err := Open(slog.New(slog.NewTextHandler(&said, nil)), 1)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		ns, err := n.Namespace()
		if err != nil {
			t.Fatal(err)
		}
		told := make(chan string, 1)
		s, err := ns.Attach(Policy{Names: filepath.Join(t.TempDir(), "names"), Blocked: func(h string, _ int) { told <- h }})
		if err != nil {
			t.Fatal(err)
		}
		if err := udp(netAddr + ":9999")(program{t, s}); !errors.Is(err, syscall.EPERM) {
			t.Fatal(err)
		}
		<-told // so that who reads it has begun, and waits for more
		if err := ns.Close(); err != nil {
			t.Fatal(err)
		}
		s.wait.Wait() // all that reads of it ends by itself
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if said.Len() > 0 {
		t.Error(said.String())
	}
}

package netpolicy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	vnl "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// serveTCP answers each connection to a port of the web host with fn.
func serveTCP(t testing.TB, i *internet, port int, fn func(c *net.TCPConn)) {
	t.Helper()
	serveAt(t, i, webAddr, port, fn)
}

// serveAt is serveTCP at another address of the internet.
func serveAt(t testing.TB, i *internet, addr string, port int, fn func(c *net.TCPConn)) {
	t.Helper()
	ln, err := i.listenRaw(fmt.Sprintf("%s:%d", addr, port))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				fn(c.(*recordedConn).TCPConn)
			})
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
}

func read(t testing.TB, c net.Conn, n int) string {
	t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(c, b); err != nil {
		t.Fatalf("read %d bytes: %v, have %q", n, err, b)
	}
	return string(b)
}

func write(t testing.TB, c net.Conn, s string) {
	t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		t.Fatal(err)
	}
}

// TestProtocols holds that a protocol of any shape passes: who speaks first, with
// line ends or without, half closed, in pieces that a proxy might wait for.
func TestProtocols(t *testing.T) {
	i := outside(t)
	i.name("example.com", webAddr)
	s, blocked := space(t, "example.com")
	p := program{t, s}
	big := strings.Repeat("0123456789abcdef", 1<<17) // 2 MiB
	for n, c := range []struct {
		name   string
		server func(t *testing.T, c *net.TCPConn)
		client func(t *testing.T, c *net.TCPConn)
	}{
		{"the server speaks first", func(t *testing.T, c *net.TCPConn) {
			write(t, c, "220 ready\r\n")
			read(t, c, 6)
			write(t, c, "250 ok\r\n")
		}, func(t *testing.T, c *net.TCPConn) {
			read(t, c, 11)
			write(t, c, "EHLO\r\n")
			read(t, c, 8)
		}},
		{"words without line ends", func(t *testing.T, c *net.TCPConn) {
			for range 5 {
				read(t, c, 5)
				write(t, c, "world")
			}
		}, func(t *testing.T, c *net.TCPConn) {
			for range 5 {
				write(t, c, "hello")
				read(t, c, 5)
			}
		}},
		{"half a word at a time", func(t *testing.T, c *net.TCPConn) {
			for range 4 {
				read(t, c, 1)
				write(t, c, ".")
			}
			read(t, c, 9)
			write(t, c, "done")
		}, func(t *testing.T, c *net.TCPConn) {
			for _, w := range []string{"G", "E", "T", " "} {
				write(t, c, w)
				read(t, c, 1)
			}
			write(t, c, "whatever\n")
			read(t, c, 4)
		}},
		{"text without end", func(t *testing.T, c *net.TCPConn) {
			if b, err := io.ReadAll(c); err != nil || string(b) != big {
				t.Errorf("%d of %d bytes, %v", len(b), len(big), err)
			}
			write(t, c, "done")
		}, func(t *testing.T, c *net.TCPConn) {
			write(t, c, big)
			if err := c.CloseWrite(); err != nil {
				t.Error(err)
			}
			read(t, c, 4)
		}},
		{"binary of all kinds", func(t *testing.T, c *net.TCPConn) {
			read(t, c, 8)
			write(t, c, "N")
			if b, err := io.ReadAll(c); err != nil || !bytes.Equal(b, bytes.Repeat([]byte("\x00\xff\r\n HTTP/"), 1000)) {
				t.Errorf("%d bytes, %v", len(b), err)
			}
		}, func(t *testing.T, c *net.TCPConn) {
			write(t, c, "\x00\x00\x00\x08\x04\xd2\x16\x2f")
			read(t, c, 1)
			write(t, c, strings.Repeat("\x00\xff\r\n HTTP/", 1000))
			c.CloseWrite() //nolint:errcheck // read tells
			if b, err := io.ReadAll(c); err != nil || len(b) > 0 {
				t.Errorf("%q, %v", b, err)
			}
		}},
		{"the server ends its side first", func(t *testing.T, c *net.TCPConn) {
			write(t, c, "bye")
			c.CloseWrite() //nolint:errcheck // read tells
			if b, err := io.ReadAll(c); err != nil || string(b) != "still here" {
				t.Errorf("%q, %v", b, err)
			}
		}, func(t *testing.T, c *net.TCPConn) {
			if b, err := io.ReadAll(c); err != nil || string(b) != "bye" {
				t.Errorf("%q, %v", b, err)
			}
			write(t, c, "still here")
		}},
		{"a server that resets", func(_ *testing.T, c *net.TCPConn) {
			c.SetLinger(0) //nolint:errcheck // it is closed next
		}, func(t *testing.T, c *net.TCPConn) {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%v, want a reset", err)
			}
		}},
		{"an answer in pieces, each at once", func(t *testing.T, c *net.TCPConn) {
			br := bufio.NewReader(c)
			for l := ""; l != "\r\n"; {
				var err error
				if l, err = br.ReadString('\n'); err != nil {
					t.Error(err)
					return
				}
			}
			write(t, c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			for n := range 2 {
				write(t, c, fmt.Sprintf("7\r\ndata: %d\r\n", n))
				if _, err := br.ReadString('\n'); err != nil { // the next request: the piece was seen
					t.Error(err)
				}
			}
		}, func(t *testing.T, c *net.TCPConn) {
			req := "GET / HTTP/1.1\r\nHost: example.com:" + fmt.Sprint(c.RemoteAddr().(*net.TCPAddr).Port) + "\r\n\r\n"
			write(t, c, req)
			read(t, c, len("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"))
			for n := range 2 {
				if got := read(t, c, 12); got != fmt.Sprintf("7\r\ndata: %d\r\n", n) {
					t.Errorf("%q", got)
				}
				write(t, c, req)
			}
		}},
		{"an answer without a request", func(t *testing.T, c *net.TCPConn) {
			write(t, c, "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n")
		}, func(t *testing.T, c *net.TCPConn) {
			b, err := io.ReadAll(c)
			if err != nil || !strings.Contains(string(b), "408") {
				t.Errorf("%q, %v", b, err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			port := 2000 + n
			served := make(chan struct{})
			serveTCP(t, i, port, func(sc *net.TCPConn) {
				defer close(served)
				sc.SetDeadline(time.Now().Add(time.Minute)) //nolint:errcheck // fresh
				c.server(t, sc)
			})
			p.t = t
			conn, err := p.connect("example.com", uint16(port), false)
			if (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.ECONNREFUSED)) && c.name == "a server that resets" {
				return // the reset was there before anyone looked at the connection
			}
			if err != nil {
				t.Fatal(err)
			}
			c.client(t, conn.(*net.TCPConn))
			conn.Close()
			<-served
		})
	}
	if b := blocked(); len(b) > 0 {
		t.Errorf("blocked %q", b)
	}
	if !eventually(func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.conns) == 0 }) {
		t.Errorf("%d connections stay although both sides have closed", len(s.conns))
	}
}

// TestUpgradeUnanswered holds that a connection ends when a server goes without an
// answer to a request that waits for one, whoever spoke first.
func TestUpgradeUnanswered(t *testing.T) {
	i := outside(t)
	i.name("example.com", webAddr)
	s, _ := space(t, "example.com")
	first := map[int]string{2100: "", 2101: "HTTP/1.1 200 OK\r\n\r\n"}
	for port, says := range first {
		serveTCP(t, i, port, func(c *net.TCPConn) {
			io.WriteString(c, says)     //nolint:errcheck // the client's end tells
			c.Read(make([]byte, 1<<10)) //nolint:errcheck // the same
			c.SetLinger(0)              //nolint:errcheck // the same
		})
		c, err := program{t, s}.connect("example.com", uint16(port), false)
		if err != nil {
			t.Fatal(err)
		}
		read(t, c, len(says))
		write(t, c, fmt.Sprintf("GET / HTTP/1.1\r\nHost: example.com:%d\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", port))
		io.Copy(io.Discard, c) //nolint:errcheck // its end is what counts
	}
	if !eventually(func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.conns) == 0 }) {
		t.Error("a connection waits for an answer that can't come")
	}
}

// TestDown holds that a host that is down gives a program the error that it would have
// got without the box between, in both families, and that nobody is told of a refusal.
func TestDown(t *testing.T) {
	i := outside(t)
	up, err := vnl.LinkByName("up0")
	if err != nil {
		t.Fatal(err)
	}
	for net4, kind := range map[string]int{"203.0.113.0/25": unix.RTN_UNREACHABLE, "203.0.113.128/25": unix.RTN_THROW, "2001:db8:77::/48": unix.RTN_UNREACHABLE, "2001:db8:78::/48": unix.RTN_THROW} {
		_, dst, err := net.ParseCIDR(net4)
		if err != nil {
			t.Fatal(err)
		}
		r := &vnl.Route{LinkIndex: up.Attrs().Index, Dst: dst, Type: kind}
		if dst.IP.To4() != nil {
			r.LinkIndex = 0
		}
		if err := vnl.RouteReplace(r); err != nil {
			t.Fatalf("route %s: %v", net4, err)
		}
		t.Cleanup(func() { vnl.RouteDel(r) }) //nolint:errcheck // it ends with the namespace
	}
	s, blocked := space(t, "*.example.com")
	for n, c := range []struct {
		what, addr string
		want       syscall.Errno
	}{
		{"nothing listens", webAddr, syscall.ECONNREFUSED},
		{"nothing listens", webAddr6, syscall.ECONNREFUSED},
		{"there is no such host", "198.51.100.77", syscall.EHOSTUNREACH},
		{"there is no such host", "2001:db8::77", syscall.EHOSTUNREACH},
		{"a router knows no such host", "203.0.113.1", syscall.EHOSTUNREACH},
		{"a router knows no such host", "2001:db8:77::1", syscall.EHOSTUNREACH},
		{"there is no way", "203.0.113.129", syscall.ENETUNREACH},
		{"there is no way", "2001:db8:78::1", syscall.ENETUNREACH},
	} {
		name := fmt.Sprintf("h%d.example.com", n)
		i.name(name, c.addr)
		for _, v6 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, %s, v6 inside %v", c.what, c.addr, v6), func(t *testing.T) {
				t.Parallel()
				direct, err := (&net.Dialer{Timeout: 20 * time.Second}).Dial("tcp", net.JoinHostPort(c.addr, "4444"))
				if err == nil {
					direct.Close()
				}
				if !errors.Is(err, c.want) {
					t.Fatalf("without the box between: %v, want %v", err, c.want)
				}
				if _, err := (program{t, s}).connect(name, 4444, v6); !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
			})
		}
	}
	t.Cleanup(func() {
		if b := blocked(); len(b) > 0 {
			t.Errorf("blocked %q although it is allowed", b)
		}
	})
	i.name("down.example.com", webAddr)
	line, err := program{t, s}.proxied("CONNECT down.example.com:4444 HTTP/1.1\r\n\r\n")
	if err != nil || !strings.Contains(line, " 502 ") {
		t.Errorf("the proxy says %q, %v", line, err)
	}
}

// TestLimit holds that a namespace has 256 connections and no more, and that one
// that ends makes room.
func TestLimit(t *testing.T) {
	i := outside(t)
	i.name("example.com", webAddr)
	serveTCP(t, i, 2200, func(c *net.TCPConn) {
		io.WriteString(c, "!") //nolint:errcheck // the client tells
		io.Copy(io.Discard, c) //nolint:errcheck // until it ends
	})
	s, blocked, met := heard(t, "example.com")
	p := program{t, s}
	a, err := p.lookup("example.com", false)
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.AddrPortFrom(a, 2200).String()
	var open []net.Conn
	for range MaxConns {
		c, err := p.dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	for _, c := range open {
		read(t, c, 1)
	}
	c, err := p.dial("tcp", addr)
	if err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("one more: %v, want it refused", err)
	}
	if want := []string{LimitOpen.Sentence("example.com:2200")}; !eventually(func() bool { return slices.Equal(met(), want) }) || len(blocked()) > 0 {
		t.Errorf("told of the limits %q, want %q, and of %q as refused", met(), want, blocked())
	}
	open[0].Close()
	if !eventually(func() bool {
		c, err := p.dial("tcp", addr)
		if err != nil {
			return false
		}
		_, err = c.Read(make([]byte, 1))
		return err == nil
	}) {
		t.Error("no room although one has ended")
	}
}

// TestRuleTurnedOff holds that open connections end at once when their rule goes,
// and that others stay.
func TestRuleTurnedOff(t *testing.T) {
	i := outside(t)
	i.name("example.com", webAddr)
	i.name("example.net", webAddr)
	serveTCP(t, i, 2300, func(c *net.TCPConn) { io.Copy(c, c) }) //nolint:errcheck // an echo
	s, blocked := space(t, "example.com", "example.net:2300")
	p := program{t, s}
	var conns []net.Conn
	for _, name := range []string{"example.com", "example.net"} {
		c, err := p.connect(name, 2300, false)
		if err != nil {
			t.Fatal(err)
		}
		write(t, c, "a")
		read(t, c, 1)
		conns = append(conns, c)
	}
	if err := s.SetHosts([]string{"example.net:2300"}); err != nil {
		t.Fatal(err)
	}
	if _, err := conns[0].Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection lives on: %v", err)
	}
	write(t, conns[1], "b")
	read(t, conns[1], 1)
	if _, err := p.connect("example.com", 2300, false); err == nil {
		t.Error("the name is still answered")
	}
	if want := []string{"example.com:53"}; !eventually(func() bool { return slices.Equal(blocked(), want) }) {
		t.Errorf("told %q, want %q", blocked(), want)
	}
	if err := s.SetHosts([]string{"*.com"}); err == nil {
		t.Error("wrong rules are taken")
	}
}

// TestUpload holds the upload question: what is below the limit passes, the rest
// waits for one answer, also when many connections send at once, and all names
// below one wildcard share the limit.
func TestUpload(t *testing.T) {
	for _, yes := range []bool{true, false} {
		t.Run(fmt.Sprint(yes), func(t *testing.T) {
			i := outside(t)
			got := make(chan int64, 100)
			serveTCP(t, i, 2400, func(c *net.TCPConn) {
				n, _ := io.Copy(io.Discard, c) //nolint:errcheck // what came counts
				got <- n
			})
			const limit, each, conns = 1 << 20, 1 << 19, 8
			asked := make(chan string, 10)
			answer := make(chan bool)
			s := attached(t, Policy{Hosts: []string{"*.example.com"}, UploadLimit: limit, Upload: func(ctx context.Context, host string) bool {
				asked <- host
				return <-answer
			}})
			p := program{t, s}
			var wg sync.WaitGroup
			for k := range conns {
				name := fmt.Sprintf("h%d.example.com", k)
				i.name(name, webAddr)
				c, err := p.connect(name, 2400, false)
				if err != nil {
					t.Fatal(err)
				}
				wg.Go(func() {
					io.WriteString(c, strings.Repeat("x", each)) //nolint:errcheck // the other side counts
					c.(*net.TCPConn).CloseWrite()                //nolint:errcheck // the same
					io.Copy(io.Discard, c)                       //nolint:errcheck // until it ends
				})
			}
			if h := <-asked; h != "*.example.com" {
				t.Errorf("asked about %s", h)
			}
			var sent int64
			for _, st := range s.Stats() {
				sent += st.Sent
			}
			if sent > limit {
				t.Errorf("%d bytes were sent before the answer, the limit is %d", sent, limit)
			}
			answer <- yes
			wg.Wait()
			var sum int64
			for range conns {
				sum += <-got
			}
			if yes && sum != conns*each || !yes && sum > limit {
				t.Errorf("%d bytes arrived, answer %v", sum, yes)
			}
			if len(asked) > 0 {
				t.Error("asked twice")
			}
		})
	}
}

// TestNamesLast holds that an address stands for its name over a restart, and that
// nobody else's file is read.
func TestNamesLast(t *testing.T) {
	file := t.TempDir() + "/names"
	first, err := openNames(file)
	if err != nil {
		t.Fatal(err)
	}
	var addrs []netip.Addr
	for k := range 40 {
		v4, v6, err := first.addrs(fmt.Sprintf("h%d.example.com", k))
		if err != nil {
			t.Fatal(err)
		}
		addrs = append(addrs, v4, v6)
	}
	second, err := openNames(file)
	if err != nil {
		t.Fatal(err)
	}
	for k, a := range addrs {
		if name, ok := second.name(a); !ok || name != fmt.Sprintf("h%d.example.com", k/2) {
			t.Errorf("%s is %q after a restart", a, name)
		}
	}
	if v4, _, err := second.addrs("h3.example.com"); err != nil || v4 != addrs[6] {
		t.Errorf("h3 is %s, was %s, %v", v4, addrs[6], err)
	}
}

// TestNoSuchName holds that an allowed name which does not resolve gets SERVFAIL at
// once, and that its failure is told.
func TestNoSuchName(t *testing.T) {
	outside(t)
	failed := make(chan string, 10)
	s := attached(t, Policy{Hosts: []string{"gone.example.com"}, Blocked: func(h string, _ int) { t.Errorf("blocked %s", h) }, Failed: func(name string, err error) { failed <- name + ": " + err.Error() }})
	if _, err := (program{t, s}).lookup("gone.example.com", false); err == nil || err.Error() != "SERVFAIL" {
		t.Errorf("%v, want SERVFAIL", err)
	}
	if f := <-failed; f != "gone.example.com: the name does not exist" {
		t.Errorf("told %q", f)
	}
}

// TestCloseWaits holds that closing a namespace ends everything in it, in the middle
// of whatever it does.
func TestCloseWaits(t *testing.T) {
	i := outside(t)
	i.name("example.com", webAddr)
	serveTCP(t, i, 2500, func(c *net.TCPConn) { io.Copy(c, c) }) //nolint:errcheck // an echo
	s := attached(t, Policy{Hosts: []string{"example.com"}})
	p := program{t, s}
	for _, said := range []string{"", "GET", "\x16\x03", "\x16\x03\x01\x02\x00", get, get + "\r\n", get + "Upgrade: x\r\n\r\n", "POST / HTTP/1.1\r\nHost: example.com:2500\r\nContent-Length: 9999\r\n\r\nhalf", "plain\n"} {
		c, err := p.connect("example.com", 2500, false)
		if err != nil {
			t.Fatal(err)
		}
		write(t, c, said)
	}
	start := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if d := time.Since(start); d > dialTimeout/2 { // what it waits for otherwise ends by its own limit
		t.Errorf("closing took %v", d)
	}
}

package netpolicy

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// TestPace holds that a loop of connections or questions reaches the daemon so often a
// second and no more, and is told as what it tries, once; and that a program of the same
// namespace still gets through.
func TestPace(t *testing.T) {
	i := outside(t)
	i.name("example.com", webAddr)
	const tries = 4 * beginBurst
	for _, c := range []struct {
		name, told string // what is told
		to         netip.AddrPort
		udp        bool
	}{
		{"an address", webAddr + ":80", netip.MustParseAddrPort(webAddr + ":80"), false},
		{"the proxy", "127.0.0.1:15002", netip.MustParseAddrPort("127.0.0.1:15002"), false},
		{"the relay's own port", "127.0.0.1:15001", netip.MustParseAddrPort("127.0.0.1:15001"), false},
		{"names", "198.51.100.1:53", netip.MustParseAddrPort(netAddr + ":53"), true},
		{"the name server's own port", "127.0.0.1:15053", netip.MustParseAddrPort("127.0.0.1:15053"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, blocked := space(t, "example.com")
			p := program{t, s}
			dropped, begun := 0, time.Now()
			p.inside(func() {
				for range tries {
					if !c.udp {
						begins(c.to)
					} else if errors.Is(asks(c.to), syscall.EPERM) {
						dropped++
					}
				}
			})
			seconds := int(time.Since(begun)/time.Second) + 2
			if c.udp {
				if least := tries - beginBurst - seconds*beginRate; dropped < least {
					t.Errorf("%d of %d questions in %d s were dropped, want %d at least", dropped, tries, seconds, least)
				}
			} else {
				s.tell.mu.Lock()
				n := s.tell.counts[c.told]
				s.tell.mu.Unlock()
				if most := beginBurst + seconds*beginRate; n > most {
					t.Errorf("%d of %d tries in %d s were counted, want %d at most", n, tries, seconds, most)
				}
			}
			if !eventually(func() bool { return strings.Contains(strings.Join(blocked(), " "), c.told) }) {
				t.Errorf("told %q, want %s", blocked(), c.told)
			}
			if b := blocked(); len(b) > 2 {
				t.Errorf("told %q", b)
			}
			conn, err := p.connect("example.com", 80, false)
			for err != nil && (errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ECONNREFUSED)) { // its questions count as all others do, and so do open connections
				conn, err = p.connect("example.com", 80, false)
			}
			if err != nil {
				t.Fatal(err)
			}
			if out, err := says(conn, "GET / HTTP/1.0\r\nHost: example.com\r\n\r\n"); err != nil || !strings.Contains(out, "you reached") {
				t.Errorf("%q, %v", out, err)
			}
		})
	}
}

// begins begins a connection and does not wait for it.
func begins(to netip.AddrPort) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}) //nolint:errcheck // it only leaves more behind
	unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}) //nolint:errcheck // nobody waits
}

// asks sends a packet that is no question.
func asks(to netip.AddrPort) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Sendto(fd, []byte("evil"), 0, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()})
}

// TestOwnTraffic holds that what a program says to itself fills no table of the
// namespace's, or a busy server that is tested in a task would come to a halt.
func TestOwnTraffic(t *testing.T) {
	outside(t)
	s, _ := space(t, "example.com")
	p := program{t, s}
	tracked := func() (n int) {
		p.inside(func() {
			b, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_count")
			if err == nil {
				n, err = strconv.Atoi(strings.TrimSpace(string(b)))
			}
			if err != nil {
				t.Error(err)
			}
		})
		return n
	}
	before := tracked()
	for _, addr := range []string{"127.0.0.1:80", "[::1]:80"} {
		var ln net.Listener
		var err error
		p.inside(func() { ln, err = net.Listen("tcp", addr) })
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				io.Copy(c, c) //nolint:errcheck // the other side tells
				c.Close()
			}
		}()
		for range 50 {
			c, err := p.dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			write(t, c, "a")
			read(t, c, 1)
			c.Close()
		}
		ln.Close()
	}
	if after := tracked(); after > before {
		t.Errorf("%d connections are tracked, and were %d before", after, before)
	}
	if a, err := p.lookup("localhost", false); err != nil || !a.IsLoopback() {
		t.Errorf("a name by the loopback: %v, %v", a, err)
	}
	if m, err := p.ask("udp", "127.0.0.53:53", "localhost", 1); err != nil || len(m.Answer) != 1 {
		t.Errorf("a name by the loopback: %v, %v", m, err)
	}
	if m, err := p.ask("tcp", "127.0.0.1:53", "localhost", 1); err != nil || len(m.Answer) != 1 {
		t.Errorf("a name by the loopback and TCP: %v, %v", m, err)
	}
}

// TestFew holds that so many connections to the name server are open at once, and that
// one which ends makes room.
func TestFew(t *testing.T) {
	outside(t) // brings the loopback up
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := few{tcp, make(chan struct{}, 2)}
	accepted := make(chan net.Conn)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	dial := func() (net.Conn, error) {
		c, err := net.Dial("tcp", tcp.Addr().String())
		if err == nil {
			t.Cleanup(func() { c.Close() })
			c.SetDeadline(time.Now().Add(time.Minute)) //nolint:errcheck // fresh
		}
		return c, err
	}
	comes := func() (there, here net.Conn) {
		t.Helper()
		c, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		return c, <-accepted
	}
	closed := func(which string) {
		t.Helper()
		c, err := dial()
		if err == nil {
			_, err = c.Read(make([]byte, 1))
		}
		if !errors.Is(err, syscall.ECONNRESET) { // which may come before anyone looked at the connection
			t.Errorf("%s: %v", which, err)
		}
	}
	_, one := comes()
	_, two := comes()
	closed("one more")
	one.Close()
	one.Close() // leaves its place once
	third, three := comes()
	closed("one more than those that are left")
	if _, err := three.Write([]byte("a")); err != nil {
		t.Error(err)
	}
	read(t, third, 1)
	two.Close()
	three.Close()
	tcp.Close()
	<-ended
}

// TestTeller holds how often somebody hears of refused tries: of each host:port at once,
// then once a minute how often; of more than a thousand different ones a minute together;
// and in the end of what was not told yet.
func TestTeller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type line struct {
			host  string
			count int
		}
		var told []line
		tl := &teller{tell: func(h string, n int) { told = append(told, line{h, n}) }}
		want := func(when string, lines ...line) {
			t.Helper()
			synctest.Wait()
			tl.mu.Lock()
			defer tl.mu.Unlock()
			if len(told) != len(lines) {
				t.Fatalf("%s: told %v, want %v", when, told, lines)
			}
			for _, l := range lines {
				found := false
				for _, g := range told {
					found = found || g == l
				}
				if !found {
					t.Errorf("%s: told %v, want %v", when, told, lines)
				}
			}
			told = nil
		}
		for range 100 {
			tl.refused("a:1")
		}
		tl.refused("b:1")
		want("at once", line{"a:1", 1}, line{"b:1", 1})
		time.Sleep(tellEvery)
		want("after a minute", line{"a:1", 99})
		tl.refused("a:1")
		time.Sleep(tellEvery)
		want("after another", line{"a:1", 1})
		time.Sleep(2 * tellEvery)
		want("when it has stopped")
		time.Sleep(time.Hour) // whatever was told, there is room again
		lines := func(when string, most, others int) {
			t.Helper()
			synctest.Wait()
			tl.mu.Lock()
			defer tl.mu.Unlock()
			together := 0
			for _, l := range told {
				if l.host == "others:0" {
					together += l.count
				}
			}
			if len(told) != most || together != others {
				t.Errorf("%s: told %d lines, with %d together, want %d and %d", when, len(told), together, most, others)
			}
			told = nil
		}
		for k := range tellAtOnce + 50 {
			for range 2 {
				tl.refused("c:" + strconv.Itoa(k))
			}
		}
		lines("a thousand", tellAtOnce, 0)
		time.Sleep(tellEvery)
		lines("a minute later", tellMore+1, tellAtOnce-tellMore+2*50)
		for minute := range 20 {
			for k := range 3 * tellMore {
				tl.refused(strconv.Itoa(minute) + ":" + strconv.Itoa(k))
			}
			time.Sleep(tellEvery)
			if minute == 0 {
				lines("ever new ones, at first", 1, 3*tellMore)
				continue
			}
			lines("ever new ones", tellMore+1, 2*tellMore)
		}
		time.Sleep(time.Hour)
		lines("when they have stopped", 0, 0)
		tl.refused("c:1")
		want("after an hour", line{"c:1", 1})
		tl.refused("c:1")
		tl.close()
		tl.refused("c:2")
		want("in the end", line{"c:1", 1})
	})
}

package netpolicy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// heard gives a namespace with these hosts; blocked collects what it refused, met the
// limits that its program came to.
func heard(t testing.TB, hosts ...string) (s *Space, blocked, met func() []string) {
	var mu sync.Mutex
	lists := [2][]string{}
	add := func(to int, line string) {
		mu.Lock()
		defer mu.Unlock()
		lists[to] = append(lists[to], line)
	}
	get := func(from int) func() []string {
		return func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(lists[from])
		}
	}
	s = attached(t, Policy{
		Hosts: hosts, Blocked: func(h string, _ int) { add(0, h) },
		Limited: func(l Limit, host string) { add(1, l.Sentence(host)) },
	})
	return s, get(0), get(1)
}

// TestPace holds that a loop of connections or questions reaches the daemon so often a
// second and no more, and is told once: as what it tries where no rule lets that through,
// and else as a limit that it came to; and that a program of the same namespace still gets
// through.
func TestPace(t *testing.T) {
	i := outside(t)
	i.name("example.com", webAddr)
	const tries = 4 * beginBurst
	for _, c := range []struct {
		name string
		told string // which refused try
		met  string // or what the limit's sentence has
		to   netip.AddrPort
		udp  bool
	}{
		{"an address", webAddr + ":80", "", netip.MustParseAddrPort(webAddr + ":80"), false},
		{"an allowed host", "", "More than 500 connections a second were begun; those above that wait, such as one to example.com:80, which a rule lets through.", netip.AddrPortFrom(netip.Addr{}, 80), false},
		{"the proxy", "", "connections a second were begun", netip.MustParseAddrPort("127.0.0.1:15002"), false},
		{"the relay's own port", "127.0.0.1:15001", "", netip.MustParseAddrPort("127.0.0.1:15001"), false},
		{"names", "", "More than 500 questions a second", netip.MustParseAddrPort(netAddr + ":53"), true},
		{"the name server's own port", "", "questions a second", netip.MustParseAddrPort("127.0.0.1:15053"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, blocked, met := heard(t, "example.com")
			p := program{t, s}
			if !c.to.Addr().IsValid() {
				a, err := p.lookup("example.com", false)
				if err != nil {
					t.Fatal(err)
				}
				c.to = netip.AddrPortFrom(a, c.to.Port())
			}
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
			if c.told != "" && !eventually(func() bool { return slices.Equal(blocked(), []string{c.told}) }) {
				t.Errorf("told %q, want %s", blocked(), c.told)
			}
			has := func() (n int) {
				for _, m := range met() {
					if strings.Contains(m, c.met) {
						n++
					}
				}
				return n
			}
			if c.met != "" {
				if !eventually(func() bool { return has() == 1 }) {
					t.Errorf("told of the limits %q, want %s", met(), c.met)
				}
				if b := blocked(); len(b) > 0 {
					t.Errorf("told %q as refused, which a rule lets through", b)
				}
				if strings.Contains(c.met, "example.com") {
					return // the places are all taken by those that it began and left
				}
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
			if m := strings.Join(met(), " "); c.met == "" && strings.Contains(m, "a rule lets through") {
				t.Errorf("told of the limits %q, and no rule lets it through", m)
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
		tellAtOnce, tellMore := toldInAll.atOnce, toldInAll.more
		for k := range tellAtOnce + 50 {
			for range 2 {
				tl.refused("c" + strconv.Itoa(k) + ":1")
			}
		}
		lines("a thousand", tellAtOnce, 0)
		time.Sleep(tellEvery)
		lines("a minute later", tellMore+1, tellAtOnce-tellMore+2*50)
		for minute := range 20 {
			for k := range 3 * tellMore {
				tl.refused("d" + strconv.Itoa(minute) + "-" + strconv.Itoa(k) + ":1")
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

// TestTellerKeepsRoom holds that no noise hides a refused try of a host that a rule names,
// and none at one domain, or in one network, those of another; and that neither kind of
// room is without end.
func TestTellerKeepsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := map[string]int{}
		tl := &teller{
			tell:  func(h string, n int) { told[h] += n },
			named: func(h string) bool { return h == "model.example.com" || h == "10.0.0.5" },
		}
		defer tl.close()
		n := func(prefix, suffix string) (n int) {
			tl.mu.Lock()
			defer tl.mu.Unlock()
			for h := range told {
				if strings.HasPrefix(h, prefix) && strings.HasSuffix(h, suffix) {
					n++
				}
			}
			return n
		}
		heard := func(host string) {
			t.Helper()
			tl.refused(host)
			if n(host, "") == 0 {
				t.Errorf("%s is told by nobody", host)
			}
		}
		const many = 3000
		for k := range many {
			tl.refused(fmt.Sprintf("x%d.evil.co.uk:53", k))         // one domain
			tl.refused(fmt.Sprintf("172.16.%d.%d:22", k>>8, k&255)) // one network
			tl.refused(fmt.Sprintf("[2001:db8:1::%x]:22", k))       // another one
			tl.refused(fmt.Sprintf("192.0.2.1:%d", k))              // one address
		}
		for _, c := range []struct{ prefix, suffix string }{{"x", ".evil.co.uk:53"}, {"172.16.", ":22"}, {"[2001:db8:1::", ":22"}, {"192.0.2.1:", ""}} {
			if got := n(c.prefix, c.suffix); got != toldOfOne.atOnce {
				t.Errorf("%s…%s: %d lines, want %d", c.prefix, c.suffix, got, toldOfOne.atOnce)
			}
		}
		heard("secret.data.example.org:53")
		heard("other.co.uk:443")
		heard("172.17.0.1:22")
		heard("[2001:db8:2::1]:22")
		for k := range many {
			tl.refused(fmt.Sprintf("host%d.test:443", k)) // ever new ones: now there is room for nobody else
		}
		tl.refused("late.example:443")
		if got := n("late.example", ""); got != 0 {
			t.Error("there is room without end")
		}
		heard("model.example.com:443")
		heard("10.0.0.5:22")
		for k := range many {
			tl.refused(fmt.Sprintf("model.example.com:%d", 1000+k))
		}
		if got := n("model.example.com:", ""); got != toldOfNamed.atOnce {
			t.Errorf("of a host that a rule names %d lines, want %d", got, toldOfNamed.atOnce)
		}
		heard("10.0.0.5:23")
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		tl.mu.Lock()
		defer tl.mu.Unlock()
		if len(tl.shares) > 0 || len(tl.counts) > 0 || tl.timer != nil {
			t.Errorf("a day later %d shares and %d counts are kept", len(tl.shares), len(tl.counts))
		}
	})
}

// TestLimiter holds that a limit is told at once and then once an hour, each by itself.
func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		m := limiter{tell: func(l Limit, host string) { told = append(told, fmt.Sprint(int(l), " ", host)) }}
		for range 3 {
			m.met(LimitOpen, "a:1")
			m.met(LimitBegun, "b:1")
		}
		time.Sleep(limitEvery - time.Second)
		m.met(LimitOpen, "c:1")
		time.Sleep(time.Second)
		m.met(LimitOpen, "d:1")
		if want := []string{"2 a:1", "0 b:1", "2 d:1"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		(&limiter{}).met(LimitOpen, "") // nobody listens
	})
}

// TestNamedHosts holds that a try at another port of a host that a rule names is told after
// any noise, as the rules are at that moment.
func TestNamedHosts(t *testing.T) {
	i := outside(t)
	i.name("example.com", webAddr)
	i.name("example.net", webAddr)
	s, blocked, _ := heard(t, "example.com:81", lanAddr+":81")
	p := program{t, s}
	for k := range 2 * toldInAll.atOnce {
		s.tell.refused(fmt.Sprintf("host%d.test:443", k))
	}
	told := func(host string, want bool) {
		t.Helper()
		s.tell.mu.Lock()
		more := s.tell.more
		s.tell.mu.Unlock()
		a, err := netip.ParseAddr(host)
		if err != nil {
			if a, err = p.lookup(host, false); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := p.dial("tcp", netip.AddrPortFrom(a, 82).String()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: %v", host, err)
		}
		is := func() bool { return slices.Contains(blocked(), host+":82") }
		if !eventually(func() bool {
			s.tell.mu.Lock()
			defer s.tell.mu.Unlock()
			return is() || s.tell.more > more
		}) || is() != want {
			t.Errorf("%s is told: %v, want %v", host, is(), want)
		}
	}
	told("example.com", true)
	told(lanAddr, true)
	told(webAddr, false) // an address that no rule names is one of many
	if err := s.SetHosts([]string{"example.net:81"}); err != nil {
		t.Fatal(err)
	}
	told("example.net", true)
}

package netpolicy

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestRefusedAtConnect holds that what no rule lets through is refused before a program
// believes that it has a connection, not reset afterwards.
func TestRefusedAtConnect(t *testing.T) {
	i := outside(t)
	i.name("example.com", webAddr)
	i.name("box.example.com", boxAddr)
	s, _ := space(t, "example.com:80", "box.example.com")
	p := program{t, s}
	for _, addr := range []string{webAddr + ":80", "[" + webAddr6 + "]:443", "10.1.2.3:22", "198.18.9.9:1", "[2001:db8::2]:7700"} {
		if c, err := p.dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: %v, %v", addr, c, err)
		}
	}
	for _, v6 := range []bool{false, true} {
		if _, err := p.connect("example.com", 81, v6); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("another port: %v", err)
		}
		if _, err := p.connect("box.example.com", 80, v6); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("the box: %v", err)
		}
	}
}

// waits counts the connections of s that begin.
func (s *Space) waits() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.knocks)
}

// TestHostThatAnswersLate holds that a program waits for a host that is not there yet, and
// gets its connection once it is.
func TestHostThatAnswersLate(t *testing.T) {
	i := outside(t)
	const late = "192.0.2.90" // nobody answers for it until the test says so
	i.name("late.example.com", late)
	s, blocked := space(t, "late.example.com")
	p := program{t, s}
	a, err := p.lookup("late.example.com", false)
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		c   net.Conn
		err error
	}
	got, there := make(chan result, 1), make(chan struct{})
	go p.inside(func() {
		close(there)
		c, err := (&net.Dialer{Timeout: time.Minute}).Dial("tcp", netip.AddrPortFrom(a, 2600).String())
		got <- result{c, err}
	})
	<-there
	if !eventually(func() bool { return s.waits() == 1 || len(got) > 0 }) {
		t.Fatal("no connection waits")
	}
	select {
	case r := <-got:
		t.Fatalf("it has its answer already: %v", r.err)
	default:
	}
	serveAt(t, i, "0.0.0.0", 2600, func(c *net.TCPConn) { io.CopyN(c, c, 1) }) //nolint:errcheck // an echo that ends by itself: its address goes first
	i.addr(t, late)
	r := <-got
	if r.err != nil && !errors.Is(r.err, syscall.EHOSTUNREACH) { // the uplink's kernel may have given up just before
		t.Fatal(r.err)
	}
	if r.err == nil {
		defer r.c.Close()
		r.c.SetDeadline(time.Now().Add(time.Minute)) //nolint:errcheck // fresh
		write(t, r.c, "a")
		read(t, r.c, 1)
	}
	if !eventually(func() bool { return s.waits() == 0 }) {
		t.Error("a connection is still said to begin")
	}
	if b := blocked(); len(b) > 0 {
		t.Errorf("blocked %q", b)
	}
}

// TestGivesUp holds that a space ends although connections in it still begin, and that
// a program which gave up meanwhile holds no place.
func TestGivesUp(t *testing.T) {
	i := outside(t)
	i.name("silent.example.com", "198.51.100.78")
	s, _ := space(t, "silent.example.com")
	p := program{t, s}
	a, err := p.lookup("silent.example.com", false)
	if err != nil {
		t.Fatal(err)
	}
	p.inside(func() {
		_, err = (&net.Dialer{Timeout: 50 * time.Millisecond}).Dial("tcp", netip.AddrPortFrom(a, 80).String())
	})
	if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() {
		t.Errorf("%v, want its own time limit", err)
	}
	if !eventually(func() bool { return s.waits() == 0 }) {
		t.Error("it still holds a place")
	}
	there := make(chan struct{})
	go p.inside(func() {
		close(there)
		net.Dial("tcp", netip.AddrPortFrom(a, 80).String()) //nolint:errcheck // it never gets one
	})
	<-there
	if !eventually(func() bool { return s.waits() == 1 }) {
		t.Error("no connection waits")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestSharedPort holds that two connections from one address and port, whose ends in
// the box the kernel has to tell apart by another port, both come through.
func TestSharedPort(t *testing.T) {
	i := outside(t)
	i.name("a.example.com", webAddr)
	i.name("b.example.com", webAddr)
	serveTCP(t, i, 2700, func(c *net.TCPConn) { io.Copy(c, c) }) //nolint:errcheck // an echo
	s, _ := space(t, "*.example.com")
	p := program{t, s}
	for _, name := range []string{"a.example.com", "b.example.com"} {
		a, err := p.lookup(name, false)
		if err != nil {
			t.Fatal(err)
		}
		var c net.Conn
		p.inside(func() {
			d := net.Dialer{Timeout: time.Minute, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9), Port: 5555}, Control: func(_, _ string, rc syscall.RawConn) error {
				var serr error
				err := rc.Control(func(fd uintptr) {
					serr = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
				})
				return errors.Join(err, serr)
			}}
			c, err = d.Dial("tcp", netip.AddrPortFrom(a, 2700).String())
		})
		if err != nil {
			t.Fatal(name, ": ", err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(time.Minute)) //nolint:errcheck // fresh
		write(t, c, "a")
		read(t, c, 1)
	}
}

// TestLimitOfTheProxy holds that connections to the proxy count as all others do.
func TestLimitOfTheProxy(t *testing.T) {
	i := outside(t)
	i.name("example.com", webAddr)
	s, blocked, met := heard(t, "example.com")
	p := program{t, s}
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), proxyPort).String()
	for range MaxConns {
		if _, err := p.dial("tcp", at); err != nil {
			t.Fatal(err)
		}
	}
	if !eventually(func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.conns) == MaxConns
	}) {
		t.Fatal("not all of them are open")
	}
	c, err := p.dial("tcp", at)
	if err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("one more to the proxy: %v", err)
	}
	if _, err := p.connect("example.com", 80, false); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("one more to a host: %v", err)
	}
	if want := []string{LimitOpen.Sentence("")}; !eventually(func() bool { return slices.Equal(met(), want) }) || len(blocked()) > 0 {
		t.Errorf("told of the limits %q, want %q, and of %q as refused", met(), want, blocked())
	}
}

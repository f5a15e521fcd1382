package netpolicy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestIdle holds that connections which say nothing for long, ten minutes in the long
// form, live on, and that a client which looks nothing up again reconnects by the
// address that it was given long ago: pooled clients keep both for as long.
func TestIdle(t *testing.T) {
	long := time.Second
	if os.Getenv("BOX_TEST_ALL") != "" {
		t.Parallel()
		long = 10*time.Minute + 10*time.Second
	}
	i := outside(t)
	i.name("example.com", webAddr)
	serveTCP(t, i, 2800, func(c *net.TCPConn) { io.Copy(c, c) }) //nolint:errcheck // an echo
	serveTCP(t, i, 2801, func(c *net.TCPConn) {
		b := bufio.NewReader(c)
		for {
			if _, err := http.ReadRequest(b); err != nil {
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") //nolint:errcheck // the client tells
		}
	})
	s, blocked := space(t, "example.com")
	p := program{t, s}
	a, err := p.lookup("example.com", false)
	if err != nil {
		t.Fatal(err)
	}
	const ask, ok = "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	kinds := []struct {
		name, at, say, want string
		proxied             bool
	}{
		{"opaque", netip.AddrPortFrom(a, 2800).String(), "\x00hello\n", "\x00hello\n", false},
		{"HTTP", netip.AddrPortFrom(a, 2801).String(), ask, ok, false},
		{"by the proxy", "127.0.0.1:15002", "\x00hello\n", "\x00hello\n", true},
		{"not a word yet", netip.AddrPortFrom(a, 2800).String(), "", "", false},
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, k := range kinds {
		begin := func() net.Conn {
			c, err := p.dial("tcp", k.at)
			if err != nil {
				t.Errorf("%s: %v", k.name, err)
				return nil
			}
			c.SetDeadline(time.Time{}) //nolint:errcheck // fresh
			if k.proxied {
				io.WriteString(c, "CONNECT example.com:2800 HTTP/1.1\r\n\r\n") //nolint:errcheck // the read tells
				read(t, c, len(established200))
			}
			return c
		}
		turn := func(c net.Conn, say, want string) {
			c.SetDeadline(time.Now().Add(time.Minute)) //nolint:errcheck // open
			if _, err := io.WriteString(c, say); err != nil {
				t.Errorf("%s: %v", k.name, err)
				return
			}
			b := make([]byte, len(want))
			if _, err := io.ReadFull(c, b); err != nil || string(b) != want {
				t.Errorf("%s: %q, %v", k.name, b, err)
			}
			c.SetDeadline(time.Time{}) //nolint:errcheck // open
		}
		c := begin()
		if c == nil {
			continue
		}
		turn(c, k.say, k.want)
		wg.Go(func() {
			select {
			case <-time.After(long):
			case <-t.Context().Done():
				return
			}
			say, want := k.say, k.want
			if say == "" {
				say, want = "\x00hello\n", "\x00hello\n"
			}
			turn(c, say, want)
			if again := begin(); again != nil {
				turn(again, say, want)
			}
		})
	}
	wg.Wait()
	if b := blocked(); len(b) > 0 {
		t.Errorf("blocked %q", b)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	n := 0
	for _, r := range i.seen {
		if strings.HasPrefix(r, "dns ") {
			n++
		}
	}
	t.Logf("idle for %v; %d look-ups outside", long, n)
}

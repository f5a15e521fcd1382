package netpolicy

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
)

// TestAnyPublic holds an app's network: any public host by name and address, a private
// one only as declared host:port, never the box, its loopback or a synthetic address;
// whom it reached is told; and the rules change under open connections.
func TestAnyPublic(t *testing.T) {
	i := outside(t)
	for name, addr := range map[string]string{
		"example.com": webAddr, "nas.lan": lanAddr, "printer.lan": lanAddr, "box.example.com": boxAddr, "meta.example.com": metaAddr,
		"loop.example.com": "127.0.0.1", "mapped.example.com": "64:ff9b::a09:909", "synthetic.example.com": "198.18.0.17",
	} {
		i.name(name, addr)
	}
	for _, addr := range []string{webAddr, lanAddr} {
		serveAt(t, i, addr, 2500, func(c *net.TCPConn) { io.Copy(c, c) }) //nolint:errcheck // an echo
	}
	reached := theBox(t)

	var mu sync.Mutex
	var told, blocked []string
	add := func(to *[]string, h string) {
		mu.Lock()
		defer mu.Unlock()
		*to = append(*to, h)
	}
	declared := []string{"nas.lan:2500", lanAddr + ":2500"}
	s := attached(t, Policy{
		Hosts: declared, AnyPublic: true,
		Blocked: func(h string, _ int) { add(&blocked, h) }, Reached: func(h string) { add(&told, h) },
	})
	p := program{t, s}
	echo := func(name string, port uint16) (net.Conn, error) {
		var c net.Conn
		var err error
		if addrLike(name) {
			c, err = p.dial("tcp", net.JoinHostPort(name, "2500"))
		} else {
			c, err = p.connect(name, port, false)
		}
		if err != nil {
			return nil, err
		}
		if _, err = c.Write([]byte("a")); err == nil {
			_, err = io.ReadFull(c, make([]byte, 1))
		}
		return c, err
	}
	open := map[string]net.Conn{}
	for _, host := range []string{"example.com", webAddr, "nas.lan", lanAddr} {
		c, err := echo(host, 2500)
		if err != nil {
			t.Errorf("%s: %v", host, err)
		}
		open[host] = c
	}
	for _, c := range []struct {
		name string
		port uint16
	}{
		{"printer.lan", 2500}, {"nas.lan", 80}, {"box.example.com", 7700}, {"meta.example.com", 80}, {"loop.example.com", 7700},
		{"mapped.example.com", 2500}, {"synthetic.example.com", 2500}, {boxAddr, 2500}, {metaAddr, 2500}, {"198.18.9.9", 2500}, {"missing.example.com", 80},
	} {
		if _, err := echo(c.name, c.port); err == nil {
			t.Errorf("%s port %d is reached", c.name, c.port)
		}
	}
	want := []string{"example.com:2500", webAddr + ":2500", "nas.lan:2500", lanAddr + ":2500"}
	mu.Lock()
	if !slices.Equal(told, want) {
		t.Errorf("told of %q, want %q", told, want)
	}
	mu.Unlock()

	gone := func(host string) {
		t.Helper()
		if _, err := open[host].Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the connection to %s lives on: %v", host, err)
		}
	}
	lives := func(host string) {
		t.Helper()
		write(t, open[host], "b")
		read(t, open[host], 1)
	}
	// The leave for any public host is none for a private one that is no longer declared.
	if err := s.SetRules(declared[1:], true); err != nil {
		t.Fatal(err)
	}
	gone("nas.lan")
	for _, h := range []string{"example.com", webAddr, lanAddr} {
		lives(h)
	}
	if err := s.SetRules(declared, false); err != nil {
		t.Fatal(err)
	}
	gone("example.com")
	gone(webAddr)
	lives(lanAddr)
	if _, err := echo("example.com", 2500); err == nil {
		t.Error("a host that is not declared is reached")
	}
	if _, err := echo("nas.lan", 2500); err != nil {
		t.Errorf("a declared host is not reached: %v", err)
	}
	reached(t)
	if err := s.SetRules([]string{"*"}, true); err == nil {
		t.Error("wrong rules are taken")
	}
}

func addrLike(s string) bool { return net.ParseIP(s) != nil }

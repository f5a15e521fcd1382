package netpolicy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	vnl "github.com/vishvananda/netlink"
)

// TestHalfOpen holds that what is half open for too long ends: a connection to a host that
// says nothing, a hello of TLS that is not said to its end, a request to the proxy that is
// not, and that none of them counts as a refused try.
func TestHalfOpen(t *testing.T) {
	i := outside(t)
	const silent = "198.51.100.99" // the internet's link takes what goes there, and nobody has the address
	up, err := vnl.LinkByName("up0")
	if err != nil {
		t.Fatal(err)
	}
	n := vnl.Neigh{LinkIndex: up.Attrs().Index, IP: net.ParseIP(silent), State: vnl.NUD_PERMANENT}
	i.do(func() {
		var far vnl.Link
		if far, err = vnl.LinkByName("net0"); err == nil {
			n.HardwareAddr = far.Attrs().HardwareAddr
		}
	})
	if err == nil {
		err = vnl.NeighSet(&n)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { vnl.NeighDel(&n) }) //nolint:errcheck // it ends with the namespace
	i.name("silent.example.com", silent)
	i.name("example.com", webAddr)
	s, blocked := space(t, "*.example.com", "example.com")
	s.n.dial.half = 2 * time.Second
	p := program{t, s}
	t.Run("a host that says nothing", func(t *testing.T) {
		for _, v6 := range []bool{false, true} {
			if _, err := p.connect("silent.example.com", 80, v6); !errors.Is(err, syscall.EHOSTUNREACH) {
				t.Errorf("v6 inside %v: %v", v6, err)
			}
		}
		if line, err := p.proxied("CONNECT silent.example.com:80 HTTP/1.1\r\n\r\n"); err != nil || !strings.Contains(line, " 502 ") {
			t.Errorf("the proxy says %q, %v", line, err)
		}
	})
	ends := func(t *testing.T, c net.Conn, err error, said string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		write(t, c, said)
		if out, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("it lives on, and says %q", out)
		}
	}
	t.Run("half a hello", func(t *testing.T) {
		c, err := p.connect("example.com", 443, false)
		ends(t, c, err, string(helloWith("example.com", nil)[:20]))
	})
	t.Run("half a request to the proxy", func(t *testing.T) {
		c, err := p.dial("tcp", fmt.Sprintf("127.0.0.1:%d", proxyPort))
		ends(t, c, err, "CONNECT exam")
	})
	if b := blocked(); len(b) > 0 {
		t.Errorf("told %q", b)
	}
}

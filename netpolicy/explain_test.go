package netpolicy

import (
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestExplain holds that the explanation is the verdict that a program gets.
func TestExplain(t *testing.T) {
	i := outside(t)
	i.name("example.com", webAddr, webAddr6)
	i.name("a.example.net", lanAddr)
	i.name("x.example.net", webAddr)
	i.name("lan.example.com", lanAddr)
	i.name("box.example.com", boxAddr)
	hosts := []string{"example.com:443", "*.example.net", "lan.example.com:80", "box.example.com:7700", "gone.example.com", "10.9.9.9:22"}
	p := Policy{Hosts: hosts, More: []string{"model.example.com:443"}}
	i.name("model.example.com", webAddr)
	for _, c := range []struct {
		ask, target string
		allowed     bool
		why         string
	}{
		{"example.com", "example.com:443", true, "The rule example.com:443 lets it through."},
		{"EXAMPLE.com.:443", "example.com:443", true, "example.com:443"},
		{"example.com:80", "example.com:80", false, "another port"},
		{"x.example.com", "x.example.com:443", false, "No rule names x.example.com."},
		{"a.example.net", "a.example.net:443", false, "where it leads is refused"},
		{"lan.example.com:80", "lan.example.com:80", true, "lan.example.com:80"},
		{"box.example.com:7700", "box.example.com:7700", false, "where it leads is refused"},
		{"gone.example.com", "gone.example.com:443", false, "does not resolve"},
		{"10.9.9.9:22", "10.9.9.9:22", true, "10.9.9.9:22"},
		{"model.example.com", "model.example.com:443", true, "brings for its model"},
		{"localhost", "localhost:443", false, "localhost is the sandbox itself"},
		{"127.9.9.9:80", "127.9.9.9:80", false, "127.9.9.9 is the sandbox itself"},
		{"[::1]:80", "[::1]:80", false, "::1 is the sandbox itself"},
		{"0.0.0.0:80", "0.0.0.0:80", false, "0.0.0.0 is the sandbox itself"},
		{"box:80", "box:80", false, "box is the sandbox itself"},
		{"x.example.net:53", "x.example.net:53", true, "port 53 without it gets the box's own name server"},
		{webAddr, webAddr + ":443", false, "exact address:port"},
		{"[2001:db8::1]", "[2001:db8::1]:443", false, "exact address:port"},
	} {
		e, err := p.Explain(t.Context(), c.ask)
		if err != nil || e.Target != c.target || e.Allowed != c.allowed || !strings.Contains(e.Why, c.why) {
			t.Errorf("%s: %+v, %v", c.ask, e, err)
		}
	}
	for _, wrong := range []string{"", ":443", "a b", "0x7f.1", "example.com:0", "example.com:x", "[::1"} {
		if e, err := p.Explain(t.Context(), wrong); err == nil {
			t.Errorf("%q: %+v", wrong, e)
		}
	}
}

// TestExplainIsTheVerdict holds that the explanation is what a program gets, with the
// proxy and without, with what its worker brings, and before and after its rules change.
func TestExplainIsTheVerdict(t *testing.T) {
	i := outside(t)
	reached := theBox(t)
	for name, addrs := range map[string][]string{
		"example.com": {webAddr}, "any.example.org": {webAddr}, "mixed.example.org": {lanAddr, webAddr}, "x.example.net": {webAddr}, "a.example.net": {lanAddr}, "example.net": {webAddr},
		"lan.example.com": {lanAddr}, "box.example.com": {boxAddr}, "meta.example.com": {metaAddr}, "mapped.example.com": {"64:ff9b::a09:909"}, "loop.example.com": {"127.0.0.1"},
		"model.example.com": {webAddr}, "modellan.example.com": {lanAddr}, "other.example.com": {webAddr}, "synthetic.example.com": {"198.18.0.16"},
	} {
		i.name(name, addrs...)
	}
	for _, addr := range []string{webAddr, lanAddr, metaAddr} {
		for _, port := range []int{3000, 3001} {
			serveAt(t, i, addr, port, func(c *net.TCPConn) { io.Copy(c, c) }) //nolint:errcheck // an echo
		}
	}
	const more = "mixed.example.org"
	policy := Policy{
		Hosts: []string{
			"example.com:3000", "any.example.org", more, "*.example.net", "lan.example.com:3000", "box.example.com:7700", "meta.example.com:3000", "mapped.example.com", "loop.example.com:7700",
			"gone.example.com", "synthetic.example.com:3000", lanAddr + ":3000", webAddr + ":3001",
		},
		More:  []string{"model.example.com:3000", "modellan.example.com:3000"},
		Names: filepath.Join(t.TempDir(), "names"),
	}
	s := attached(t, policy)
	p := program{t, s}
	stands, err := p.lookup(more, false) // an address that stands for it, as a program may have kept it
	if err != nil {
		t.Fatal(err)
	}
	direct := func(host string, port uint16) bool {
		a, err := netip.ParseAddr(host)
		if err != nil {
			if a, err = p.lookup(host, false); err != nil {
				return false
			}
		}
		c, err := p.dial("tcp", netip.AddrPortFrom(a, port).String())
		if err != nil {
			return false
		}
		defer c.Close()
		if _, err = c.Write([]byte("a")); err == nil {
			_, err = io.ReadFull(c, make([]byte, 1))
		}
		return err == nil
	}
	let := 0
	verdicts := func() {
		t.Helper()
		let = 0
		for _, host := range []string{
			"example.com", "EXAMPLE.com.", "any.example.org", more, "x.example.net", "a.example.net", "example.net", "lan.example.com", "box.example.com", "meta.example.com", "mapped.example.com", "loop.example.com",
			"gone.example.com", "model.example.com", "modellan.example.com", "other.example.com", "synthetic.example.com", "nowhere.example", "localhost", "box",
			lanAddr, webAddr, boxAddr, metaAddr, "127.0.0.1", "0.0.0.0", "::1", "::ffff:" + lanAddr, "64:ff9b::a09:909", "198.18.9.9", stands.String(),
		} {
			for _, port := range []uint16{3000, 3001, 7700} {
				at := net.JoinHostPort(host, strconv.Itoa(int(port)))
				e, err := policy.Explain(t.Context(), at)
				if err != nil {
					t.Fatal(err)
				}
				if port == 7700 && e.Allowed {
					continue // nobody but the box is at home there
				}
				if got := direct(host, port); got != e.Allowed {
					t.Errorf("%s: a program reaches it: %v; it is told %+v", at, got, e)
				}
				line, err := p.proxied("CONNECT " + at + " HTTP/1.1\r\n\r\n")
				if got := err == nil && strings.Contains(line, " 200 "); got != e.Allowed {
					t.Errorf("%s: the proxy says %q, %v; it is told %+v", at, line, err, e)
				}
				if e.Allowed {
					let++
				}
			}
		}
		reached(t)
	}
	verdicts()
	before := let
	if before < 10 {
		t.Errorf("only %d are let through", before)
	}
	if e, err := policy.Explain(t.Context(), net.JoinHostPort(stands.String(), "3000")); err != nil || e.Target != more+":3000" {
		t.Errorf("%s is explained as %+v, %v", stands, e, err)
	}
	policy.Hosts = policy.Hosts[3:] // as when the owner turns some off
	if err := s.SetHosts(policy.Hosts); err != nil {
		t.Fatal(err)
	}
	verdicts()
	if let >= before {
		t.Errorf("%d are let through, and %d were before the rules changed", let, before)
	}
}

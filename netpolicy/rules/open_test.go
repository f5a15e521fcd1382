package rules

import (
	"net/netip"
	"strings"
	"testing"
)

// TestOpen holds what an app's leave for any public host lets through, and that what it
// declares goes before it. private is for the dialler to refuse unless exact.
func TestOpen(t *testing.T) {
	declared := []string{"nas.lan:445", "*.example.net:8443", "10.0.0.5:22", "example.org"}
	open, err := ParseOpen(declared)
	if err != nil {
		t.Fatal(err)
	}
	only, err := ParseList(declared)
	if err != nil {
		t.Fatal(err)
	}
	const any = "any public host"
	for _, c := range []struct {
		name        string // or an address
		port        uint16
		open, only  string // the rule that lets it through, "" for none
		exact, some bool   // of the open set: the rule is exact; a port of the name is let through
	}{
		{"nas.lan", 445, "nas.lan:445", "nas.lan:445", true, true},
		{"nas.lan", 446, any, "", false, true},
		{"a.example.net", 8443, "*.example.net:8443", "*.example.net:8443", false, true},
		{"a.example.net", 443, any, "", false, true},
		{"example.org", 1, "example.org", "example.org", false, true},
		{"www.example.org", 443, any, "", false, true},
		{"printer", 631, any, "", false, true},
		{"localhost", 80, "", "", false, false},
		{"a.localhost", 80, "", "", false, false},
		{"ip6-loopback", 80, "", "", false, false},
		{"metadata.google.internal", 80, "", "", false, false},
		{"metadata", 80, "", "", false, false},
		{"127.1", 80, "", "", false, false},
		{"0x7f.1", 80, "", "", false, false},
		{"2130706433", 80, "", "", false, false},
		{"", 80, "", "", false, false},
		{"10.0.0.5", 22, "10.0.0.5:22", "10.0.0.5:22", true, false},
		{"10.0.0.5", 23, "", "", false, false},
		{"::ffff:10.0.0.5", 22, "10.0.0.5:22", "10.0.0.5:22", true, false},
		{"::ffff:10.0.0.6", 22, "", "", false, false},
		{"8.8.8.8", 53, any, "", false, false},
		{"2606:4700::1111", 443, any, "", false, false},
		{"64:ff9b::808:808", 443, any, "", false, false},
		{"64:ff9b::a00:6", 443, "", "", false, false},
		{"2002:a00:5::1", 23, "", "", false, false},
		{"8.8.8.8", 0, "", "", false, false},
		{"127.0.0.1", 7700, "", "", false, false},
		{"::1", 7700, "", "", false, false},
		{"0.0.0.0", 7700, "", "", false, false},
		{"::", 7700, "", "", false, false},
		{"169.254.169.254", 80, "", "", false, false},
		{"169.254.1.1", 80, "", "", false, false},
		{"fe80::1", 80, "", "", false, false},
		{"fd00:ec2::254", 80, "", "", false, false},
		{"192.168.1.1", 80, "", "", false, false},
		{"100.64.0.1", 80, "", "", false, false},
		{"fd12::1", 80, "", "", false, false},
		{"198.18.0.16", 80, "", "", false, false},
		{"fdb0:7057:6f73::10", 80, "", "", false, false},
		{"224.0.0.251", 5353, "", "", false, false},
		{"255.255.255.255", 9, "", "", false, false},
	} {
		match := func(s Set) (Rule, bool) {
			if a, err := netip.ParseAddr(c.name); err == nil {
				return s.MatchAddr(netip.AddrPortFrom(a, c.port))
			}
			return s.Match(c.name, c.port)
		}
		for _, set := range []struct {
			s    Set
			want string
		}{{open, c.open}, {only, c.only}} {
			r, ok := match(set.s)
			if ok != (set.want != "") || ok && r.String() != set.want {
				t.Errorf("%s port %d: %s, %v, want %q", c.name, c.port, r, ok, set.want)
			}
			if set.want != "" && set.want == c.open && r.Exact() != c.exact {
				t.Errorf("%s port %d: exact is %v", c.name, c.port, r.Exact())
			}
		}
		if got := open.Name(c.name); got != c.some && !strings.ContainsAny(c.name, ":") && !addrOf(c.name).IsValid() {
			t.Errorf("a port of %q: %v", c.name, got)
		}
	}
	if len(open.Rules()) != len(declared) {
		t.Errorf("the declared rules are %v", open.Rules())
	}
	if _, err := ParseOpen([]string{"example.com", "*"}); err == nil || !strings.HasPrefix(err.Error(), `hosts[1] "*": `) {
		t.Errorf("a wrong rule: %v", err)
	}
	if s, _ := ParseOpen([]string{"*"}); s.Name("example.com") {
		t.Error("a wrong list lets hosts through")
	}
}

func addrOf(s string) netip.Addr {
	a, _ := netip.ParseAddr(s) //nolint:errcheck // invalid where it is none
	return a
}

package netpolicy

import (
	"net/netip"
	"testing"

	"github.com/miekg/dns"

	"gurtos/netpolicy/rules"
)

// TestAnswersAlone holds that the answers for an allowed name are its own synthetic
// addresses and nothing else, whatever is asked: no name that it stands for, no hint of
// another service, address or key, no text; and that ten looks give the same.
func TestAnswersAlone(t *testing.T) {
	i := outside(t)
	i.name("far.example.org", webAddr, webAddr6)
	i.alias("example.com", "far.example.org")
	s, blocked := space(t, "example.com")
	p := program{t, s}
	v4, err4 := p.lookup("example.com", false)
	v6, err6 := p.lookup("example.com", true)
	if err4 != nil || err6 != nil || !rules.Synthetic4.Contains(v4) || !rules.Synthetic6.Contains(v6) {
		t.Fatalf("%v, %v, %v, %v", v4, v6, err4, err6)
	}
	for kind := range dns.TypeToString {
		switch kind {
		case dns.TypeNone, dns.TypeOPT, dns.TypeIXFR:
			continue // not asked as others are
		}
		for _, network := range []string{"udp", "tcp"} {
			m, err := p.ask(network, netip.AddrPortFrom(NameServer, 53).String(), "Example.com", kind)
			if err != nil || m.Rcode != dns.RcodeSuccess {
				t.Errorf("%s by %s: %v, %v", dns.TypeToString[kind], network, m, err)
				continue
			}
			want := map[uint16]int{dns.TypeA: 1, dns.TypeAAAA: 1, dns.TypeANY: 2}[kind]
			if len(m.Answer) != want || len(m.Ns) != min(1, max(0, 1-want)) || len(m.Extra) != 1 {
				t.Errorf("%s by %s: %v", dns.TypeToString[kind], network, m)
			}
			for _, rr := range m.Answer {
				a, ok := netip.Addr{}, false
				switch rr := rr.(type) {
				case *dns.A:
					a, ok = netip.AddrFromSlice(rr.A.To4())
				case *dns.AAAA:
					a, ok = netip.AddrFromSlice(rr.AAAA)
				}
				if !ok || a != v4 && a != v6 {
					t.Errorf("%s by %s: %v", dns.TypeToString[kind], network, rr)
				}
			}
			for _, rr := range m.Ns {
				if _, ok := rr.(*dns.SOA); !ok {
					t.Errorf("%s by %s: %v", dns.TypeToString[kind], network, rr)
				}
			}
		}
	}
	if b := blocked(); len(b) > 0 {
		t.Errorf("blocked %q", b)
	}
}

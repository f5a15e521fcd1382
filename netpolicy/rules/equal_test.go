package rules

import (
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"testing"
)

// naive decides as the specification words it, rule by rule, with no index: the set
// must never differ from it.
func naive(list []string, name string, port uint16) bool {
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	for _, r := range list {
		host, p, hasPort := strings.Cut(strings.ToLower(r), ":")
		host = strings.TrimSuffix(host, ".")
		if hasPort && p != strconv.Itoa(int(port)) {
			continue
		}
		if base, wild := strings.CutPrefix(host, "*."); wild {
			if strings.HasSuffix(name, "."+base) && !strings.HasPrefix(name, ".") {
				return true
			}
		} else if name == host {
			return true
		}
	}
	return false
}

// FuzzMatch holds Set.Match against naive, for ASCII names.
func FuzzMatch(f *testing.F) {
	f.Add("example.com *.example.net api.example.org:8080", "a.example.net", uint16(443))
	f.Add("*.a.example.com:1 a.example.com", "A.example.com.", uint16(1))
	f.Add("x.y.z *.y.z:7", "w.x.y.z", uint16(7))
	f.Add("a_b.c-d.e", "a_b.c-d.e", uint16(65535))
	f.Fuzz(func(t *testing.T, hosts, name string, port uint16) {
		var list []string
		for h := range strings.FieldsSeq(hosts) {
			if r, err := Parse(h); err == nil && !r.Addr().IsValid() && isASCII(h) && len(list) < Max {
				list = append(list, h)
			}
		}
		norm, err := Normalize(name)
		if err != nil || !isASCII(name) || port == 0 {
			return
		}
		set, err := ParseList(list)
		if err != nil {
			t.Fatal(err)
		}
		if _, got := set.Match(norm, port); got != naive(list, name, port) {
			t.Errorf("%q allows %q port %d: %v, the naive matcher says %v", list, name, port, got, !got)
		}
		if _, any := set.Match(norm, port); any && !set.Name(norm) {
			t.Errorf("%q allows a port of %q but not the name", list, name)
		}
	})
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0
}

// FuzzParse holds that a rule's spelling is stable, names no forbidden address, and
// that nothing makes the parser fall over.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"example.com", "*.bücher.example:1", "[2001:db8::1]:2", "192.0.2.1:3", "0x7f.1:4", "a。b:5", "ｅ.ｆ", "[::ffff:1.2.3.4]:6", "xn--bcher-kva.example"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := Parse(s)
		if err != nil {
			if err.Error() == "" || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: the reason is %q", s, err)
			}
			return
		}
		again, err := Parse(r.String())
		if err != nil || again != r {
			t.Errorf("%q is %q, which is %v, %v", s, r, again, err)
		}
		if a := r.Addr(); a.IsValid() && !Classify(a).nameable() {
			t.Errorf("%q names %s, %s", s, a, Classify(a))
		}
		if r.Host() == "" || strings.HasSuffix(r.Host(), ".") || r.Host() != strings.ToLower(r.Host()) {
			t.Errorf("%q has the host %q", s, r.Host())
		}
	})
}

// respell writes a name in another way that means the same.
func respell(r *rand.Rand, name string) string {
	var b strings.Builder
	for _, c := range name {
		switch n := r.IntN(6); {
		case n == 0 && c >= 'a' && c <= 'z':
			b.WriteRune(c - 'a' + 'A')
		case n == 1 && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9'):
			b.WriteRune(c - '!' + '！') // full width
		case n == 2 && c == '.':
			b.WriteString([]string{"。", "．", "｡"}[r.IntN(3)])
		default:
			b.WriteRune(c)
		}
	}
	if r.IntN(3) == 0 {
		b.WriteByte('.')
	}
	return b.String()
}

// TestEqualSpellings holds that equal spellings get equal verdicts, as rules and as
// what a program asks for.
func TestEqualSpellings(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	names := []string{"example.com", "a.example.com", "localhost", "metadata.google.internal", "com", "co.uk", "github.io", "a.b.c.d.example", "127.0.0.1", "192.0.2.7", "xn--bcher-kva.example", "x1-2.example", "-bad.example", "198.18.0.9"}
	for range 20_000 {
		name := names[r.IntN(len(names))]
		port := []string{"", ":443"}[r.IntN(2)]
		front := []string{"", "*."}[r.IntN(2)]
		other := respell(r, name)
		one, err1 := Parse(front + name + port)
		two, err2 := Parse(front + other + port)
		if one != two || (err1 == nil) != (err2 == nil) {
			t.Fatalf("%q: %v, %v; %q: %v, %v", front+name+port, one, err1, front+other+port, two, err2)
		}
		if err1 != nil || one.Addr().IsValid() {
			continue
		}
		set, err := ParseList([]string{front + other + port})
		if err != nil {
			t.Fatal(err)
		}
		for _, asked := range []string{name, "x." + name} {
			a, erra := Normalize(asked)
			b, errb := Normalize(respell(r, asked))
			if a != b || erra != nil || errb != nil {
				t.Fatalf("%q is %q, %v and %q, %v", asked, a, erra, b, errb)
			}
			if _, got := set.Match(b, 443); got != (asked == name) != (front != "") {
				t.Fatalf("%q allows %q: %v", front+other+port, b, got)
			}
		}
	}
	for _, same := range [][]string{
		{"192.0.2.1:80", "[::ffff:192.0.2.1]:80", "[::ffff:c000:201]:80", "[64:ff9b::192.0.2.1]:80", "[2002:c000:201::]:80", "１９２.0.2.1:80", "192.0.2.1.:80"},
		{"[2001:db8::1]:80", "[2001:DB8:0:0:0:0:0:1]:80", "[2001:db8:0::0.0.0.1]:80"},
	} {
		for _, s := range same {
			one, err := Parse(same[0])
			two, err2 := Parse(s)
			if err != nil || err2 != nil || one != two {
				t.Errorf("%s and %s: %v, %v", same[0], s, err, err2)
			}
		}
	}
}

// TestClassify holds what each kind of address is, and that every form that carries
// an IPv4 address is what that address is.
func TestClassify(t *testing.T) {
	for _, c := range []struct {
		addr string
		want Class
	}{
		{"1.1.1.1", Public}, {"8.8.8.8", Public}, {"192.0.2.1", Public}, {"198.51.100.1", Public}, {"203.0.113.1", Public}, {"198.17.255.255", Public}, {"198.20.0.0", Public},
		{"9.255.255.255", Public}, {"11.0.0.0", Public}, {"172.15.255.255", Public}, {"172.32.0.0", Public}, {"192.167.255.255", Public}, {"192.169.0.0", Public}, {"100.63.255.255", Public}, {"100.128.0.0", Public},
		{"126.255.255.255", Public}, {"128.0.0.0", Public}, {"169.253.255.255", Public}, {"169.255.0.0", Public}, {"223.255.255.255", Public}, {"2001:db8::1", Public}, {"2606:4700::1", Public}, {"2a00::1", Public},
		{"10.0.0.0", Private}, {"10.255.255.255", Private}, {"172.16.0.0", Private}, {"172.31.255.255", Private}, {"192.168.0.0", Private}, {"192.168.255.255", Private}, {"100.64.0.0", Private}, {"100.127.255.255", Private},
		{"fc00::1", Private}, {"fdff::1", Private}, {"fec0::1", Private}, {"feff::1", Private},
		{"127.0.0.0", Loopback}, {"127.255.255.255", Loopback}, {"::1", Loopback}, {"169.254.0.0", LinkLocal}, {"169.254.255.255", LinkLocal}, {"fe80::1", LinkLocal}, {"febf::1", LinkLocal},
		{"0.0.0.0", Unspecified}, {"::", Unspecified}, {"0.0.0.1", Reserved}, {"0.255.255.255", Reserved}, {"224.0.0.0", Multicast}, {"239.255.255.255", Multicast}, {"ff02::1", Multicast},
		{"240.0.0.0", Reserved}, {"255.255.255.255", Reserved}, {"192.0.0.1", Reserved}, {"192.88.99.1", Reserved}, {"::2", Reserved}, {"::7f00:1", Reserved}, {"64:ff9b:1::1", Reserved}, {"100::1", Reserved}, {"2001::1", Reserved}, {"2001:20::1", Reserved}, {"2001:2::1", Reserved}, {"2001:1ff::1", Reserved}, {"5f00::1", Reserved},
		{"::ffff:0:10.0.0.1", Reserved}, {"::ffff:0:7f00:1", Reserved}, {"64:ff9b:2::1", Reserved}, {"1fff::1", Reserved}, {"4000::1", Reserved}, {"2001:200::1", Public}, {"3fff:ffff::1", Public},
		{"169.254.169.254", Metadata}, {"169.254.170.2", Metadata}, {"100.100.100.200", Metadata}, {"192.0.0.192", Metadata}, {"168.63.129.16", Metadata}, {"fd00:ec2::254", Metadata}, {"fd20:ce::254", Metadata},
		{"198.18.0.0", Synthetic}, {"198.19.255.255", Synthetic}, {"fdb0:7057:6f73::1", Synthetic},
	} {
		a := netip.MustParseAddr(c.addr)
		if got := Classify(a); got != c.want {
			t.Errorf("%s is %s, want %s", a, got, c.want)
		}
		if !a.Is4() {
			continue
		}
		b := a.As4()
		mapped, nat64, sixto := netip.AddrFrom16(a.As16()), netip.MustParseAddr("64:ff9b::").As16(), netip.MustParseAddr("2002::").As16()
		copy(nat64[12:], b[:])
		copy(sixto[2:], b[:])
		for _, form := range []netip.Addr{mapped, netip.AddrFrom16(nat64), netip.AddrFrom16(sixto)} {
			if got := Classify(form); got != c.want {
				t.Errorf("%s is %s, want %s as %s is", form, got, c.want, a)
			}
		}
	}
	if got := Classify(netip.Addr{}); got != Reserved {
		t.Errorf("no address is %s", got)
	}
	if got := Classify(netip.MustParseAddr("fe80::1%eth0")); got != LinkLocal {
		t.Errorf("a zone makes it %s", got)
	}
}

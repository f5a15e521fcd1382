package rules

import (
	"strings"
	"testing"
)

// TestParse holds what a rule may be and its one spelling; want "" means refused
// with the given part of a sentence.
func TestParse(t *testing.T) {
	for _, c := range []struct{ in, want, why string }{
		{"example.com", "example.com", ""},
		{"EXAMPLE.org.", "example.org", ""},
		{"*.Example.com", "*.example.com", ""},
		{"example.com:8080", "example.com:8080", ""},
		{"*.example.com:8443", "*.example.com:8443", ""},
		{"bücher.example", "xn--bcher-kva.example", ""},
		{"BÜCHER.example", "xn--bcher-kva.example", ""},
		{"xn--bcher-kva.example", "xn--bcher-kva.example", ""},
		{"example。com", "example.com", ""},
		{"my_bucket.example.com", "my_bucket.example.com", ""},
		{"nas:445", "nas:445", ""},
		{"192.0.2.34:443", "192.0.2.34:443", ""},
		{"10.0.0.5:22", "10.0.0.5:22", ""},
		{"[2001:db8::1]:443", "[2001:db8::1]:443", ""},
		{"[2001:DB8:0::1]:443", "[2001:db8::1]:443", ""},
		{"[::ffff:192.0.2.34]:443", "192.0.2.34:443", ""},
		{"[64:ff9b::c000:222]:443", "192.0.2.34:443", ""},
		{"", "", "empty"},
		{".", "", "1 to 253"},
		{"*", "", "all hosts"},
		{"*.", "", "all hosts"},
		{"**.example.com", "", "only in front"},
		{"a*.example.com", "", "only in front"},
		{"a.*.example.com", "", "only in front"},
		{"*.*.example.com", "", "only in front"},
		{"*.com", "", "anyone can have a name"},
		{"*.COM.", "", "anyone can have a name"},
		{"*.co.uk", "", "anyone can have a name"},
		{"*.github.io", "", "anyone can have a name"},
		{"*.com:443", "", "anyone can have a name"},
		{"localhost", "", "the task itself"},
		{"LOCALHOST.", "", "the task itself"},
		{"localhost:80", "", "the task itself"},
		{"x.localhost", "", "the task itself"},
		{"*.localhost", "", "the task itself"},
		{"ｌｏｃａｌｈｏｓｔ", "", "the task itself"},
		{"127.0.0.1:80", "", "loopback"},
		{"127.1:80", "", "four decimal"},
		{"0x7f.1:80", "", "four decimal"},
		{"0x7f000001:80", "", "four decimal"},
		{"2130706433:80", "", "four decimal"},
		{"0177.0.0.1:80", "", "four decimal"},
		{"127.0.0.1.:80", "", "loopback"},
		{"１２７.0.0.1:80", "", "loopback"},
		{"[::1]:80", "", "loopback"},
		{"[::]:80", "", "unspecified"},
		{"0.0.0.0:1", "", "unspecified"},
		{"[::ffff:127.0.0.1]:80", "", "loopback"},
		{"[64:ff9b::7f00:1]:80", "", "loopback"},
		{"[2002:7f00:1::]:80", "", "loopback"},
		{"169.254.169.254:80", "", "metadata"},
		{"[fd00:ec2::254]:80", "", "metadata"},
		{"169.254.1.1:80", "", "link-local"},
		{"[fe80::1]:80", "", "link-local"},
		{"[fe80::1%eth0]:80", "", "zone"},
		{"224.0.0.1:80", "", "multicast"},
		{"255.255.255.255:80", "", "reserved"},
		{"198.18.0.1:80", "", "stands for names"},
		{"metadata.google.internal", "", "metadata"},
		{"192.0.2.34", "", "exact port"},
		{"[2001:db8::1]", "", "exact port"},
		{"2001:db8::1", "", "brackets"},
		{"[192.0.2.1]:80", "", "brackets"},
		{"[2001:db8::1", "", "ends with ]"},
		{"[2001:db8::1]x", "", "after ]"},
		{"a b.com", "", "spaces"},
		{"a\x00.com", "", "control"},
		{"x.com:99999", "", "1 to 65535"},
		{"x.com:0", "", "1 to 65535"},
		{"x.com:", "", "1 to 65535"},
		{"x.com:080", "", "1 to 65535"},
		{"x.com:+80", "", "1 to 65535"},
		{"http://x.com", "", "http://"},
		{"x.com/path", "", "path"},
		{"u:p@x.com", "", "user name"},
		{"a..com", "", "empty part"},
		{".com", "", "empty part"},
		{"-a.com", "", "valid host name"},
		{"a-.com", "", "valid host name"},
		{strings.Repeat("a", 64) + ".com", "", "63"},
		{strings.Repeat("a.", 130) + "com", "", "253"},
		{"exa$mple.com", "", "letters"},
		{"xn--a.com", "", "valid host name"},
	} {
		r, err := Parse(c.in)
		switch {
		case c.want == "" && err == nil:
			t.Errorf("Parse(%q) = %s, want a refusal with %q", c.in, r, c.why)
		case c.want == "" && !strings.Contains(err.Error(), c.why):
			t.Errorf("Parse(%q): %v, want %q in it", c.in, err, c.why)
		case c.want != "" && err != nil:
			t.Errorf("Parse(%q): %v, want %s", c.in, err, c.want)
		case c.want != "" && r.String() != c.want:
			t.Errorf("Parse(%q) = %s, want %s", c.in, r, c.want)
		}
	}
}

// TestMatch holds which host and port a rule lets through.
func TestMatch(t *testing.T) {
	s, err := ParseList([]string{"example.com", "*.example.net", "api.example.org:8080", "*.api.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		port uint16
		want string
	}{
		{"example.com", 22, "example.com"},
		{"a.example.com", 22, ""},
		{"example.net", 443, ""},
		{"a.example.net", 443, "*.example.net"},
		{"a.b.example.net", 443, "*.example.net"},
		{"evil-example.net", 443, ""},
		{"api.example.org", 8080, "api.example.org:8080"},
		{"api.example.org", 443, ""},
		{"x.api.example.org", 443, "*.api.example.org"},
		{"com", 443, ""},
		{"", 443, ""},
	} {
		r, ok := s.Match(c.name, c.port)
		if ok != (c.want != "") || ok && r.String() != c.want {
			t.Errorf("Match(%q, %d) = %s, %v, want %q", c.name, c.port, r, ok, c.want)
		}
	}
	if _, err := ParseList([]string{"example.com", "*.com"}); err == nil || !strings.HasPrefix(err.Error(), `hosts[1] "*.com": `) {
		t.Errorf("ParseList names the wrong rule: %v", err)
	}
}

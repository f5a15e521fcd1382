package netpolicy

import (
	"strings"
	"testing"
)

// TestExplain holds that the explanation is the verdict that a program gets.
func TestExplain(t *testing.T) {
	i := outside(t)
	i.name("example.com", webAddr, webAddr6)
	i.name("a.example.net", lanAddr)
	i.name("lan.example.com", lanAddr)
	i.name("box.example.com", boxAddr)
	hosts := []string{"example.com:443", "*.example.net", "lan.example.com:80", "box.example.com:7700", "gone.example.com", "10.9.9.9:22"}
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
		{webAddr, webAddr + ":443", false, "exact address:port"},
		{"[2001:db8::1]", "[2001:db8::1]:443", false, "exact address:port"},
	} {
		e, err := Explain(t.Context(), hosts, c.ask)
		if err != nil || e.Target != c.target || e.Allowed != c.allowed || !strings.Contains(e.Why, c.why) {
			t.Errorf("%s: %+v, %v", c.ask, e, err)
		}
	}
	for _, wrong := range []string{"", ":443", "a b", "0x7f.1", "example.com:0", "example.com:x", "[::1"} {
		if e, err := Explain(t.Context(), hosts, wrong); err == nil {
			t.Errorf("%q: %+v", wrong, e)
		}
	}
}

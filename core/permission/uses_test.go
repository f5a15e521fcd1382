package permission

import (
	"fmt"
	"testing"
)

// What is kept of an app has an end: the hosts that it used last.
func TestUsesHaveAnEnd(t *testing.T) {
	u, at := Uses{}, func(i int) string { return fmt.Sprintf("2026-12-01T%02d:%02d:00.000Z", i/60, i%60) }
	u.See("shop", at(0), Shell, "host:first.example")
	for i := range 3 * mostUsed {
		u.See("shop", at(i), fmt.Sprintf("host:h%d.example", i))
		u.Reached("shop", []string{"first.example:443", "elsewhere.example:443"}, at(i), Parsed{})
	}
	if n := len(u["shop"]); n != mostUsed+1 {
		t.Errorf("%d items, not %d hosts and the shell", n, mostUsed)
	}
	for item, want := range map[string]string{Shell: at(0), "host:first.example": at(3*mostUsed - 1), "host:h1.example": "", "host:h599.example": at(599)} {
		if got := u["shop"][item]; got != want {
			t.Errorf("%s: %q, not %q", item, got, want)
		}
	}
	u.See("shop", "2020-01-01T00:00:00.000Z", "host:back.example") // the clock was set back
	if u["shop"]["host:back.example"] == "" {
		t.Error("what was just used is forgotten")
	}
	var many []string
	for i := range 2 * mostUsed {
		many = append(many, fmt.Sprintf("host:m%d.example", i))
	}
	if u.See("shop", at(700), many...); len(u["shop"]) != mostUsed+1 {
		t.Errorf("%d items", len(u["shop"]))
	}
}

// A use is told of each rule that lets the host through.
func TestReached(t *testing.T) {
	all := []string{"host:*.example.com", "host:a.example.com", "host:a.example.com:443", "host:a.example.com:80", "host:b.example.com", "host:10.1.2.3:80", Shell}
	for _, row := range []struct {
		host string
		want []string
	}{
		{"a.example.com:443", []string{"host:*.example.com", "host:a.example.com", "host:a.example.com:443"}},
		{"example.com:443", nil},
		{"10.1.2.3:80", []string{"host:10.1.2.3:80"}},
		{"not a host", nil},
	} {
		u := Uses{}
		u.See("shop", "1", all...)
		u.Reached("shop", []string{row.host}, "2", Parsed{})
		n := 0
		for _, at := range u["shop"] {
			if at == "2" {
				n++
			}
		}
		for _, item := range row.want {
			if u["shop"][item] != "2" {
				t.Errorf("%s: %s was not used", row.host, item)
			}
		}
		if n != len(row.want) {
			t.Errorf("%s: %d uses, not %d", row.host, n, len(row.want))
		}
	}
}

package rules

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Two rules overlap exactly where some host and port fits both.
func TestOverlaps(t *testing.T) {
	names := []string{"a.example", "b.example", "x.a.example", "y.x.a.example", "a.exampl", "xa.example"}
	var hosts []string
	for _, n := range names {
		hosts = append(hosts, n, "q."+n, "r.q."+n)
	}
	r := rand.New(rand.NewPCG(1, 2))
	rule := func() string {
		s := names[r.IntN(len(names))]
		if r.IntN(2) == 0 {
			s = "*." + s
		}
		return s + []string{"", "", ":1", ":2"}[r.IntN(4)]
	}
	for range 5000 {
		x, y := rule(), rule()
		a, b, c, d := one(t, x), one(t, y), set(t, x), set(t, y)
		want := false
		for _, h := range hosts {
			for _, port := range []uint16{1, 2, 3} {
				_, in := c.Match(h, port)
				_, too := d.Match(h, port)
				want = want || in && too
			}
		}
		if a.Overlaps(b) != want || b.Overlaps(a) != want {
			t.Fatalf("%s and %s overlap: %v, and not %v", x, y, a.Overlaps(b), want)
		}
	}
	for _, row := range []struct {
		x, y string
		want bool
	}{
		{"192.0.2.1:80", "192.0.2.1:80", true}, {"192.0.2.1:80", "192.0.2.1:81", false}, {"192.0.2.1:80", "a.example:80", false},
		{"[::ffff:192.0.2.1]:80", "192.0.2.1:80", true},
	} {
		if got := one(t, row.x).Overlaps(one(t, row.y)); got != row.want {
			t.Error(fmt.Sprint(row, got))
		}
	}
}

func one(t *testing.T, s string) Rule {
	r, err := Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func set(t *testing.T, s string) Set {
	out, err := ParseList([]string{s})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

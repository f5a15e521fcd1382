package netpolicy

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"
)

// TestManyNames holds what happens where no more names have room: one that was of no use
// for long makes room for a new one, and none that is used or that a connection leads
// to; the address that it had stands for no other name, and all that is so after a
// restart.
func TestManyNames(t *testing.T) {
	file := t.TempDir() + "/names"
	n, err := openNames(file)
	if err != nil {
		t.Fatal(err)
	}
	name := func(k int) string { return fmt.Sprintf("h%d.example.com", k) }
	addr := func(name string) netip.Addr {
		t.Helper()
		v4, _, err := n.addrs(name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return v4
	}
	n.path = "" // a file for each would take long
	for k := range MaxNames {
		addr(name(k))
	}
	if _, _, err := n.addrs("one.more.example.com"); !errors.Is(err, errManyNames) {
		t.Errorf("one more name: %v", err)
	}
	zero, one, two, three := addr(name(0)), addr(name(1)), addr(name(2)), addr(name(3))
	for k, since := range map[int]time.Duration{0: 9 * forgetAfter, 1: 3 * forgetAfter, 2: 2 * forgetAfter, 3: 4 * forgetAfter} {
		n.byName[name(k)].used = time.Now().Add(-since)
	}
	n.open = func() map[string]bool { return map[string]bool{name(0): true} }
	n.name(three) // somebody connects to it
	n.path = file
	fresh := addr("one.more.example.com")
	if fresh == one {
		t.Errorf("%s stood for %s, and stands for another name at once", fresh, name(1))
	}
	check := func(when string) {
		t.Helper()
		for a, want := range map[netip.Addr]string{zero: name(0), one: "", two: name(2), three: name(3), fresh: "one.more.example.com"} {
			if got, _ := n.name(a); got != want {
				t.Errorf("%s: %s is %q, want %q", when, a, got, want)
			}
		}
		if len(n.byName) != MaxNames {
			t.Errorf("%s: %d names", when, len(n.byName))
		}
	}
	check("once one made room")
	if n, err = openNames(file); err != nil {
		t.Fatal(err)
	}
	check("after a restart")
	if _, _, err := n.addrs("another.example.com"); !errors.Is(err, errManyNames) {
		t.Errorf("one more name after a restart, when all may be in use: %v", err)
	}

	// Which of them is without a name for the longest is known after a restart.
	n.path = ""
	for k, since := range map[int]time.Duration{9: 5 * forgetAfter, 7: 4 * forgetAfter, 8: 3 * forgetAfter} {
		n.byName[name(k)].used = time.Now().Add(-since)
	}
	addr("b.example.com")
	addr("c.example.com")
	n.path = file
	addr("d.example.com")
	order := slices.Clone(n.freed)
	if want := []int{1, 9, 7, 8}; !slices.Equal(order, want) {
		t.Errorf("freed in the order %v, want %v", order, want)
	}
	if n, err = openNames(file); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(n.freed, order) {
		t.Errorf("after a restart the order is %v, and was %v", n.freed, order)
	}
	// An older build kept none, and what is no place of one that was forgotten is not taken.
	put := func(f string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(f), 0o600); err != nil {
			t.Fatal(err)
		}
		if n, err = openNames(file); err != nil {
			t.Fatal(err)
		}
	}
	put(`{"version":1,"names":["a.example","","b.example",""]}`)
	if want := []int{1, 3}; !slices.Equal(n.freed, want) {
		t.Errorf("of an older build: %v, want %v", n.freed, want)
	}
	put(`{"version":1,"names":["a.example","","b.example","",""],"freed":[4,-1,0,99,4,1]}`)
	if want := []int{4, 1, 3}; !slices.Equal(n.freed, want) {
		t.Errorf("with what can't be: %v, want %v", n.freed, want)
	}

	// Once all addresses were given out, those that stand for no name any more are again,
	// the one first that is so the longest.
	n = &names{byName: map[string]*named{}, list: make([]string, allNames), freed: []int{7, 5}}
	last := addr("a.example.com")
	if got, ok := n.name(last); !ok || got != "a.example.com" || n.byName[got].at != 7 {
		t.Errorf("%s is %q, at %d", last, got, n.byName["a.example.com"].at)
	}
	if v4, v6, err := n.addrs("b.example.com"); err != nil || n.byName["b.example.com"].at != 5 {
		t.Errorf("%s, %s, %v", v4, v6, err)
	}
}

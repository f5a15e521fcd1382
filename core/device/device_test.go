package device

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gurtos/core/durable"
	"gurtos/core/durable/powercut"
)

func open(t testing.TB, path string) *Devices {
	t.Helper()
	d, err := Open(durable.Disk, path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func pair(t testing.TB, d *Devices, role Role, name string) (Device, string) {
	t.Helper()
	c, err := d.Code(role)
	if err != nil {
		t.Fatal(err)
	}
	dev, token, err := d.Pair(c.Code, name, "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	return dev, token
}

func TestPairCheckRemove(t *testing.T) {
	path := filepath.Join(t.TempDir(), "devices.json")
	d := open(t, path)
	dev, token := pair(t, d, Owner, " Ada's phone ")
	if dev.Name != "Ada's phone" || dev.Role != Owner || token[0] != 'd' {
		t.Fatalf("%+v", dev)
	}
	b, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(b), token) || strings.Contains(string(b), token[1:]) {
		t.Fatal("the token is in the file", err)
	}
	d = open(t, path)
	got, gone, err := d.Check(token)
	if err != nil || got.ID != dev.ID {
		t.Fatal(got, err)
	}
	for _, wrong := range []string{"", "d", token + "x", token[:len(token)-1], strings.ToUpper(token)} {
		if _, _, err := d.Check(wrong); !errors.Is(err, ErrToken) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if _, err := d.Remove(dev.ID); err != nil {
		t.Fatal(err)
	}
	select {
	case <-gone:
	default:
		t.Error("nobody was told that the device is removed")
	}
	if _, _, err := d.Check(token); !errors.Is(err, ErrToken) {
		t.Error(err)
	}
	if _, _, err := open(t, path).Check(token); !errors.Is(err, ErrToken) {
		t.Error("removed in memory alone")
	}
	if _, err := d.Remove(dev.ID); !errors.Is(err, ErrMissing) {
		t.Error(err)
	}
}

func TestNamesAreToldApart(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "d"))
	a, _ := pair(t, d, Owner, "Phone")
	b, _ := pair(t, d, Member, "phone")
	if a.Name == b.Name || b.Name != "phone 2" {
		t.Errorf("%q %q", a.Name, b.Name)
	}
	for _, bad := range []string{"", "  ", strings.Repeat("x", 61), "a\nb", "a\u202eb", "Box Screen", "task ended", "undo", "asi1", "jira:ada"} {
		c, err := d.Code(Owner)
		if err != nil {
			t.Fatal(err)
		}
		var inv *Invalid
		if _, _, err := d.Pair(c.Code, bad, "x"); !errors.As(err, &inv) || inv.Field != "name" {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := d.Code("admin"); err == nil {
		t.Error("role admin was taken")
	}
}

func TestCodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := codes{now: time.Now}
		wrong := func(given, addr string) {
			t.Helper()
			var w *Wrong
			if _, err := c.redeem(given, addr); !errors.As(err, &w) {
				t.Fatalf("%q: %v", given, err)
			}
		}
		// Once.
		k := c.issue(Owner)
		if len(k.Code) != 8 || strings.Trim(k.Code, "0123456789") != "" {
			t.Fatal(k.Code)
		}
		if r, err := c.redeem(k.Code, "a"); err != nil || r != Owner {
			t.Fatal(r, err)
		}
		wrong(k.Code, "a")
		// Five minutes.
		k = c.issue(Member)
		time.Sleep(CodeLife)
		wrong(k.Code, "b")
		k = c.issue(Member)
		time.Sleep(CodeLife - time.Second)
		if r, err := c.redeem(k.Code, "b"); err != nil || r != Member {
			t.Fatal(r, err)
		}
		// Five wrong tries, wherever they come from.
		k = c.issue(Owner)
		for i := range WrongMost - 1 {
			wrong("x", string(rune('c'+i)))
		}
		if _, err := c.redeem(k.Code, "right"); err != nil {
			t.Fatal("void after four wrong tries: ", err)
		}
		k = c.issue(Owner)
		for i := range WrongMost {
			wrong("x", string(rune('m'+i)))
		}
		wrong(k.Code, "z")
	})
}

func TestTriesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := codes{now: time.Now}
		var slow *Slow
		for range addrTries {
			c.redeem("x", "a")
		}
		if _, err := c.redeem("x", "a"); !errors.As(err, &slow) || slow.After <= 0 || slow.After > tryWindow {
			t.Fatal(err)
		}
		k := c.issue(Owner)
		if _, err := c.redeem(k.Code, "a"); !errors.As(err, &slow) {
			t.Fatal("the limit of an address lets a right code through")
		}
		if _, err := c.redeem(k.Code, "b"); err != nil {
			t.Fatal("one address's tries stop another: ", err)
		}
		for i := range allTries {
			c.redeem("x", string(rune('A'+i)))
		}
		if _, err := c.redeem("x", "new"); !errors.As(err, &slow) {
			t.Fatal(err)
		}
		time.Sleep(tryWindow)
		k = c.issue(Owner)
		if _, err := c.redeem(k.Code, "a"); err != nil {
			t.Fatal(err)
		}
	})
}

func TestFilesThatAreRefused(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"version":2,"devices":[]}`, "version 2"},
		{`{"version":1,"devices":[{"id":"a","role":"owner","token":"zz"}]}`, "damaged at device 1"},
		{`nonsense`, "damaged"},
	} {
		path := filepath.Join(t.TempDir(), "devices.json")
		if err := os.WriteFile(path, []byte(c.in), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(durable.Disk, path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.in, err)
		}
		if b, _ := os.ReadFile(path); string(b) != c.in {
			t.Errorf("%s was changed", c.in)
		}
	}
}

// The power goes after each operation of a pairing and a removal: a token that
// was given holds, and one that was taken never comes back.
func TestPowerCut(t *testing.T) {
	for n := 0; ; n++ {
		dir := t.TempDir()
		path := filepath.Join(dir, "devices.json")
		first, taken := pair(t, open(t, path), Owner, "first")
		disk := powercut.New(dir)
		disk.CutAfter(n)
		steps, given := 0, ""
		d, err := Open(disk, path)
		if err == nil {
			var c Code
			if c, err = d.Code(Member); err != nil {
				t.Fatal(err)
			}
			if _, given, err = d.Pair(c.Code, "second", "x"); err == nil {
				steps++
				if _, err = d.Remove(first.ID); err == nil {
					steps++
				}
			}
		}
		if err != nil && !errors.Is(err, powercut.ErrOff) {
			t.Fatal(err)
		}
		if err := disk.Cut(uint64(n)); err != nil {
			t.Fatal(err)
		}
		again := open(t, path)
		if _, _, err := again.Check(given); steps >= 1 && err != nil {
			t.Fatalf("cut after %d: a token that was given is gone", n)
		}
		if _, _, err := again.Check(taken); (err == nil) != (steps < 2) && steps != 1 {
			t.Fatalf("cut after %d, %d answers: the first token: %v", n, steps, err)
		}
		if steps == 2 {
			return
		}
	}
}

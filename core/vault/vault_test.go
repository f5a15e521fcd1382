package vault

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gurtos/core/durable"
	"gurtos/core/durable/powercut"
)

// file is a vault file in a folder that only root may write.
func file(t testing.TB, text string, mode os.FileMode) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("needs root: a vault belongs to root")
	}
	path := filepath.Join(t.TempDir(), "vault.env")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t testing.TB, path string) *Vault {
	t.Helper()
	v, err := Open(durable.Disk, path)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestLinesThatAreRefused(t *testing.T) {
	const secret = "planted-value-77"
	for _, c := range []struct{ name, text, want string }{
		{"no equals sign", "A=12345678\n" + secret + "\n", "line 2 is no KEY=value"},
		{"lower case", "a=" + secret + "\n", "line 1 is no KEY=value"},
		{"space around", "\nKEY =" + secret, "line 2 is no KEY=value"},
		{"comment", "# " + secret, "line 1 is no KEY=value"},
		{"export", "export KEY=" + secret, "line 1 is no KEY=value"},
		{"no name", "=" + secret, "line 1 is no KEY=value"},
		{"twice", "A=" + secret + "\nA=" + secret, "line 2 sets a key that an earlier line sets"},
		{"empty value", "A=\n", "line 1 has a key without a value"},
		{"control character", "A=" + secret + "\x00", "line 1 has a value with control"},
		{"UTF-8", "A=" + secret + "\xff", "line 1 has a value with control characters or invalid UTF-8"},
		{"huge", "A=" + strings.Repeat("x", MaxValue+1), "line 1 has a value of more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := file(t, c.text, 0o600)
			_, err := Open(durable.Disk, path)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			if strings.Contains(err.Error(), secret) {
				t.Fatalf("the refusal holds the text: %v", err)
			}
		})
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o666} {
		path := file(t, "A=12345678\n", mode)
		if _, err := Open(durable.Disk, path); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("mode %04o", mode)) || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	path := file(t, "A=12345678\n", 0o600)
	if err := os.Chown(path, 1234, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(durable.Disk, path); err == nil || !strings.Contains(err.Error(), "user 1234") {
		t.Errorf("owner: %v", err)
	}
	link := filepath.Join(filepath.Dir(file(t, "", 0o600)), "link")
	if err := os.Symlink("vault.env", link); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(durable.Disk, link); err == nil || !strings.Contains(err.Error(), "not a plain file") {
		t.Errorf("link: %v", err)
	}
	open3 := file(t, "A=12345678\n", 0o600)
	if err := os.Chmod(filepath.Dir(open3), os.ModeSticky|0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(durable.Disk, open3); err == nil || !strings.Contains(err.Error(), "Move the vault") || strings.Contains(err.Error(), "chmod") {
		t.Errorf("folder: %v", err)
	}
	if err := os.Chmod(filepath.Dir(open3), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(durable.Disk, open3); err == nil || !strings.Contains(err.Error(), "chmod go-w") {
		t.Errorf("folder: %v", err)
	}
	if _, err := Open(durable.Disk, filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "install -m 600") {
		t.Errorf("missing: %v", err)
	}
}

func TestSetGetDelete(t *testing.T) {
	path := file(t, "OLD=value with = and spaces \r\n\n", 0o600)
	v := open(t, path)
	if got, _ := v.Get("OLD"); got != "value with = and spaces " {
		t.Fatalf("%q", got)
	}
	if err := v.Set("NEW", "12345678"); err != nil {
		t.Fatal(err)
	}
	if got, ok := v.Get("NEW"); !ok || got != "12345678" {
		t.Fatal("not in effect at once")
	}
	again := open(t, path)
	if got, ok := again.Get("NEW"); !ok || got != "12345678" {
		t.Fatal("not on disk")
	}
	a, b := v.List(), again.List()
	if len(a) != 2 || a[0].Name != "NEW" || a[1] != b[1] || a[0] != b[0] || a[0].SetAt == "" {
		t.Fatalf("%v %v", a, b)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info.Mode(), err)
	}
	if err := v.Delete("OLD"); err != nil {
		t.Fatal(err)
	}
	if _, ok := open(t, path).Get("OLD"); ok {
		t.Fatal("still on disk")
	}
	if err := v.Delete("OLD"); !errors.Is(err, ErrMissing) {
		t.Fatal(err)
	}
}

func TestValuesThatAreRefused(t *testing.T) {
	v := open(t, file(t, "", 0o600))
	for _, c := range []struct{ name, value, want string }{
		{"KEY", "1234567", "at least 8"},
		{"KEY", "ü234567", "at least 8"},
		{"KEY", "12345678\nOTHER=x", "line break"},
		{"KEY", "12345678\x00", "control"},
		{"KEY", strings.Repeat("x", MaxValue+1), "larger"},
		{"key", "12345678", "capital letters"},
		{"KEY\n", "12345678", "capital letters"},
		{"A=B", "12345678", "capital letters"},
		{strings.Repeat("K", 101), "12345678", "at most 100"},
	} {
		var bad *Invalid
		if err := v.Set(c.name, c.value); !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), c.value) {
			t.Errorf("%q %q: %v", c.name, c.value, err)
		}
	}
	if len(v.List()) != 0 {
		t.Error(v.List())
	}
}

func TestRedact(t *testing.T) {
	v := open(t, file(t, "LONG=s3cret/valu€ \"x\"\nPIN=4711\n", 0o600))
	value, _ := v.Get("LONG")
	in := "a " + value + " b " + base64.StdEncoding.EncodeToString([]byte("zz"+value)) + " 4711 x4711"
	got := v.Redact(in)
	if strings.Contains(got, value) || strings.Count(got, "[LONG]") != 2 || !strings.Contains(got, "[PIN] x4711") {
		t.Error(got)
	}
	raw, err := json.Marshal(map[string]any{"deep": []string{value}, "n": 4711})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(v.RedactJSON(raw)); got != `{"deep":["[LONG]"],"n":"[PIN]"}` {
		t.Error(got)
	}
	if err := v.Delete("PIN"); err != nil {
		t.Fatal(err)
	}
	if got := v.Redact("4711"); got != "4711" {
		t.Error("still taken out after it was deleted")
	}
}

func TestDamagedTimesAreACacheOnly(t *testing.T) {
	path := file(t, "A=12345678\n", 0o600)
	if err := os.WriteFile(path+".times", []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l := open(t, path).List(); len(l) != 1 || l[0].SetAt == "" {
		t.Error(l)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("A=1\nB=2\r\n"))
	f.Add([]byte("=\n\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		values, err := parse("v", b)
		if err != nil {
			return
		}
		for name, value := range values {
			if CheckName(name) != nil || value == "" || strings.ContainsAny(value, "\n\x00") {
				t.Fatalf("%q=%q", name, value)
			}
		}
	})
}

// The power goes after each operation of a Set and a Delete. Afterwards the vault
// opens and holds what was answered, and of what was not either all or nothing.
func TestPowerCut(t *testing.T) {
	run := func(n int) (steps int, fault error) {
		path := file(t, "OLD=old-value\n", 0o600)
		disk := powercut.New(filepath.Dir(path))
		disk.CutAfter(n)
		v, err := Open(disk, path)
		for _, do := range []func() error{
			func() error { return v.Set("NEW", "new-value") },
			func() error { return v.Delete("OLD") },
		} {
			if err == nil {
				if err = do(); err == nil {
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
		again, err := Open(durable.Disk, path)
		if err != nil {
			return steps, err
		}
		_, old := again.Get("OLD")
		value, isNew := again.Get("NEW")
		switch {
		case isNew && value != "new-value":
			return steps, fmt.Errorf("half a value: %q", value)
		case steps >= 1 && !isNew, steps == 2 && old, !isNew && !old:
			return steps, fmt.Errorf("after %d answers: old %v, new %v", steps, old, isNew)
		}
		return steps, nil
	}
	for n := 0; ; n++ {
		steps, fault := run(n)
		if fault != nil {
			t.Fatalf("cut after %d: %v", n, fault)
		}
		if steps == 2 {
			return
		}
	}
}

// A slow disk under a change holds up nobody whose result is read for secrets.
func TestChangeHoldsUpNoReader(t *testing.T) {
	path := file(t, "OLD_KEY=old-value-1\n", 0o600)
	disk := powercut.New(filepath.Dir(path))
	v, err := Open(disk, path)
	if err != nil {
		t.Fatal(err)
	}
	disk.Fail(func(powercut.Op) error {
		read := make(chan string, 1)
		go func() { read <- v.Redact("old-value-1") }()
		select {
		case got := <-read:
			if got != "[OLD_KEY]" {
				t.Errorf("%q", got)
			}
		case <-time.After(time.Minute):
			t.Error("nothing is read for secrets while a change is written")
		}
		return nil
	})
	if err := v.Set("NEW_KEY", "new-value-1"); err != nil {
		t.Fatal(err)
	}
}

// A key that is set anew has another time, however quickly, and so has one whose value a
// crash or a hand changed behind the box's back.
func TestAnotherValueHasAnotherTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vault.env")
	if err := Create(durable.Disk, path); err != nil {
		t.Fatal(err)
	}
	v, err := Open(durable.Disk, path)
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	for i := range 50 {
		if err := v.Set("SHOP_KEY", fmt.Sprintf("a value of its own %d", i)); err != nil {
			t.Fatal(err)
		}
		at := v.List()[0].SetAt
		if at == last {
			t.Fatalf("set twice at %s", at)
		}
		last = at
	}
	if again, err := Open(durable.Disk, path); err != nil || again.List()[0].SetAt != last {
		t.Fatal(err, again.List(), last)
	}
	set, err := time.Parse(timeForm, last)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"SHOP_KEY=a value by hand\n", "SHOP_KEY=another value by hand\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, set, set); err != nil { // within the same millisecond
			t.Fatal(err)
		}
		if again, err := Open(durable.Disk, path); err != nil || again.List()[0].SetAt == last {
			t.Fatal(err, again.List(), last)
		}
	}
}

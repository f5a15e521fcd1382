package planted

import (
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every spelling is found, at each offset, and nothing where there is none.
func TestFind(t *testing.T) {
	v := New("SHOP_KEY")
	if len(v) != 3 {
		t.Fatal(v)
	}
	for name, value := range v {
		for pad := range 3 {
			around := strings.Repeat("x", pad) + value + "yz"
			for how, text := range map[string]string{
				"plain": around, "hex": hex.EncodeToString([]byte(around)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(around))),
				"base64": base64.StdEncoding.EncodeToString([]byte(around)), "base64url": base64.RawURLEncoding.EncodeToString([]byte(around)), "part": value[:20],
			} {
				if found := v.Find([]byte("before " + text + " after")); len(found) == 0 || !strings.HasPrefix(found[0], name) {
					t.Errorf("%s in %s at %d: %v", name, how, pad, found)
				}
			}
		}
	}
	if found := v.Find([]byte(strings.Repeat("something else, or ", 1000))); found != nil {
		t.Error(found)
	}
}

// sink is a test that is told of errors and goes on.
type sink struct {
	testing.TB
	errors int
}

func (s *sink) Helper()               {}
func (s *sink) Error(...any)          { s.errors++ }
func (s *sink) Errorf(string, ...any) { s.errors++ }

// A file that holds a value is found, but for the vault itself.
func TestFiles(t *testing.T) {
	v, dir := New(), t.TempDir()
	v.Write(t, dir)
	if s := (&sink{TB: t}); true {
		if v.Files(s, dir); s.errors != 0 {
			t.Error("the vault itself is taken for a leak")
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "log.jsonl"), []byte("x"+v["PLANTED_KEY"]), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := (&sink{TB: t}); true {
		if v.Files(s, dir); s.errors != 1 {
			t.Error("a leak is not found")
		}
	}
}

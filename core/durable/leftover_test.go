package durable_test

import (
	"os"
	"path/filepath"
	"testing"

	"gurtos/core/durable"
)

// What stands where Replace writes first, from a crash or put there by somebody, is
// neither written to nor followed, and gives the file neither its mode nor its names.
func TestLeftoverIsNoWayIn(t *testing.T) {
	for name, put := range map[string]func(next, other string) error{
		"a link to another file": func(next, other string) error { return os.Symlink(other, next) },
		"a link to nothing":      func(next, other string) error { return os.Symlink(other+"-none", next) },
		"another name of a file": func(next, other string) error { return os.Link(other, next) },
		"a longer file":          func(next, _ string) error { return os.WriteFile(next, make([]byte, 9000), 0o666) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file, other := filepath.Join(dir, "vault.env"), filepath.Join(dir, "other")
			if err := os.WriteFile(other, []byte("somebody's"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := put(file+".new", other); err != nil {
				t.Fatal(err)
			}
			if err := durable.Replace(durable.Disk, file, []byte("A=12345678\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if text, err := os.ReadFile(other); err != nil || string(text) != "somebody's" {
				t.Errorf("the other file: %q %v", text, err)
			}
			if _, err := os.Lstat(other + "-none"); err == nil {
				t.Error("what the link named was made")
			}
			info, err := os.Lstat(file)
			if err != nil || info.Mode() != 0o600 {
				t.Fatalf("%v %v", info, err)
			}
			if text, err := os.ReadFile(file); err != nil || string(text) != "A=12345678\n" {
				t.Errorf("%q %v", text, err)
			}
			if _, err := os.Lstat(file + ".new"); err == nil {
				t.Error("something is left")
			}
		})
	}
}

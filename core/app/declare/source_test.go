package declare

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What an app's folder may not hold is told by its name, and nothing of it is read.
func TestReadSource(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("of the machine"), 0o600); err != nil {
		t.Fatal(err)
	}
	put := func(dir, name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, at string) {
		t.Helper()
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}
	sparse := func(name string, size int64) {
		t.Helper()
		f, err := os.Create(name)
		if err == nil {
			defer f.Close()
			err = f.Truncate(size)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		make func(dir string)
		want string // "" for nothing
	}{
		"a file":            {func(dir string) { put(dir, "parts/a.ts", "1;") }, ""},
		"hidden":            {func(dir string) { put(dir, ".git/config", "x"); link(secret, filepath.Join(dir, ".env")) }, ""},
		"a test and a demo": {func(dir string) { put(dir, "a.test.ts", "1;"); put(dir, "demo.ts", "1;") }, ""},
		"a link":            {func(dir string) { link(secret, filepath.Join(dir, "data")) }, "data is a link: an app's folder holds its files themselves"},
		"a link near":       {func(dir string) { link("track.ts", filepath.Join(dir, "too.ts")) }, "too.ts is a link"},
		"a link to nothing": {func(dir string) { link("/nowhere", filepath.Join(dir, "gone")) }, "gone is a link"},
		"a linked folder":   {func(dir string) { link(filepath.Dir(secret), filepath.Join(dir, "parts")) }, "parts is a link"},
		"a link for itself": {func(dir string) {
			os.Remove(filepath.Join(dir, "track.ts"))
			link(secret, filepath.Join(dir, "track.ts"))
		}, "track.ts is a link"},
		"a pipe": {func(dir string) {
			if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
				t.Fatal(err)
			}
		}, "pipe is neither a file nor a folder"},
		"no track.ts":    {func(dir string) { os.Remove(filepath.Join(dir, "track.ts")) }, "there is no track.ts in its folder"},
		"a large script": {func(dir string) { sparse(filepath.Join(dir, "much.ts"), maxSource+1) }, "much.ts is larger than 2 MB"},
		"a large file":   {func(dir string) { sparse(filepath.Join(dir, "data.bin"), maxFolder+1) }, "its folder holds more than 2000 files or 64 MB"},
		"many files": {func(dir string) {
			for i := range maxFiles {
				put(dir, fmt.Sprintf("f/%d", i), "")
			}
		}, "its folder holds more than 2000 files or 64 MB"},
		"broken package": {func(dir string) { put(dir, "package.json", "{") }, "package.json can't be read"},
		"absent package": {func(dir string) { put(dir, "package.json", `{"dependencies":{"absent":"1.0.0"}}`) }, "the package absent, which package.json names, is not installed"},
		"optional package": {func(dir string) {
			put(dir, "package.json", `{"optionalDependencies":{"absent":"1.0.0"},"peerDependencies":{"gone":"1"}}`)
		}, ""},
		"a package outside": {func(dir string) { put(dir, "package.json", `{"dependencies":{"../../friend":"1.0.0"}}`) }, "the package ../../friend, which package.json names, is not installed"},
		"a package of dots": {func(dir string) { put(dir, "package.json", `{"dependencies":{"..":"1.0.0"}}`) }, "the package .., which package.json names, is not installed"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, "tracks/one")
			put(dir, "track.ts", "export default { name: 'one' };")
			put(root, "tracks/friend/package.json", `{"name":"friend","version":"1.0.0"}`)
			c.make(dir)
			s, err := ReadSource("one", dir, "stamp")
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
				t.Fatalf("%v, not %q", err, c.want)
			}
			if err != nil {
				return
			}
			for _, f := range s.Files {
				if strings.HasPrefix(f.Path, ".") || strings.Contains(string(f.Text), "machine") || f.Path == "demo.ts" || f.Path == "a.test.ts" {
					t.Errorf("%s is read", f.Path)
				}
			}
		})
	}
	root := t.TempDir()
	put(root, "elsewhere/track.ts", "")
	link("elsewhere", filepath.Join(root, "one"))
	if _, err := ReadSource("one", filepath.Join(root, "one"), ""); err == nil || !strings.Contains(err.Error(), "is a link") {
		t.Errorf("a folder that is a link: %v", err)
	}
}

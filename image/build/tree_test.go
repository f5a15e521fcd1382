package build

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gurtos/image"
)

// plant makes files with modes in a folder.
func plant(t *testing.T, files map[string]fs.FileMode) string {
	t.Helper()
	dir := t.TempDir()
	for name, mode := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestClean(t *testing.T) {
	dir := plant(t, map[string]fs.FileMode{
		"usr/bin/su": 0o755 | fs.ModeSetuid, "usr/bin/wall": 0o755 | fs.ModeSetgid, "usr/bin/ls": 0o755,
		"usr/share/doc/git/copyright": 0o644, "usr/share/doc/git/news": 0o644, "usr/share/doc/empty/news": 0o644,
	})
	if err := unix.Mkfifo(dir+"/usr/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	err := clean(dir, image.Root{Drop: []string{"/usr/share/doc/*"}, Keep: []string{"/usr/share/doc/*/copyright"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{
		"usr/bin/su": 0o755, "usr/bin/wall": 0o755, "usr/bin/ls": 0o755, "usr/share/doc/git/copyright": 0o644,
		"usr/share/doc/git/news": 0, "usr/share/doc/empty": 0, "usr/pipe": 0,
	} {
		st, err := os.Lstat(filepath.Join(dir, name))
		switch {
		case want == 0 && err == nil:
			t.Errorf("%s stayed", name)
		case want != 0 && (err != nil || st.Mode() != want):
			t.Errorf("%s: %v, %v, want %v", name, st, err, want)
		}
	}
}

func TestCheckTasks(t *testing.T) {
	whole := func() string {
		dir := plant(t, map[string]fs.FileMode{"usr/bin/ls": 0o755})
		if err := lay(dir, image.Tasks); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for _, c := range []struct {
		holds string
		harm  func(dir string) error
		want  string
	}{
		{"the recipe's own root", func(string) error { return nil }, ""},
		{"a setuid file", func(d string) error { return os.Chmod(d+"/usr/bin/ls", 0o755|fs.ModeSetuid) }, "/usr/bin/ls in the tasks root"},
		{"a folder that sandboxes mount on is missing", func(d string) error { return os.Remove(d + "/work") }, "/work is missing"},
		{"resolv.conf is a link", func(d string) error {
			os.Remove(d + "/etc/resolv.conf")
			return os.Symlink("/run/x", d+"/etc/resolv.conf")
		}, "/etc/resolv.conf is missing in the tasks root, or is a link"},
		{"a socket", func(d string) error { return unix.Mknod(d+"/dev/log", unix.S_IFSOCK|0o666, 0) }, "/dev/log"},
	} {
		dir := whole()
		if err := c.harm(dir); err != nil {
			t.Fatal(err)
		}
		err := checkTasks(dir)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.holds, err, c.want)
		}
	}
}

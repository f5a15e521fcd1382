package layers

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOpenBeneathRefuses(t *testing.T) {
	dir := t.TempDir()
	os.MkdirAll(dir+"/in/sub", 0o755)
	os.WriteFile(dir+"/out", nil, 0o644)
	os.Symlink("sub", dir+"/in/link")
	for _, c := range []struct {
		name, dir, path string
		want            error
	}{
		{"a path upwards", dir + "/in", "../out", unix.EXDEV},
		{"an absolute path", dir + "/in", dir + "/out", unix.EXDEV},
		{"a link, even to what is beneath", dir + "/in", "link/.", unix.ELOOP},
		{"a magic link", "/proc/self", "cwd/.", unix.ELOOP},
		{"what is mounted beneath", "/", "proc/self", unix.EXDEV},
	} {
		d, err := os.Open(c.dir)
		if err != nil {
			t.Fatal(err)
		}
		f, err := openBeneath(int(d.Fd()), c.path, unix.O_PATH, 0)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v %v, want %v", c.name, f, err, c.want)
		}
		d.Close()
	}
}

// TestOpenFileLooksFirst: a pipe or device is not even opened.
func TestOpenFileLooksFirst(t *testing.T) {
	dir := t.TempDir()
	unix.Mkfifo(dir+"/pipe", 0o644)
	os.Symlink("/dev/null", dir+"/link")
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for name, want := range map[string]string{"pipe": "is a pipe", "link": "is a symlink", ".": "is a folder"} {
		if _, err := openFile(int(d.Fd()), name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckPath(t *testing.T) {
	for _, c := range []struct{ in, want, why string }{
		{"", ".", ""},
		{".", ".", ""},
		{"a//./b/", "a/b", ""},
		{"..a/b..", "..a/b..", ""},
		{"a/../b", "", `".."`},
		{"/a", "", "starts with a slash"},
		{"a\x00b", "", "zero byte"},
		{strings.Repeat("x", 256), "", "255"},
		{strings.Repeat("x/", 2100), "", "4,095"},
	} {
		got, err := checkPath(c.in)
		if c.why == "" && (err != nil || got != c.want) || c.why != "" && (err == nil || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("checkPath(%.20q) = %q, %v", c.in, got, err)
		}
	}
}

// A folder that a running task removed while it is looked at is an empty one: the
// cap is measured on, and changes are told.
func TestRemovedMeanwhile(t *testing.T) {
	dir := t.TempDir() + "/gone"
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	d, err := openDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if bytes, inodes, err := measure(d); err != nil || bytes != 0 || inodes != 0 {
		t.Errorf("measure = %d, %d, %v", bytes, inodes, err)
	}
}

func TestProbe(t *testing.T) {
	m := newMounter(t)
	dir := t.TempDir()
	if err := os.MkdirAll(dir+"/probe~/layer/upper/b", 0o755); err != nil { // as of a boxd that was killed
		t.Fatal(err)
	}
	if err := m.Probe(dir); err != nil {
		t.Error(err)
	}
	if e, _ := os.ReadDir(dir); len(e) != 0 {
		t.Error("left over: ", e)
	}
	// An overlay's own files can't be an upper layer.
	v := View{Layer: newLayer(t, filepath.Join(dir, "a"))}
	mt, err := m.Mount(v, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer mt.Close()
	onThread(t, mt, -1, func() {
		if err = unix.Mkdir("home", 0o755); err != nil {
			return
		}
		err = m.Probe("home") // by this thread's working folder
	})
	if err == nil || !strings.Contains(err.Error(), "can't hold the layers of tasks") {
		t.Errorf("a home on an overlay: %v", err)
	}
}

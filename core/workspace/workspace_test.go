package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gurtos/core/durable"
	"gurtos/core/durable/powercut"
	"gurtos/sandbox/layers"
)

func open(t testing.TB, dir string) *Workspaces {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("needs root: a workspace belongs to the layers' own user")
	}
	w, err := Open(durable.Disk, dir)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestMakeGetList(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "workspaces")
	w := open(t, dir)
	for _, name := range []string{"home", "a.b-c_9", "..."} {
		if _, err := w.Make(name); err != nil {
			t.Fatal(name, err)
		}
	}
	if _, err := w.Make("home"); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	info, err := os.Stat(filepath.Join(dir, "home"))
	if err != nil || info.Sys().(*syscall.Stat_t).Uid != layers.Canonical || info.Mode().Perm() != 0o755 {
		t.Error(info, err)
	}
	list, err := w.List()
	if err != nil || len(list) != 3 || list[2].Name != "home" || list[2].CreatedAt == "" {
		t.Error(list, err)
	}
}

func TestNamesThatAreRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "workspaces")
	w := open(t, dir)
	for _, name := range []string{"", ".", "..", "../etc", "a/b", "a~new", "é", "a b", "a\x00", strings.Repeat("x", 101)} {
		if _, err := w.Make(name); !errors.Is(err, ErrName) {
			t.Errorf("%q: %v", name, err)
		}
		if _, err := w.Get(name); !errors.Is(err, ErrName) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestLinksAreNoWorkspaces(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "workspaces")
	w := open(t, dir)
	if err := os.Symlink("/etc", filepath.Join(dir, "etc")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"etc", "file", "none"} {
		if _, err := w.Get(name); !errors.Is(err, ErrMissing) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.Make("etc"); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	if l, err := w.List(); err != nil || len(l) != 0 {
		t.Error(l, err)
	}
}

func TestCutInMakeIsCleared(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "workspaces")
	open(t, dir)
	if err := os.Mkdir(filepath.Join(dir, "home~new"), 0o755); err != nil {
		t.Fatal(err)
	}
	w := open(t, dir)
	if l, err := w.List(); err != nil || len(l) != 0 {
		t.Error(l, err)
	}
	if _, err := w.Make("home"); err != nil {
		t.Error(err)
	}
}

// The power goes after each operation of a Make: afterwards the workspace is
// there with its owner or not at all, and there when Make had answered.
func TestPowerCutInMake(t *testing.T) {
	for n := 0; ; n++ {
		dir := filepath.Join(t.TempDir(), "workspaces")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		disk := powercut.New(dir)
		disk.CutAfter(n)
		w, err := Open(disk, dir)
		if err == nil {
			_, err = w.Make("home")
		}
		if err != nil && !errors.Is(err, powercut.ErrOff) {
			t.Fatal(err)
		}
		if err := disk.Cut(uint64(n)); err != nil {
			t.Fatal(err)
		}
		after := open(t, dir)
		list, lerr := after.List()
		if lerr != nil || len(list) > 1 || err == nil && len(list) != 1 {
			t.Fatalf("cut after %d: %v %v, Make said %v", n, list, lerr, err)
		}
		if err == nil {
			return
		}
		if len(list) == 0 {
			if _, err := after.Make("home"); err != nil {
				t.Fatalf("cut after %d: %v", n, err)
			}
		}
	}
}

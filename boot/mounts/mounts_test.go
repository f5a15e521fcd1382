package mounts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSysctls(t *testing.T) {
	proc := t.TempDir()
	seen := map[string]bool{}
	for _, s := range Sysctls {
		if seen[s.Path] || s.Why == "" {
			t.Errorf("%s stands twice or has no reason", s.Path)
		}
		seen[s.Path] = true
		if s.Path == "dev/tty/legacy_tiocsti" {
			continue // a kernel before 6.2
		}
		path := filepath.Join(proc, "sys", s.Path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(proc, "sys/kernel/sysrq")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(proc, "sys/kernel/sysrq"), 0o755); err != nil { // refuses to be written
		t.Fatal(err)
	}
	absent, err := SetSysctls(proc)
	if strings.Join(absent, " ") != "dev.tty.legacy_tiocsti" {
		t.Errorf("absent = %v", absent)
	}
	if err == nil || !strings.Contains(err.Error(), "kernel.sysrq") {
		t.Errorf("err = %v, want one that names kernel.sysrq", err)
	}
	if got, _ := os.ReadFile(filepath.Join(proc, "sys/kernel/panic")); string(got) != "30" {
		t.Errorf("kernel.panic = %q", got)
	}
}

func TestControllers(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"cgroup.controllers": "cpuset cpu memory pids hugetlb\n", "cgroup.subtree_control": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	absent, err := EnableControllers(dir)
	if err != nil || strings.Join(absent, " ") != "io" {
		t.Errorf("absent %v, %v; want io", absent, err)
	}
}

// A table is gone through twice without harm, and a mount that can't be made is
// named.
func TestAll(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to mount")
	}
	root := t.TempDir()
	table := []Mount{
		{Source: "tmpfs", Target: "/t", Type: "tmpfs", Flags: unix.MS_NOSUID | unix.MS_NODEV, Data: "size=1m"},
		{Source: "x", Target: "/gone", Type: "nosuchfs", Optional: true},
	}
	t.Cleanup(func() { _ = unix.Unmount(filepath.Join(root, "t"), unix.MNT_DETACH) })
	for range 2 {
		if err := All(root, table); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Unmount(filepath.Join(root, "t"), 0); err != nil {
		t.Fatal(err)
	}
	if m, err := Mounted(filepath.Join(root, "t")); m || err != nil {
		t.Errorf("after one unmount something is still mounted (%v): the table mounted twice", err)
	}
	table[1].Optional = false
	if err := All(root, table); err == nil || !strings.Contains(err.Error(), "nosuchfs on /gone") {
		t.Errorf("All = %v", err)
	}
	if err := MakeFolders(root); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(filepath.Join(root, "var/tmp")); err != nil || fi.Mode().Perm() != 0o777 || fi.Mode()&os.ModeSticky == 0 {
		t.Errorf("/var/tmp: %v, %v", fi.Mode(), err)
	}
}

// The limit is that of the programs that init starts too, the hard one and the
// one in force.
func TestRaiseFiles(t *testing.T) {
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	want := was.Max - 1 // more is for a root that a machine lets do all
	if err := raiseFiles(want); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("/bin/sh", "-c", "ulimit -Hn; ulimit -Sn").Output()
	if got := string(out); err != nil || got != fmt.Sprintf("%d\n%d\n", want, want) {
		t.Errorf("a program that it starts may open %q files (%v), want %d", got, err, want)
	}
}

func TestProtect(t *testing.T) {
	group := filepath.Join(t.TempDir(), "services")
	if err := Protect(group); err != nil { // a kernel without the controllers
		t.Fatal(err)
	}
	for _, s := range shares {
		if err := os.WriteFile(filepath.Join(group, s.file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := Protect(group); err != nil {
		t.Fatal(err)
	}
	for _, s := range shares {
		if got, err := os.ReadFile(filepath.Join(group, s.file)); err != nil || string(got) != s.value {
			t.Errorf("%s: %q, %v", s.file, got, err)
		}
	}
}

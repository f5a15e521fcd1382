package app

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"gurtos/sandbox/layers"
)

// What an app puts in its folder can't lead out of it, whatever it is made of.
func TestCopyTree(t *testing.T) {
	out, root := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(out, "secret"), []byte("of the machine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "in/deep/node_modules"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"away": out, "in/away": out, "in/file": filepath.Join(out, "secret"), "in/up": "../..", "in/near": "deep"} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "in/deep/run.sh"), []byte("#!/bin/sh"), 0o4755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(root, "in/deep/run.sh"), 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(root, "in/pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, below := range []string{"away", "in/up", "../" + filepath.Base(out), "in/file", "none"} {
		if err := copyTree(root, below, t.TempDir()); err == nil {
			t.Errorf("%s was copied", below)
		}
	}
	to := t.TempDir()
	if err := copyTree(root, "in", to); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"away": out, "file": filepath.Join(out, "secret"), "up": "../..", "near": "deep"} {
		if got, err := os.Readlink(filepath.Join(to, name)); err != nil || got != want {
			t.Errorf("the link %s: %q, %v", name, got, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(to, "pipe")); err == nil {
		t.Error("a pipe was copied")
	}
	st, err := os.Stat(filepath.Join(to, "deep/run.sh"))
	if err != nil || st.Mode() != 0o755 {
		t.Errorf("a program: %v, %v", st, err)
	}
	var sys unix.Stat_t
	if err := unix.Lstat(filepath.Join(to, "deep/run.sh"), &sys); err != nil || sys.Uid != layers.Canonical || sys.Gid != layers.Canonical {
		t.Errorf("its owner: %d, %v", sys.Uid, err)
	}
}

package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
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
		if _, _, err := copyTree(t.Context(), root, below, t.TempDir()); err == nil {
			t.Errorf("%s was copied", below)
		}
	}
	to := t.TempDir()
	if _, _, err := copyTree(t.Context(), root, "in", to); err != nil {
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

func TestCopyTreeEnds(t *testing.T) {
	root := t.TempDir()
	at := func(depth int) string { return filepath.Join(root, "in", strings.Repeat("d/", depth)) }
	if err := os.MkdirAll(at(maxCopiedDeep-1), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, n, err := copyTree(t.Context(), root, "in", t.TempDir()); err != nil || n != maxCopiedDeep-1 {
		t.Errorf("%d folders: %v", n, err)
	}
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(errGone)
	if _, n, err := copyTree(gone, root, "in", t.TempDir()); !errors.Is(err, errGone) || n != 0 {
		t.Errorf("for nobody: %d, %v", n, err)
	}
	if err := os.Mkdir(at(maxCopiedDeep), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := copyTree(t.Context(), root, "in", t.TempDir()); err == nil || err.Error() != "the folder has more than 64 folders in one another" {
		t.Error(err)
	}
}

// An app has no end of workspaces, however small each is.
func TestAllThatAnAppCopies(t *testing.T) {
	for name, c := range map[string]struct {
		bytes int64
		files int
		fits  int
	}{
		"many":  {0, 0, maxWorkspaces},
		"large": {maxCopied, 1, maxAllCopied / maxCopied},
		"files": {1, maxCopiedFile, maxAllCopiedOne / maxCopiedFile},
	} {
		var m made
		one := func() (int64, int, error) { return c.bytes, c.files, nil }
		for i := range c.fits {
			if err := m.fill(one); err != nil {
				t.Errorf("%s, %d: %v", name, i, err)
			}
		}
		if err := m.fill(one); err == nil {
			t.Errorf("%s: one more than %d was made", name, c.fits)
		}
	}
	var m made
	failed := func() (int64, int, error) { return 0, maxAllCopiedOne, errGone }
	if err := m.fill(failed); !errors.Is(err, errGone) {
		t.Error(err)
	}
	if err := m.fill(failed); err == nil || errors.Is(err, errGone) {
		t.Errorf("what failed counts for nothing: %v", err)
	}
}

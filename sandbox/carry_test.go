package sandbox_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gurtos/sandbox"
	"gurtos/sandbox/layers"
	"gurtos/sandbox/sandboxtest"
)

func TestFiles(t *testing.T) {
	h := sandboxtest.Open(t)
	spec := sandboxtest.Spec(t, "/bin/sh", "-c", "read word <&3; echo $word there >&4; ls -l /proc/self/fd | wc -l")
	var in, out [2]*os.File
	for _, p := range []*[2]*os.File{&in, &out} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		p[0], p[1] = r, w
	}
	spec.Files = []*os.File{in[0], out[1]}
	sb := sandboxtest.Start(t, h, spec)
	in[0].Close()
	out[1].Close()
	if _, err := in[1].WriteString("hello\n"); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(out[0]) // ends only when nobody inside holds the other end
	if err != nil || string(got) != "hello there\n" {
		t.Errorf("the second file brought %q, %v", got, err)
	}
	if e := sb.Wait(); strings.TrimSpace(e.Output) != "7" { // total, 0, 1, 2, 3, 4 and the folder itself
		t.Errorf("open in the program: %s", e.Output)
	}
}

func TestTrees(t *testing.T) {
	h := sandboxtest.Open(t)
	var trees []sandbox.Tree
	for _, name := range []string{"one", "two"} {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
		trees = append(trees, sandbox.Tree{Name: name, View: layers.View{Base: dir}})
	}
	var printed bytes.Buffer
	spec := sandboxtest.Spec(t, "/bin/sh", "-c", `
		cat /opt/one/file /opt/two/file; ls /opt
		for p in /opt/x /opt/one/x /opt/one/file; do (echo x >$p) 2>/dev/null && echo wrote $p; done; true`)
	spec.Trees, spec.Output = trees, &printed
	e := sandboxtest.Start(t, h, spec).Wait()
	if e.Output != "onetwoone\ntwo\n" {
		t.Errorf("inside: %s (%v)", e.Output, e.Start)
	}
	if printed.String() != e.Output {
		t.Errorf("given as it came: %q", printed.String())
	}
	spec = sandboxtest.Spec(t, "/bin/true")
	spec.Trees = []sandbox.Tree{{Name: "../etc", View: trees[0].View}}
	if _, err := h.Start(t.Context(), spec); err == nil {
		t.Error("a tree with a path for its name was taken")
	}
}

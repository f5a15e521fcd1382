package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Debian 12's Go is too old to bring the one that go.mod names: the Makefile has it
// fetched as a module, and builds with that.
func TestMakeWithAnOldGo(t *testing.T) {
	dir, bin, newer := t.TempDir(), t.TempDir(), t.TempDir()
	script := func(name, text string, mode os.FileMode) {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("#!/bin/sh\n"+text), mode); err != nil {
			t.Fatal(err)
		}
	}
	script(bin+"/go", `case "$1 $2" in
version*) echo go version go1.19.8 linux/amd64 ;;
"mod download") test ! -e go.mod && test "$4" = golang.org/toolchain@v0.0.1-go1.99.1.linux-amd64 && printf '{\n\t"Dir": "`+newer+`",\n\t"Sum": "x"\n}\n' ;;
*) echo "the old Go was asked: $*" >&2; exit 1 ;;
esac
`, 0o755)
	// As the module cache has it: nothing may be run.
	script(newer+"/bin/go", "test $1 = version && echo go version go1.99.1 linux/amd64 || echo built\n", 0o644)
	script(newer+"/pkg/tool/linux_amd64/compile", "", 0o644)
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"Makefile": string(makefile), "go.mod": "module x\n\ngo 1.99\n\ntoolchain go1.99.1\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("make", "-s", "mkbox")
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + bin + ":/usr/bin:/bin", "HOME=" + dir}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "built" {
		t.Errorf("make mkbox: %v\n%s", err, out)
	}
	if st, err := os.Stat(newer + "/pkg/tool/linux_amd64/compile"); err != nil || st.Mode().Perm()&0o111 == 0 {
		t.Errorf("the compiler can't be run: %v, %v", st.Mode(), err)
	}
}

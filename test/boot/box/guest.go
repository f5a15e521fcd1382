package box

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gurtos/boot/modules"
	"gurtos/image/build"
	"gurtos/initramfs"
)

// GoBuild builds a static program for the guest.
func GoBuild(t testing.TB, pkg string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), filepath.Base(pkg))
	cmd := exec.Command("go", "build", "-o", file, "-ldflags=-s -w", pkg)
	cmd.Dir, cmd.Env = Root(), append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, text)
	}
	return file
}

// AddModules puts kernel modules of the image, what they stand on and their
// tables into an initramfs.
func AddModules(t testing.TB, tree *initramfs.Tree, img build.Image, names ...string) {
	t.Helper()
	to := "/lib/modules/" + filepath.Base(img.Modules) + "/"
	for _, table := range []string{"modules.dep", "modules.alias", "modules.softdep", "modules.builtin"} {
		tree.File(to+table, filepath.Join(img.Modules, table), 0o644)
	}
	dep, err := os.Open(filepath.Join(img.Modules, "modules.dep"))
	if err != nil {
		t.Fatal(err)
	}
	defer dep.Close()
	added, wanted := map[string]bool{}, map[string]bool{}
	for _, n := range names {
		wanted[n] = true
	}
	lines := bufio.NewScanner(dep)
	for lines.Scan() {
		file, deps, _ := strings.Cut(lines.Text(), ":")
		if !wanted[modules.Name(file)] {
			continue
		}
		delete(wanted, modules.Name(file))
		for _, f := range append(strings.Fields(deps), file) {
			if !added[f] {
				tree.File(to+f, filepath.Join(img.Modules, f), 0o644)
				added[f] = true
			}
		}
	}
	for n := range wanted {
		t.Fatalf("the image has no kernel module %s", n)
	}
}

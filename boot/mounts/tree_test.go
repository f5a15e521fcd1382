package mounts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The kernel takes what protects the services from tasks, whose group stands beside theirs.
func TestProtectOnTheKernel(t *testing.T) {
	const root = "/sys/fs/cgroup"
	var st unix.Statfs_t
	if err := unix.Statfs(root, &st); err != nil || st.Type != unix.CGROUP2_SUPER_MAGIC {
		t.Skip("needs control groups of version 2; the boot tests run this in the guest")
	}
	if absent, err := EnableControllers(root); err != nil || len(absent) > 0 {
		t.Fatalf("controllers: %v, absent %q", err, absent)
	}
	services, tasks := filepath.Join(root, "services-test"), filepath.Join(root, "tasks-test")
	t.Cleanup(func() { os.Remove(services); os.Remove(tasks) })
	if err := Protect(services); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(tasks, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ file, services, tasks string }{
		{"cpu.weight", "1000", "100"},
		{"memory.min", "134217728", "0"},
		{"io.weight", "default 1000", "default 100"},
		{"io.bfq.weight", "default 1000", "default 100"},
	} {
		for dir, want := range map[string]string{services: c.services, tasks: c.tasks} {
			text, err := os.ReadFile(filepath.Join(dir, c.file))
			if os.IsNotExist(err) && strings.HasPrefix(c.file, "io.") {
				t.Logf("this kernel has no %s", c.file)
				continue
			}
			if got := strings.TrimSpace(string(text)); err != nil || got != want {
				t.Errorf("%s of %s is %q, want %q (%v)", c.file, filepath.Base(dir), got, want, err)
			}
		}
	}
}

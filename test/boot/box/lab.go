package box

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"gurtos/image/build"
)

// Root is the source tree's folder.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}

// Built is the image that was built last. Without one the test fails: a boot
// test that is skipped is one that nobody misses. The quick loop (-short) has none.
func Built(t testing.TB) build.Image {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a machine: `make test` runs it")
	}
	img, err := build.Built(Root())
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// Keep is a folder for what a test leaves to look at. It goes when the test
// passes, unless BOX_KEEP is set.
func Keep(t testing.TB) string {
	t.Helper()
	all := filepath.Join(Root(), ".cache", "boot")
	if err := os.MkdirAll(all, 0o755); err != nil {
		t.Fatal(err)
	}
	name := strings.NewReplacer("/", "-", " ", "-").Replace(t.Name())
	dir, err := os.MkdirTemp(all, name+time.Now().Format("-0102-150405-*"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		switch {
		case t.Failed():
			t.Logf("what is left to look at: %s", dir)
		case os.Getenv("BOX_KEEP") == "":
			os.RemoveAll(dir)
		}
	})
	return dir
}

// Limit is how long something may take that takes d under KVM: emulation is
// about eight times slower, and machines that test are busy.
func Limit(accel string, d time.Duration) time.Duration {
	if accel == "kvm" {
		return 2 * d
	}
	return 10 * d
}

package power

import (
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestMounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mounts")
	if err := os.WriteFile(path, []byte(`/dev/vda2 / erofs ro 0 0
proc /proc proc rw 0 0
tmpfs /run tmpfs rw 0 0
/dev/vdb1 /data xfs rw 0 0
/dev/vdb1 /data/box/bind\040mount xfs rw 0 0
overlay /data/box/x overlay rw 0 0
cgroup2 /sys/fs/cgroup cgroup2 rw 0 0
`), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := mounted(path)
	if want := []string{"/data/box/x", "/data/box/bind mount", "/data"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("mounted = %v, %v; want %v", got, err, want)
	}
}

// A disk that no longer answers must not hold the end up.
func TestWithin(t *testing.T) {
	start := time.Now()
	within(log.New(io.Discard, "", 0), "write", 10*time.Millisecond, func() { select {} })
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("waited %v", took)
	}
}

package cgroup

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/opencontainers/cgroups"
	"golang.org/x/sys/unix"
)

// The libraries stand at versions that were judged: cgroups from v0.1.0 on works
// around a kernel fault (runc 5403, 5428), and runc 1.6 wants a library in Rust.
func TestVersions(t *testing.T) {
	b, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`opencontainers/cgroups v0\.([1-9]|\d\d)`, `opencontainers/runc v1\.5\.([3-9]|\d\d)`} {
		if !regexp.MustCompile(want).Match(b) {
			t.Errorf("go.mod has no %s", want)
		}
	}
}

// Who freezes a sandbox and who kills it, which thaws it with version 1, do so by a manager each. Neither takes the word of the other for its own.
func TestTwoManagers(t *testing.T) {
	g, err := New("/gurtos-test/managers", Limits{Memory: 1 << 30, Pids: 10, Weight: 100})
	if err != nil {
		t.Fatal(err)
	}
	own, err := g.m.GetCgroups()
	if err != nil {
		t.Fatal(err)
	}
	own.Resources.Freezer = cgroups.Frozen
	if got := g.Config.Resources.Freezer; got != cgroups.Undefined {
		t.Errorf("libcontainer's is told %q", got)
	}
	if own.Resources.Memory != g.Config.Resources.Memory || own.Path != g.Config.Path {
		t.Errorf("%+v and %+v", own, g.Config)
	}
}

// Where boxd has no descriptor left, a process that it can't open is not taken for one that is gone.
func TestNoDescriptors(t *testing.T) {
	sleep := exec.Command("sleep", "1000")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer sleep.Wait()
	defer sleep.Process.Kill()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	fd, err := openKilled(sleep.Process.Pid)
	if back := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); back != nil {
		t.Fatal(back)
	}
	if !errors.Is(err, unix.EMFILE) {
		t.Errorf("%d, %v", fd, err)
	}
}

func TestResources(t *testing.T) {
	r := Limits{Memory: 1 << 30, Pids: 10, Weight: 100, CPUMilli: 1500}.Resources()
	if r.Memory != 1<<30 || r.MemorySwap != r.Memory || *r.PidsLimit != 10 || r.CpuQuota != 150_000 || r.CpuPeriod != 100_000 {
		t.Errorf("%+v", r)
	}
	if none := (Limits{Memory: 1, Pids: 1, Weight: 1}).Resources(); none.CpuQuota != 0 || none.CpuPeriod != 0 {
		t.Errorf("no cap on the CPU is a quota of %d in %d µs", none.CpuQuota, none.CpuPeriod)
	}
	if r.Devices[0].Allow || len(r.Devices) != 9 {
		t.Errorf("device rules %+v", r.Devices)
	}
}

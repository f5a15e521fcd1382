package cgroup

import (
	"os"
	"regexp"
	"testing"
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

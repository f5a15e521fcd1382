package cgroup

import (
	"github.com/opencontainers/cgroups"
	devices "github.com/opencontainers/cgroups/devices/config"
)

// Limits of one group.
type Limits struct {
	Memory   int64 // bytes, with swap 0
	Pids     int64 // processes and threads
	Weight   int64 // share of processors and, with version 2, of disks against other groups, 1 to 10000
	CPUMilli int64 // thousandths of a core, 0 for no cap
}

const cpuPeriod = 100_000 // µs, the kernel's default

// Resources are the limits in the form that the manager sets.
func (l Limits) Resources() *cgroups.Resources {
	r := &cgroups.Resources{
		Memory:     l.Memory,
		MemorySwap: l.Memory, // memory and swap together: no swap
		PidsLimit:  &l.Pids,
		CpuShares:  uint64(max(2, l.Weight*1024/100)), // version 1: 1024 is the usual group, 100 in version 2
		Devices:    deviceRules(),
	}
	if l.CPUMilli > 0 { // a new group has no cap, and to say so once more costs a fifth of a millisecond
		r.CpuPeriod, r.CpuQuota = cpuPeriod, max(1000, l.CPUMilli*cpuPeriod/1000)
	}
	if Unified() {
		r.CpuShares = 0
		r.CpuWeight = uint64(l.Weight)
		r.Unified = map[string]string{"memory.oom.group": "1"} // one process out of memory ends them all, so that none goes on half
	}
	return r
}

// deviceRules let the six devices and terminals be used, and nothing be made.
func deviceRules() []*devices.Rule {
	rules := []*devices.Rule{{Type: devices.WildcardDevice, Major: devices.Wildcard, Minor: devices.Wildcard, Permissions: "rwm"}}
	for _, d := range []struct{ major, minor int64 }{
		{1, 3}, {1, 5}, {1, 7}, {1, 8}, {1, 9}, {5, 0}, // null, zero, full, random, urandom, tty
		{5, 2}, {136, devices.Wildcard}, // ptmx, terminals
	} {
		rules = append(rules, &devices.Rule{Type: devices.CharDevice, Major: d.major, Minor: d.minor, Permissions: "rw", Allow: true})
	}
	return rules
}

// Unified says whether the machine has version 2 alone.
func Unified() bool { return cgroups.IsCgroup2UnifiedMode() }

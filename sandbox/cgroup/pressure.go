package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
)

// Pressure is the share of the last ten seconds, in percent, in which some
// process of a group waited for a resource.
type Pressure struct{ CPU, Memory, IO float64 }

// Pressure reads the group's pressure; ok is false where the kernel has none.
func (g *Group) Pressure() (p Pressure, ok bool) {
	if !Unified() {
		return p, false
	}
	return pressure(g.m.Path(""), ".pressure")
}

// PressureOf reads the pressure of all groups at and below path, such as /gurtos/tasks.
func PressureOf(path string) (p Pressure, ok bool) {
	if !Unified() {
		return p, false
	}
	return pressure(filepath.Join(root, path), ".pressure")
}

// MachinePressure reads the whole machine's.
func MachinePressure() (p Pressure, ok bool) { return pressure("/proc/pressure", "") }

func pressure(dir, suffix string) (p Pressure, ok bool) {
	for _, f := range []struct {
		name string
		to   *float64
	}{{"cpu", &p.CPU}, {"memory", &p.Memory}, {"io", &p.IO}} {
		b, err := os.ReadFile(filepath.Join(dir, f.name+suffix))
		if err != nil {
			return p, false
		}
		if _, err := fmt.Sscanf(string(b), "some avg10=%f", f.to); err != nil {
			return p, false
		}
	}
	return p, true
}

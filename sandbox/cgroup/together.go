package cgroup

import (
	"fmt"
	"strconv"

	"github.com/opencontainers/cgroups"
	"golang.org/x/sys/unix"
)

// What all sandboxes together leave of the machine's memory, in bytes: an eighth, within
// these bounds, and never less than half.
const (
	leastLeft = 256 << 20
	mostLeft  = 1 << 30
)

// Together is how much memory all sandboxes may have together on a machine that has
// total bytes. Each has a limit of its own, but there may be more of them than the
// machine has memory for. Then one of them has to end before all of the machine searches
// for memory: the kernel throws out what it can read again, such as init's and boxd's
// programs, and is busy with that alone.
func Together(total int64) int64 {
	return total - min(max(total/8, leastLeft), mostLeft, total/2)
}

// holdTogether makes the group at parent and gives it that limit. Version 2 alone.
func holdTogether(parent string) error {
	g, err := New(parent, Limits{})
	if err != nil {
		return err
	}
	if err := g.m.Apply(-1); err != nil { // nothing is put in
		return fmt.Errorf("control group %s: %w", parent, err)
	}
	var si unix.Sysinfo_t
	if err := unix.Sysinfo(&si); err != nil {
		return fmt.Errorf("asking how much memory there is: %w", err)
	}
	limit := Together(int64(si.Totalram) * int64(si.Unit))
	if err := cgroups.WriteFile(g.m.Path(""), "memory.max", strconv.FormatInt(limit, 10)); err != nil {
		return fmt.Errorf("control group %s: %w", parent, err)
	}
	return nil
}

package cgroup

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/cgroups"
	_ "github.com/opencontainers/cgroups/devices" // or device rules fail
	"github.com/opencontainers/cgroups/manager"
)

// Group is the control group of one sandbox.
type Group struct {
	Config *cgroups.Cgroup // for libcontainer, which makes and enters the group
	m      cgroups.Manager
}

// Plan describes the group at path, such as /gurtos/tasks/s1, without making it. Find
// looks up where it lies, before anything else is done with it here.
func Plan(path string, l Limits) *Group {
	return &Group{Config: &cgroups.Cgroup{Path: path, Resources: l.Resources()}}
}

// Find reads the machine's tables of control groups, for some tenths of a millisecond.
func (g *Group) Find() (err error) {
	own, limits := *g.Config, *g.Config.Resources // libcontainer has the others meanwhile
	own.Resources = &limits                       // a manager notes there whether it freezes or thaws, and takes the other's word for its own
	if g.m, err = manager.New(&own); err != nil {
		return fmt.Errorf("control group %s: %w", g.Config.Path, err)
	}
	return nil
}

// New is a group whose place is found.
func New(path string, l Limits) (*Group, error) {
	g := Plan(path, l)
	return g, g.Find()
}

// Set changes the limits of the group, which must exist.
func (g *Group) Set(l Limits) error {
	r := l.Resources()
	if err := g.m.Set(r); err != nil {
		return fmt.Errorf("setting limits: %w", err)
	}
	return g.shareIO(l.Weight)
}

// shareIO gives the group its share of the disks, as the kernel's one or other
// scheduler of shares takes it; a kernel may have neither.
func (g *Group) shareIO(weight int64) error {
	if !Unified() {
		return nil
	}
	for file, weight := range map[string]int64{"io.weight": weight, "io.bfq.weight": min(weight, 1000)} {
		err := cgroups.WriteFile(g.m.Path(""), file, strconv.FormatInt(weight, 10))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("sharing out the disks: %w", err)
		}
	}
	return nil
}

// Freeze stops every process of the group until Thaw.
func (g *Group) Freeze() error { return g.m.Freeze(cgroups.Frozen) }

// Kill sends SIGKILL to every process of the group and waits for none. With version 1 one that is frozen ends once it
// is thawed, and does nothing before; with version 2 it ends as it is.
func (g *Group) Kill() error {
	dir := g.m.Path("freezer")
	if Unified() {
		dir = g.m.Path("")
	}
	return killIn(dir)
}

// Thaw lets them go on.
func (g *Group) Thaw() error { return g.m.Freeze(cgroups.Thawed) }

// Used is what a group used and ran into.
type Used struct {
	CPU       time.Duration
	MaxMemory int64 // bytes, 0 where the kernel doesn't tell
	OOMKills  int64 // processes killed for memory
	Full      int64 // how often its own limit left nothing to be had, 0 where the kernel doesn't tell
	NoPids    int64 // forks refused for the limit of processes
}

// Used reads the counters of the group, which must exist.
func (g *Group) Used() Used {
	var u Used
	if Unified() {
		dir := g.m.Path("")
		u.CPU = time.Duration(key(dir, "cpu.stat", "usage_usec")) * time.Microsecond
		u.MaxMemory = number(dir, "memory.peak")
		u.OOMKills = key(dir, "memory.events", "oom_kill")
		u.Full = key(dir, "memory.events", "oom")
		u.NoPids = key(dir, "pids.events", "max")
		return u
	}
	u.CPU = time.Duration(number(g.m.Path("cpuacct"), "cpuacct.usage"))
	u.MaxMemory = number(g.m.Path("memory"), "memory.max_usage_in_bytes")
	u.OOMKills = key(g.m.Path("memory"), "memory.oom_control", "oom_kill")
	u.NoPids = key(g.m.Path("pids"), "pids.events", "max")
	return u
}

func number(dir, file string) int64 {
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n
}

func key(dir, file, name string) int64 {
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	s := bufio.NewScanner(bytes.NewReader(b))
	for s.Scan() {
		if k, v, ok := strings.Cut(s.Text(), " "); ok && k == name {
			n, _ := strconv.ParseInt(v, 10, 64)
			return n
		}
	}
	return 0
}

// Missing names the controllers that limits need and this machine lacks. It
// must be called in the machine's own mount namespace before anything else
// here: opencontainers/cgroups keeps the root folder that it opens first.
func Missing(parent string) ([]string, error) {
	if _, err := cgroups.ReadFile(root, "cgroup.procs"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err // version 1 has no such file there
	}
	if Unified() {
		b, err := os.ReadFile(root + "/cgroup.controllers")
		if err != nil {
			return nil, err
		}
		return absent(strings.Fields(string(b)), "cpu", "memory", "pids"), nil
	}
	g, err := New(parent, Limits{})
	if err != nil {
		return nil, err
	}
	var have []string
	for name, path := range g.m.GetPaths() {
		if path != "" {
			have = append(have, name)
		}
	}
	return absent(have, "cpu", "memory", "pids", "devices", "freezer"), nil
}

// Prepare makes the group at parent, which Sweep removed, ready for groups in it. With
// version 2 it holds all of them together to a part of the machine's memory. With
// version 1 they begin with its processors, memory nodes and devices, and nothing
// has to be told to each. To tell a group its processors has the kernel lay out anew
// what runs where on the whole machine.
func Prepare(parent string) error {
	if Unified() {
		return holdTogether(parent)
	}
	g, err := New(parent, Limits{})
	if err != nil {
		return err
	}
	if err := g.m.Apply(-1); err != nil { // nothing is put in
		return fmt.Errorf("control group %s: %w", parent, err)
	}
	if err := g.m.Set(&cgroups.Resources{Devices: deviceRules()}); err != nil {
		return fmt.Errorf("control group %s: %w", parent, err)
	}
	if dir := g.m.Path("cpuset"); dir != "" {
		if err := cgroups.WriteFile(dir, "cgroup.clone_children", "1"); err != nil {
			return fmt.Errorf("control group %s: %w", parent, err)
		}
	}
	return nil
}

// SharesIO tells whether the machine shares out its disks by weight.
func SharesIO() bool {
	b, err := os.ReadFile(root + "/cgroup.controllers")
	return err == nil && Unified() && len(absent(strings.Fields(string(b)), "io")) == 0
}

func absent(have []string, want ...string) []string {
	var out []string
	for _, w := range want {
		found := false
		for _, h := range have {
			found = found || h == w
		}
		if !found {
			out = append(out, w)
		}
	}
	return out
}

const root = "/sys/fs/cgroup"

// ErrStays is returned by Sweep when a process would not die.
var ErrStays = errors.New("a process of an earlier boxd does not end")

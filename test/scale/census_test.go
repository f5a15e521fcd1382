package scale

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/sandbox/cgroup"
	"gurtos/sandbox/quota"
	"gurtos/test/daemon"
)

// patience is how long a box may take to come to rest on a busy machine.
const patience = 3 * time.Minute

// census is how many of each kind of thing a box has.
type census map[string]int

// diff names what there is more of than before.
func (c census) diff(before census) (more []string) {
	for what, n := range c {
		if n > before[what] {
			more = append(more, fmt.Sprintf("%s: %d, %d before", what, n, before[what]))
		}
	}
	return more
}

// group is the control group of a box's sandboxes, as core/box names it after its home.
func group(home *daemon.Home) string {
	sum := sha256.Sum256([]byte(home.Dir))
	return "/gurtos/tasks-" + hex.EncodeToString(sum[:5])
}

// state is the folder of a box's sandboxes.
func state(home *daemon.Home) string {
	return filepath.Join("/run/gurtos", filepath.Base(group(home)))
}

// take counts what a box that runs has.
func take(t *testing.T, home *daemon.Home, boxd *daemon.Daemon) census {
	t.Helper()
	c := left(t, home)
	proc := fmt.Sprintf("/proc/%d", boxd.PID())
	fds, err := os.ReadDir(proc + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		to, err := os.Readlink(filepath.Join(proc, "fd", fd.Name()))
		if err != nil {
			continue // closed meanwhile
		}
		kind, _, _ := strings.Cut(to, ":[")
		switch kind {
		case "net", "user", "mnt", "pid", "ipc", "uts", "cgroup":
			c["namespaces held: "+kind]++
		}
		if kind == "mnt" {
			c["mounts in namespaces"] += mountsIn(t, filepath.Join(proc, "fd", fd.Name()))
		}
		c["descriptors"]++
	}
	threads, err := filepath.Glob(proc + "/task/*/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range threads { // of the threads in which layers are mounted
		if text, err := os.ReadFile(m); err == nil && !strings.Contains(string(text), " /sys/fs/cgroup") {
			c["mounts of threads"] += strings.Count(string(text), "\n")
		}
	}
	for name, metric := range map[string]string{"goroutines": "gurtos_boxd_goroutines", "slots": "gurtos_sandbox_slots"} {
		c[name] = int(gauge(t, home, metric))
	}
	return c
}

// mountsIn counts the mounts of a namespace.
func mountsIn(t *testing.T, ns string) int {
	t.Helper()
	count := make(chan int)
	go func() {
		defer close(count)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		f, err := os.Open(ns)
		if err != nil {
			return // of a sandbox that has just ended
		}
		defer f.Close()
		if unix.Unshare(unix.CLONE_FS) != nil || unix.Setns(int(f.Fd()), unix.CLONE_NEWNS) != nil {
			return
		}
		// /proc of that namespace may not be ours.
		if text, err := os.ReadFile("/proc/thread-self/mountinfo"); err == nil {
			count <- strings.Count(string(text), "\n")
		}
	}()
	return <-count
}

// left counts what a box has whether it runs or not.
func left(t *testing.T, home *daemon.Home) census {
	t.Helper()
	c := census{}
	groups, err := cgroup.Children(group(home))
	if err != nil {
		t.Fatal(err)
	}
	c["control groups"] = len(groups)
	all, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if text, err := os.ReadFile(p); err == nil && strings.Contains(string(text), group(home)+"/") {
			if st, _ := os.ReadFile(filepath.Join(filepath.Dir(p), "status")); !strings.Contains(string(st), "State:\tZ") { // the machine's init has yet to notice
				c["processes"]++
			}
		}
	}
	states, err := os.ReadDir(filepath.Join(state(home), "containers"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	c["state folders"] = len(states)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, home.Dir) || strings.Contains(line, state(home)) || strings.Contains(line, "/sys/module") {
			c["mounts of the machine"]++
		}
	}
	c["loop devices"] = loops(t)
	projects, err := quota.Projects(home.Dir)
	if err != nil {
		t.Fatal(err)
	}
	c["disk projects"] = len(projects)
	return c
}

// dying tells how many control groups are gone but for memory that is still charged to them, such as cached pages of what a task wrote. The kernel frees
// them when it wants the memory; they are told, not judged.
func dying(home *daemon.Home) string {
	text, err := os.ReadFile("/sys/fs/cgroup" + group(home) + "/cgroup.stat")
	if err != nil {
		return "not told by version 1"
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "nr_dying_descendants "); ok {
			return strings.TrimSpace(n)
		}
	}
	return "not told"
}

// loops counts loop devices in use on a machine that this test has for itself: elsewhere another box has some too.
func loops(t *testing.T) int {
	if os.Getenv(daemon.GuestEnv) == "" {
		return 0
	}
	used, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	return len(used)
}

// disk is what a box's home takes besides its log and what the log can make anew: bytes on disk, and every file.
func disk(t *testing.T, home *daemon.Home) (bytes int64, files []string) {
	t.Helper()
	err := filepath.WalkDir(home.Dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it is being deleted
		}
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(home.Dir, path)
		if top, _, _ := strings.Cut(rel, "/"); !strings.HasPrefix(top, "log") && top != "cache" {
			st, err := d.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			if d.Type().IsRegular() || d.Type()&fs.ModeSymlink != 0 {
				bytes += st.Sys().(*syscall.Stat_t).Blocks * 512
			}
			files = append(files, rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes, files
}

// gauge reads a figure of the box's metrics.
func gauge(t *testing.T, home *daemon.Home, name string) float64 {
	t.Helper()
	var v float64
	found := false
	s := bufio.NewScanner(strings.NewReader(home.Get("/metrics")))
	for s.Scan() {
		if f := strings.Fields(s.Text()); len(f) == 2 && f[0] == name {
			n, err := strconv.ParseFloat(f[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			v, found = n, true
		}
	}
	if !found {
		t.Fatalf("the box's metrics have no %s", name)
	}
	return v
}

// until waits for a state that nothing tells of.
func until(t *testing.T, what string, holds func() (bool, string)) {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, why := holds()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("%s: not after %v: %s", what, patience, why)
		}
	}
}

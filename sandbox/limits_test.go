package sandbox_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gurtos/sandbox"
	"gurtos/sandbox/cgroup"
	"gurtos/sandbox/sandboxtest"
)

// The kernel has each limit that the sandbox was given, while it runs.
func TestLimitsInPlace(t *testing.T) {
	c := sandboxtest.Config(t)
	h := sandboxtest.OpenAs(t, c)
	s := sandboxtest.Spec(t, "/bin/sleep", "1000")
	s.Limits.MemoryBytes, s.Limits.Pids, s.Limits.CPUWeight, s.Limits.CPUMilli = 200<<20, 77, 300, 1500
	sandboxtest.Start(t, h, s)
	groups, err := cgroup.Children(c.Cgroup)
	if err != nil || len(groups) != 1 {
		t.Fatalf("%q, %v", groups, err)
	}
	at := filepath.Join(c.Cgroup, groups[0])
	want := map[string]string{
		"/sys/fs/cgroup/memory/memory.limit_in_bytes": "209715200", "/sys/fs/cgroup/pids/pids.max": "77",
		"/sys/fs/cgroup/cpu/cpu.shares": "3072", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "150000",
		"/sys/fs/cgroup/devices/devices.list": "c 1:3 rw\nc 1:5 rw\nc 1:7 rw\nc 1:8 rw\nc 1:9 rw\nc 5:0 rw\nc 5:2 rw\nc 136:* rw",
	}
	if cgroup.Unified() {
		want = map[string]string{
			"/sys/fs/cgroup/memory.max": "209715200", "/sys/fs/cgroup/memory.swap.max": "0", "/sys/fs/cgroup/memory.oom.group": "1", "/sys/fs/cgroup/pids.max": "77",
			"/sys/fs/cgroup/cpu.weight": "300", "/sys/fs/cgroup/cpu.max": "150000 100000",
		}
		shared := 0
		for _, f := range []string{"io.weight", "io.bfq.weight"} {
			if text, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", at, f)); err == nil {
				shared++
				if !strings.Contains(string(text), "300") {
					t.Errorf("%s is %q", f, text)
				}
			}
		}
		t.Logf("%d files share out disks", shared)
	}
	for file, value := range want {
		dir, name := filepath.Split(file)
		text, err := os.ReadFile(filepath.Join(dir, at, name))
		if err != nil && name == "memory.swap.max" && os.IsNotExist(err) {
			continue // a kernel without swap
		}
		if got := strings.TrimSpace(string(text)); err != nil || got != value {
			t.Errorf("%s is %q, want %q (%v)", name, got, value, err)
		}
	}
}

// All sandboxes together leave the machine some of its memory.
func TestTogether(t *testing.T) {
	for _, c := range []struct{ total, want int64 }{
		{256 << 20, 128 << 20}, {1 << 30, 768 << 20}, {2 << 30, 2<<30 - 256<<20}, {4 << 30, 4<<30 - 512<<20}, {8 << 30, 7 << 30}, {64 << 30, 63 << 30},
	} {
		if got := cgroup.Together(c.total); got != c.want {
			t.Errorf("of %s all together may have %s, want %s", sandbox.Bytes(c.total), sandbox.Bytes(got), sandbox.Bytes(c.want))
		}
	}
	if !cgroup.Unified() {
		return
	}
	c := sandboxtest.Config(t)
	h := sandboxtest.OpenAs(t, c)
	file := filepath.Join("/sys/fs/cgroup", c.Cgroup, "memory.max")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var si unix.Sysinfo_t
	if err := unix.Sysinfo(&si); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.TrimSpace(string(text)), strconv.FormatInt(cgroup.Together(int64(si.Totalram)*int64(si.Unit)), 10); got != want {
		t.Errorf("memory.max is %s, want %s", got, want)
	}
	if err := os.WriteFile(file, []byte(strconv.Itoa(100<<20)), 0); err != nil {
		t.Fatal(err)
	}
	// One is far below its own limit, and ends for what all have together.
	s := sandboxtest.Spec(t, "/usr/bin/python3", "-c", "a=b'x'*(200<<20)")
	s.Limits.MemoryBytes = 1 << 30
	e := sandboxtest.Start(t, h, s).Wait()
	if want := "Stopped: all tasks and apps together used"; !e.OOM || !e.Shared || !strings.HasPrefix(e.Sentence(s.Limits), want) {
		t.Errorf("%+v: %q, want %q", e, e.Sentence(s.Limits), want)
	}
	s = sandboxtest.Spec(t, "/usr/bin/python3", "-c", "a=b'x'*(200<<20)")
	s.Limits.MemoryBytes, s.Limits.TmpBytes = 64<<20, 16<<20
	e = sandboxtest.Start(t, h, s).Wait()
	if want := "Stopped: the task used more than its 64 MB of memory."; !e.OOM || e.Shared || e.Sentence(s.Limits) != want {
		t.Errorf("%+v: %q, want %q", e, e.Sentence(s.Limits), want)
	}
}

// What waits for a resource can be read, of one sandbox, of all and of the machine, where the kernel has it.
func TestPressure(t *testing.T) {
	c := sandboxtest.Config(t)
	h := sandboxtest.OpenAs(t, c)
	sb := sandboxtest.Start(t, h, sandboxtest.Spec(t, "/bin/sleep", "1000"))
	if _, ok := cgroup.MachinePressure(); !ok {
		if _, err := os.Stat("/proc/pressure/cpu"); err == nil {
			t.Error("the machine's pressure can't be read")
		}
	}
	if !cgroup.Unified() {
		return
	}
	if _, ok := sb.Pressure(); !ok {
		t.Error("the sandbox's pressure can't be read")
	}
	if _, ok := cgroup.PressureOf(c.Cgroup); !ok {
		t.Error("the pressure of all sandboxes can't be read")
	}
}

package sandbox_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"gurtos/sandbox"
	"gurtos/sandbox/cgroup"
	"gurtos/sandbox/sandboxtest"
)

// census counts what a sandbox could leave behind.
func census(t *testing.T, c sandbox.Config) map[string]int {
	t.Helper()
	n := map[string]int{"mounts": mountsOf(t, c), "goroutines": runtime.NumGoroutine(), "processes": len(processesIn(t, c.Cgroup))}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n["descriptors"] = len(fds)
	groups, err := cgroup.Children(c.Cgroup)
	if err != nil {
		t.Fatal(err)
	}
	n["control groups"] = len(groups)
	states, _ := os.ReadDir(filepath.Join(c.State, "containers"))
	n["state folders"] = len(states)
	return n
}

// As many sandboxes as a box has in a day leave nothing.
func TestNothingIsLeft(t *testing.T) {
	c := sandboxtest.Config(t)
	h := sandboxtest.OpenAs(t, c)
	rounds, atOnce := 40, 8
	if testing.Short() {
		rounds = 5
	}
	round := func() {
		var all sync.WaitGroup
		for i := range atOnce {
			s := sandboxtest.Spec(t, "/bin/sh", "-c", "sleep 1000 & setsid sleep 1000 & (exit 3); echo x > a")
			if i == 3 {
				s.Args = []string{"/bin/missing"}
			}
			all.Go(func() {
				sb, err := h.Start(t.Context(), s)
				if err != nil {
					t.Error(err)
					return
				}
				if i == 4 {
					sb.Kill()
				}
				sb.Wait()
				os.RemoveAll(s.Work.Layer)
				os.RemoveAll(s.Home.Layer)
			})
		}
		all.Wait()
	}
	round() // what is made once
	before := census(t, c)
	memory := resident(t)
	for range rounds {
		round()
	}
	after := map[string]int{}
	defer func() { t.Logf("before %v, after %v", before, after) }()
	until(t, "as before", func() bool {
		runtime.GC() // *os.File of exited processes
		after = census(t, c)
		for k, n := range before {
			if after[k] > n {
				return false
			}
		}
		return true
	})
	debug.FreeOSMemory()
	if now := resident(t); now > memory+16<<20 {
		t.Errorf("%d MB of memory, %d before", now>>20, memory>>20)
	}
}

// resident is the memory that this process has, in bytes.
func resident(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int
	if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// The pool's sandboxes are as good as new ones, and used.
func TestPool(t *testing.T) {
	c := sandboxtest.Config(t)
	c.Pool = 2
	h := sandboxtest.OpenAs(t, c)
	parked := func() bool { g, _ := cgroup.Children(c.Cgroup); return len(g) == 2 }
	seen := map[int]bool{}
	for i := range 5 {
		until(t, "two wait", parked)
		s := sandboxtest.Spec(t, "/bin/sh", "-c", "id -un; cat n 2>/dev/null; echo n > n; ls /tmp")
		s.Limits.MemoryBytes = 100 << 20
		if i == 4 {
			s.Slot = 100 // none waits there
		}
		sb := sandboxtest.Start(t, h, s)
		if e := sb.Wait(); e.Code != 0 || strings.TrimSpace(e.Output) != s.User {
			t.Errorf("%+v", e)
		}
		if seen[sb.UID()] {
			t.Errorf("user %d came back at once", sb.UID())
		}
		seen[sb.UID()] = true
	}
}

// What waits may be ended from outside, as the kernel does when memory is short: the task that would have had it starts all the same, and nothing of it is left.
func TestParkedIsKilled(t *testing.T) {
	c := sandboxtest.Config(t)
	c.Pool = 1
	h := sandboxtest.OpenAs(t, c)
	until(t, "one waits", func() bool { return h.Parked() == 1 })
	pid := h.ParkedProcesses()[0]
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "it ends", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(b), ") Z ")
	})
	s := sandboxtest.Spec(t, "/bin/sh", "-c", "id -un")
	if e := sandboxtest.Start(t, h, s).Wait(); e.Code != 0 || strings.TrimSpace(e.Output) != s.User {
		t.Errorf("%+v", e)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
		t.Error("nobody waited for it")
	}
}

// The slot's user is never two sandboxes' at a time.
func TestSlotInUse(t *testing.T) {
	h := sandboxtest.Open(t)
	s := sandboxtest.Spec(t, "/bin/sleep", "100")
	s.Slot = 7
	sandboxtest.Start(t, h, s)
	two := sandboxtest.Spec(t, "/bin/true")
	two.Slot = 7
	if _, err := h.Start(t.Context(), two); err == nil || !strings.Contains(err.Error(), "slot 7 is in use") {
		t.Errorf("%v", err)
	}
}

package scale

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/test/daemon"
)

// atOnce is how many tasks run side by side.
const atOnce = 8

// mostLayers is how many tasks of a workspace are done before they are undone: of more, the oldest could not be.
const mostLayers = 150

// prompt leaves files of every kind that sealing looks at, and processes that a task forgets.
const prompt = `write notes.txt some text
run rm -rf d moved link hard pipe && mkdir -p d/e && ln -s notes.txt link && ln notes.txt hard && mkfifo pipe && head -c 70000 /dev/urandom > d/e/blob
run setsid sleep 1000 >/dev/null 2>&1 & sleep 1000 >/dev/null 2>&1 & true
move d moved
delete hard`

type made struct {
	ID    string `json:"id"`
	State string `json:"state"`
	Error string `json:"error"`
}

// do runs n tasks, so many at a time, and gives their ids in order once each has ended well.
func do(t *testing.T, home *daemon.Home, n, side int) (ids []string) {
	t.Helper()
	events := home.Follow()
	defer events.Close()
	running := map[string]bool{}
	for len(ids) < n || len(running) > 0 {
		for len(ids) < n && len(running) < side {
			var m made
			home.Call("POST", "/api/tasks", map[string]any{"title": "One of many", "worker": "fake", "prompt": prompt}, &m)
			ids = append(ids, m.ID)
			running[m.ID] = true
		}
		ev := events.Next(t, func(e daemon.Event) bool {
			return e.Type == "task.state" && running[e.Task] && (e.State == "done" || e.State == "failed")
		})
		if ev.State == "failed" {
			t.Fatalf("task %s failed: %s", ev.Task, ev.Error)
		}
		delete(running, ev.Task)
	}
	return ids
}

// undo takes every task back, the newest first.
func undo(t *testing.T, home *daemon.Home, ids []string) {
	t.Helper()
	for _, id := range slices.Backward(ids) {
		home.Call("POST", "/api/tasks/"+id+"/undo", nil, nil)
	}
}

// rest waits until there is no more of anything than before. What tasks changed is in their disk projects until they are undone.
func rest(t *testing.T, home *daemon.Home, boxd *daemon.Daemon, before census, undone bool) {
	t.Helper()
	until(t, "as before", func() (bool, string) {
		now := take(t, home, boxd)
		if !undone {
			delete(now, "disk projects")
		}
		more := now.diff(before)
		return len(more) == 0, strings.Join(more, "; ")
	})
}

// fullPool waits until as many sandboxes wait for tasks as are kept: one for each GiB of memory, up to four. What waits holds namespaces.
func fullPool(t *testing.T, home *daemon.Home) {
	t.Helper()
	var si unix.Sysinfo_t
	if err := unix.Sysinfo(&si); err != nil {
		t.Fatal(err)
	}
	want := float64(min(4, si.Totalram*uint64(si.Unit)>>30))
	until(t, "a full pool", func() (bool, string) {
		n := gauge(t, home, "gurtos_sandboxes_waiting")
		return n == want, fmt.Sprintf("%v of %v wait", n, want)
	})
}

// as waits until the disk is as it was, to the byte and the file.
func as(t *testing.T, home *daemon.Home, bytes int64, files []string) {
	t.Helper()
	until(t, "the disk as before", func() (bool, string) {
		now, have := disk(t, home)
		var more []string
		for _, f := range have {
			if !slices.Contains(files, f) && len(more) < 10 {
				more = append(more, f)
			}
		}
		return now == bytes && len(more) == 0, fmt.Sprintf("%d bytes, %d before; new: %q", now, bytes, more)
	})
}

// Tasks one after another and side by side leave nothing, and once they are undone not a byte.
func TestManyTasks(t *testing.T) {
	n := daemon.Rounds(1000, 50, 16)
	home := daemon.New(t)
	boxd := home.Start()
	home.Call("PUT", "/api/settings", map[string]any{"maxRunning": atOnce}, nil)
	undo(t, home, do(t, home, 2*atOnce, atOnce)) // what is made once
	fullPool(t, home)
	var before census
	var bytes int64
	var files []string
	until(t, "at rest", func() (bool, string) { // twice the same: nothing is under way
		was := before
		before = take(t, home, boxd)
		now, have := disk(t, home)
		if slices.ContainsFunc(have, func(f string) bool { return strings.HasPrefix(f, "tasks/") }) {
			return false, fmt.Sprintf("the box is still deleting: %q", have)
		}
		same := was != nil && len(before.diff(was)) == 0 && len(was.diff(before)) == 0 && now == bytes && slices.Equal(have, files)
		bytes, files = now, have
		return same, fmt.Sprint(before)
	})
	t.Logf("at rest: %v, %d bytes in %q", before, bytes, files)
	memory, err := boxd.Memory()
	if err != nil {
		t.Fatal(err)
	}

	for _, side := range []int{1, atOnce} {
		for left := n; left > 0; left -= mostLayers {
			ids := do(t, home, min(left, mostLayers), side)
			rest(t, home, boxd, before, false)
			undo(t, home, ids)
			rest(t, home, boxd, before, true)
			as(t, home, bytes, files)
			t.Logf("control groups that only memory holds: %s", dying(home))
		}
	}

	// What a box remembers of a task, and what Go takes at once. Garbage is given back a little later.
	most, now := memory+16<<10+2*n*8, 0
	until(t, "memory as before", func() (bool, string) {
		if now, err = boxd.Memory(); err != nil {
			t.Fatal(err)
		}
		return now <= most, fmt.Sprintf("boxd has %d KB of memory after %d tasks, %d before", now, 2*n, memory)
	})
	boxd.Stop()
	if more := left(t, home).diff(census{}); len(more) > 0 {
		t.Errorf("after an end in order: %q", more)
	}
	what := fmt.Sprintf("%d tasks one after another and %d at %d a time, all undone: no process, control group, mount, namespace, descriptor, goroutine, slot or file more, boxd's memory %d KB before and %d after", n, n, atOnce, memory, now)
	t.Log(what)
	t.Attr("reliability", what)
}

// Whenever boxd is killed, while it starts or while tasks start, work and end, the next one has nothing of the killed one's.
func TestKilledAnywhere(t *testing.T) {
	kills := daemon.Rounds(20, 8, 3)
	luck := daemon.Seed(t)

	home := daemon.New(t)
	boxd := home.Start()
	home.Call("PUT", "/api/settings", map[string]any{"maxRunning": atOnce}, nil)
	undo(t, home, do(t, home, atOnce, atOnce))
	fullPool(t, home)
	var before census
	until(t, "at rest", func() (bool, string) {
		was := before
		before = take(t, home, boxd)
		return was != nil && len(before.diff(was)) == 0 && len(was.diff(before)) == 0, fmt.Sprint(before)
	})
	var bytes int64
	var files []string
	until(t, "nothing left to delete", func() (bool, string) {
		bytes, files = disk(t, home)
		return !slices.ContainsFunc(files, func(f string) bool { return strings.HasPrefix(f, "tasks/") }), fmt.Sprintf("%q", files)
	})

	var all []string
	for range kills {
		for range atOnce {
			var m made
			home.Call("POST", "/api/tasks", map[string]any{"title": "Cut off", "worker": "fake", "prompt": prompt + "\nsleep 300ms\n" + prompt}, &m)
			all = append(all, m.ID)
		}
		var end sync.WaitGroup
		end.Add(1)
		time.AfterFunc(time.Duration(luck.IntN(1000))*time.Millisecond, func() { defer end.Done(); boxd.Kill() })
		end.Wait()
		if luck.IntN(3) == 0 { // and once more before it is ready
			home.StartAndKill(time.Duration(luck.IntN(300)) * time.Millisecond)
		}
		boxd = home.Start()
	}
	events := home.Follow()
	defer events.Close()
	ended := map[string]bool{}
	for _, id := range all {
		var m made
		home.Call("GET", "/api/tasks/"+id, nil, &m)
		ended[id] = m.State == "done" || m.State == "failed"
		if m.State == "failed" {
			t.Errorf("task %s: %s", id, m.Error)
		}
	}
	for _, id := range all {
		for !ended[id] {
			ev := events.Next(t, func(e daemon.Event) bool { return e.Type == "task.state" && (e.State == "done" || e.State == "failed") })
			ended[ev.Task] = true
			if ev.State == "failed" {
				t.Errorf("task %s: %s", ev.Task, ev.Error)
			}
		}
	}
	events.Close()
	rest(t, home, boxd, before, false)
	undo(t, home, all)
	rest(t, home, boxd, before, true)
	as(t, home, bytes, files)
	boxd.Stop()
	if more := left(t, home).diff(census{}); len(more) > 0 {
		t.Errorf("after an end in order: %q", more)
	}
	what := fmt.Sprintf("kill -9 of boxd at %d random moments under %d tasks: all ended well, and nothing of the killed ones is left", kills, len(all))
	t.Log(what)
	t.Attr("reliability", what)
}

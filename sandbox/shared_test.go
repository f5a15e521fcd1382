package sandbox_test

import (
	"bufio"
	"net"
	"os"
	"strconv"
	"testing"

	"gurtos/sandbox"
	"gurtos/sandbox/sandboxtest"
)

// shared are things that the kernel counts for more than one task: for the machine, for a user, or for whoever made the namespace, which is boxd for all.
// One task takes what it can get of each, and another still finds what programs need.
var shared = []struct {
	what  string
	takes string // what the one gets where that is fixed, and how it ends
	need  int    // what the other one must get
	box   bool   // only where the kernel is set as on a box (boot/mounts.Sysctls): in the guest
	why   string // what it gets that
}{
	{"aio", none, 0, false, "fs.aio-max-nr is the machine's: the filter says that there is no such call, and libraries fall back"},
	{"signals", some, 100, false, "RLIMIT_SIGPENDING counts for the maker of the namespace too: each task has its own limit, boxd none"},
	{"timers", some, 100, false, "the same"},
	{"locked", "", 128, false, "RLIMIT_MEMLOCK, the same"},
	{"queues", none, 0, false, "RLIMIT_MSGQUEUE, the same: there are no POSIX queues"},
	{"processes", "", 50, false, "pids.max"},
	{"pipes", "", 8, false, "fs.pipe-user-pages-soft is a user's, and each task has its own"},
	{"epoll", "", 1000, false, "fs.epoll.max_user_watches, the same"},
	{"sysv", "", 50, false, "an ipc namespace"},
	{"inotify", "", 100, true, "fs.inotify.max_user_instances counts for the maker of the namespace: a box has so many that memory ends first"},
	{"watches", "", 1000, true, "fs.inotify.max_user_watches, the same"},
	{"files", "", 1000, true, "fs.file-max is the machine's; the same"},
}

const (
	none = "0, then: Function not implemented\n"
	some = "4096, then: Resource temporarily unavailable\n"
)

func TestShared(t *testing.T) {
	program := sandboxtest.Program(t, "hog.c")
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	h := sandboxtest.Open(t)
	hog := func(t *testing.T, args ...string) sandbox.Spec {
		s := sandboxtest.Spec(t, append([]string{"/work/hog"}, args...)...)
		s.Limits.Pids, s.Limits.MemoryBytes = 300, 256<<20
		sandboxtest.Put(t, s, "hog", text)
		return s
	}
	for _, c := range shared {
		t.Run(c.what, func(t *testing.T) {
			if c.box && os.Getenv(sandboxtest.ToolsEnv) == "" {
				return // a developer's machine is shared out as its owner set it
			}
			greedy := hog(t, "take", c.what)
			took := make(chan string, 1)
			greedy.Serve = func(l net.Listener) {
				defer close(took)
				conn, err := l.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				line, _ := bufio.NewReader(conn).ReadString('\n')
				took <- line
			}
			sb := sandboxtest.Start(t, h, greedy)
			got := <-took
			if got == "" { // it ran into a limit of its own, and is gone
				t.Logf("ended: %+v", sb.Wait())
			} else {
				t.Logf("took %s (%s)", got[:len(got)-1], c.why)
			}
			if c.takes != "" && got != c.takes {
				t.Errorf("took %q, want %q", got, c.takes)
			}
			if e := sandboxtest.Start(t, h, hog(t, "need", c.what, strconv.Itoa(c.need))).Wait(); e.Code != 0 {
				t.Errorf("another task does not get %d: %+v", c.need, e)
			}
			sb.Kill()
			sb.Wait()
		})
	}
}

package netpolicy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// held counts what the process holds: network namespaces by their descriptors,
// descriptors, goroutines, threads.
func held(t testing.TB) map[string]int {
	t.Helper()
	runtime.GC()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{"descriptors": len(fds), "goroutines": runtime.NumGoroutine()}
	for _, fd := range fds {
		if to, _ := os.Readlink("/proc/self/fd/" + fd.Name()); strings.HasPrefix(to, "net:[") { //nolint:errcheck // closed meanwhile
			n["namespaces"]++
		}
	}
	tasks, err := filepath.Glob("/proc/self/task/*/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range tasks {
		if to, err := os.Readlink(f); err == nil {
			seen[to] = true
		}
	}
	n["namespaces of threads"] = len(seen)
	return n
}

// resident is the process's memory in bytes.
func resident(t testing.TB) int {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, rss int
	if _, err := fmt.Sscan(string(b), &size, &rss); err != nil {
		t.Fatal(err)
	}
	return rss * os.Getpagesize()
}

// TestNothingIsLeft makes namespaces, uses them and removes them: a thousand in the
// long form, fewer in the short one. Nothing of them may stay.
func TestNothingIsLeft(t *testing.T) {
	rounds := 60
	if os.Getenv("BOX_TEST_ALL") != "" {
		rounds = 1000
	}
	i := outside(t)
	i.name("example.com", webAddr)
	n, err := Open(quietLog(t), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	one := func() {
		ns, err := n.Namespace()
		if err != nil {
			t.Fatal(err)
		}
		s, err := ns.Attach(Policy{Hosts: []string{"example.com"}, Blocked: func(string, int) {}})
		if err != nil {
			t.Fatal(err)
		}
		p := program{t, s}
		c, err := p.connect("example.com", 80, false)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := says(c, "GET / HTTP/1.0\r\nHost: example.com\r\n\r\n"); err != nil || !strings.Contains(out, "you reached") {
			t.Fatalf("%q, %v", out, err)
		}
		c.Close()
		if u, err := p.dial("udp", netAddr+":9999"); err == nil {
			u.Write([]byte("x")) //nolint:errcheck // it is refused
			u.Close()
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		one() // what is made once
	}
	var before, after map[string]int
	eventually(func() bool { before = held(t); return before["namespaces"] == 3 }) // the pool's
	memory := resident(t)
	for range rounds {
		one()
	}
	if !eventually(func() bool {
		after = held(t)
		for what, n := range after {
			if n > before[what]+12 { // the pool's maker may be in the middle of one
				return false
			}
		}
		return true
	}) {
		t.Errorf("%d namespaces later there is more: before %v, after %v", rounds, before, after)
	}
	if grown := resident(t) - memory; grown > 32<<20 {
		t.Errorf("%d namespaces later there are %d MiB more", rounds, grown>>20)
	}
	t.Logf("%d namespaces: before %v, after %v, memory %+d KiB", rounds, before, after, (resident(t)-memory)>>10)
}

// crashing makes namespaces and waits to be killed.
const crashing = "GURTOS_TEST_CRASHING"

// TestKilled holds that a daemon which is killed leaves no namespace: the kernel
// gives back all that it alone held, so that no sweep is needed at the next start.
func TestKilled(t *testing.T) {
	if os.Getenv(crashing) != "" {
		n, err := Open(quietLog(t), 4)
		if err != nil {
			t.Fatal(err)
		}
		ns, err := n.Namespace()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ns.Attach(Policy{Hosts: []string{"example.com"}, Blocked: func(string, int) {}}); err != nil {
			t.Fatal(err)
		}
		st, err := ns.File().Stat()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("namespace %d\n", st.Sys().(*syscall.Stat_t).Ino)
		select {}
	}
	c := exec.Command(os.Args[0], "-test.run=^TestKilled$", "-test.v") //nolint:gosec // this program
	c.Env = append(os.Environ(), crashing+"=1")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var ino uint64
	for b := make([]byte, 4096); ino == 0; {
		k, err := out.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		if _, rest, ok := strings.Cut(string(b[:k]), "namespace "); ok {
			fmt.Sscan(rest, &ino) //nolint:errcheck // read on
		}
	}
	if !found(ino) {
		t.Fatal("the namespace can't be found while it lives, so this test proves nothing")
	}
	c.Process.Kill() //nolint:errcheck // Wait tells
	c.Wait()         //nolint:errcheck // it was killed
	if !eventually(func() bool { return !found(ino) }) {
		t.Error("the namespace outlives its maker")
	}
}

// found looks through all processes for a network namespace.
func found(ino uint64) bool {
	want := fmt.Sprintf("net:[%d]", ino)
	for _, pattern := range []string{"/proc/[0-9]*/fd/*", "/proc/[0-9]*/ns/net"} {
		files, _ := filepath.Glob(pattern) //nolint:errcheck // the pattern is right
		for _, f := range files {
			if to, err := os.Readlink(f); err == nil && to == want {
				return true
			}
		}
	}
	return false
}

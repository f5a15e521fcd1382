package sandbox_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gurtos/sandbox"
	"gurtos/sandbox/cgroup"
	"gurtos/sandbox/layers"
	"gurtos/sandbox/sandboxtest"
)

const victimEnv = "GURTOS_TEST_VICTIM"

type victimConfig struct {
	State, TasksRoot, Tools, Cgroup string
	Pool                            int
	Freeze                          bool // each first sandbox, and tell of it
}

// victim is the process that TestKilled kills: it opens a Host as its
// environment says, and starts and ends sandboxes until it is killed.
func victim() {
	var c victimConfig
	if err := json.Unmarshal([]byte(os.Getenv(victimEnv)), &c); err != nil {
		panic(err)
	}
	h, err := sandbox.Open(sandbox.Config{State: c.State, TasksRoot: c.TasksRoot, Tools: c.Tools, Cgroup: c.Cgroup, Pool: c.Pool})
	if err != nil {
		panic(err)
	}
	fmt.Println("on")
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for i := 0; ; i++ {
				dir, err := os.MkdirTemp(c.State, "victim")
				if err != nil {
					panic(err)
				}
				for _, l := range []string{"work", "home"} {
					if err := layers.Create(filepath.Join(dir, l)); err != nil {
						panic(err)
					}
				}
				last := "sleep 0.0" + strconv.Itoa(i%5)
				if c.Freeze {
					last = "sleep 1000"
				}
				sb, err := h.Start(context.Background(), sandbox.Spec{ID: "t", User: "box-t", Slot: sandbox.AnySlot, Args: []string{"/bin/sh", "-c", "setsid sleep 1000 & " + last},
					Work: layers.View{Layer: dir + "/work"}, Home: layers.View{Layer: dir + "/home"}})
				if err != nil {
					panic(err)
				}
				if c.Freeze {
					for sb.Freeze() != nil { // with version 1 the kernel of a busy machine needs several tries
					}
					fmt.Println("frozen")
				}
				sb.Wait()
			}
		})
	}
	all.Wait()
}

// Whenever boxd is killed, the next one leaves nothing of it behind.
func TestKilled(t *testing.T) {
	c := sandboxtest.Config(t)
	before := mountsOf(t, c)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	times := 20
	if testing.Short() {
		times = 4
	}
	for n := range times {
		conf, err := json.Marshal(victimConfig{c.State, c.TasksRoot, c.Tools, c.Cgroup, 2, n%4 == 3})
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), victimEnv+"="+string(conf))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(out)
		if line, err := r.ReadString('\n'); err != nil {
			t.Fatalf("%q, %v", line, err)
		}
		for i := range 3 { // agents were paused
			if n%4 != 3 {
				break
			}
			if line, err := r.ReadString('\n'); err != nil || line != "frozen\n" {
				t.Fatalf("%d: %q, %v", i, line, err)
			}
		}
		kill := time.AfterFunc(time.Duration(random.IntN(150))*time.Millisecond, func() { cmd.Process.Kill() })
		io.Copy(io.Discard, r) // to its end
		kill.Stop()
		cmd.Wait()

		h, err := sandbox.Open(sandbox.Config{State: c.State, TasksRoot: c.TasksRoot, Tools: c.Tools, Cgroup: c.Cgroup, Pool: -1})
		if err != nil {
			t.Fatal(err)
		}
		left, err := cgroup.Children(c.Cgroup)
		if err != nil || len(left) > 0 {
			t.Errorf("control groups left: %q, %v", left, err)
		}
		if left := processesIn(t, c.Cgroup); len(left) > 0 {
			t.Errorf("processes left: %v", left)
		}
		if entries, _ := os.ReadDir(filepath.Join(c.State, "containers")); len(entries) > 0 {
			t.Errorf("state left: %v", entries)
		}
		if now := mountsOf(t, c); now != before {
			t.Errorf("%d mounts, %d before", now, before)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

// processesIn names the machine's processes that are in a control group below
// parent; other tests may run beside this one.
func processesIn(t *testing.T, parent string) []string {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range dirs {
		if b, err := os.ReadFile(d + "/cgroup"); err == nil && strings.Contains(string(b), parent+"/") {
			if st, _ := os.ReadFile(d + "/status"); !strings.Contains(string(st), "State:\tZ") { // the machine's init has yet to notice
				out = append(out, d)
			}
		}
	}
	return out
}

// mountsOf counts the mounts of this process's namespace that a Host could have
// made; other programs mount things meanwhile.
func mountsOf(t *testing.T, c sandbox.Config) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		for _, s := range []string{c.State, "/sys/module", "/v/", "/run/box"} {
			if strings.Contains(line, s) {
				n++
				break
			}
		}
	}
	return n
}

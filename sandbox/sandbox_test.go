package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/sandbox"
	"gurtos/sandbox/cgroup"
	"gurtos/sandbox/layers"
	"gurtos/sandbox/sandboxtest"
)

// What a program finds around it.
func TestSurroundings(t *testing.T) {
	h := sandboxtest.Open(t)
	for _, c := range []struct{ name, command, want string }{
		{"name", "id -un", "box-NAME"},
		{"group", "id -gn", "box-NAME"},
		{"id", "id -u", "1000"},
		{"folder", "pwd", "/work"},
		{"environment", "env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= | sort | tr '\\n' ' '", "HOME=/home/box LANG=C.UTF-8 PATH=/usr/bin:/bin "},
		{"host name", "uname -n", "box"},
		{"owner of the system", "stat -c %u:%U /usr/bin/env", "0:root"},
		{"owner of /work", "stat -c %U /work", "box-NAME"},
		{"owner of home", "stat -c %U:%a /home/box", "box-NAME:755"},
		{"umask", "umask", "0077"},
		{"arguments stay as they are", "cat /proc/self/cgroup | sed 's/.*://' | sort -u", "/"},
		{"devices", "find /dev -type c ! -path '/dev/pts/*' | sort | tr '\\n' ' '", "/dev/full /dev/null /dev/random /dev/tty /dev/urandom /dev/zero "},
		{"tmp", "touch /tmp/a /dev/shm/a && df --output=size -B1 /tmp | tail -1 | tr -d ' '", "536870912"},
		{"standard input", "wc -c", "0"},
		{"a session of its own", "read -r pid name state parent group session rest < /proc/$$/stat; test $session = $$ && echo own", "own"},
		{"ended before the box when memory is short", "cat /proc/self/oom_score_adj", "500"},
		{"standard output by name", "echo a > /dev/stdout", "a"},
		{"tools", "ls /usr/lib/gurtos | tr '\\n' ' '", "box-init worker "},
		{"loopback", `python3 -c 'import socket;s=socket.create_server(("127.0.0.1",0));socket.create_connection(s.getsockname());print("up")'`, "up"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := sandboxtest.Spec(t, "/bin/sh", "-c", c.command)
			e := sandboxtest.Start(t, h, s).Wait()
			want := strings.ReplaceAll(c.want, "box-NAME", s.User)
			if e.Code != 0 || strings.TrimSuffix(e.Output, "\n") != want {
				t.Errorf("%+v, want output %q", e, want)
			}
		})
	}
}

// What a program changes is in its layers and belongs to the canonical user.
func TestLayers(t *testing.T) {
	h := sandboxtest.Open(t)
	s := sandboxtest.Spec(t, "/bin/sh", "-c", "echo one > a && mkdir d && mv d e && echo two > ~/b && ln -s a l")
	if e := sandboxtest.Start(t, h, s).Wait(); e.Code != 0 {
		t.Fatalf("%+v", e)
	}
	for path, want := range map[string]string{s.Work.Layer + "/upper/a": "one\n", s.Home.Layer + "/upper/b": "two\n"} {
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil || st.Uid != layers.Canonical || st.Gid != layers.Canonical {
			t.Errorf("%s belongs to %d:%d, %v", path, st.Uid, st.Gid, err)
		}
	}
	// The layer is free at once: it can be sealed, and then read by another.
	if err := layers.Seal(t.Context(), s.Work); err != nil {
		t.Fatal(err)
	}
	next := sandboxtest.Spec(t, "/bin/sh", "-c", "cat a; ls -d e; echo three >> a")
	next.Work.Lowers = []string{s.Work.Layer}
	if e := sandboxtest.Start(t, h, next).Wait(); e.Code != 0 || e.Output != "one\ne\n" {
		t.Errorf("%+v", e)
	}
	if got, _ := os.ReadFile(s.Work.Layer + "/upper/a"); string(got) != "one\n" {
		t.Errorf("the sealed layer changed: %q", got)
	}
}

// How programs end, and the sentence that people get.
func TestExit(t *testing.T) {
	h := sandboxtest.Open(t)
	small := sandbox.Limits{MemoryBytes: 64 << 20, Pids: 20, TmpBytes: 16 << 20}
	for _, c := range []struct {
		name     string
		args     []string
		limits   sandbox.Limits
		code     int
		signal   os.Signal
		err      error
		sentence string
	}{
		{"well", []string{"/bin/true"}, small, 0, nil, nil, ""},
		{"code", []string{"/bin/sh", "-c", "exit 7"}, small, 7, nil, nil, ""},
		{"signal", []string{"/bin/sh", "-c", "kill -SEGV $$"}, small, -1, syscall.SIGSEGV, nil, "Stopped: the worker was ended by signal SIGSEGV."},
		{"missing", []string{"/bin/nothere"}, small, -1, nil, syscall.ENOENT, "Stopped: /bin/nothere could not be run: it, or the interpreter that it names, is missing in the sandbox."},
		{"wrong format", []string{"/work/wrong"}, small, -1, nil, syscall.ENOEXEC, "Stopped: /work/wrong could not be run: it has a wrong format for this machine."},
		{"not executable", []string{"/etc/passwd"}, small, -1, nil, syscall.EACCES, "Stopped: /etc/passwd could not be run: it is not executable."},
		{"memory", []string{"/usr/bin/python3", "-c", "a=b'x'*(200<<20)"}, small, -1, syscall.SIGKILL, nil, "Stopped: the task used more than its 64 MB of memory."},
		{"memory of a child", []string{"/bin/sh", "-c", "python3 -c 'a=b\"x\"*(200<<20)'; sleep 100"}, small, -1, syscall.SIGKILL, nil, "Stopped: the task used more than its 64 MB of memory."},
		{"memory in files", []string{"/bin/sh", "-c", "head -c 100000000 /dev/zero > /tmp/a; exit 1"}, sandbox.Limits{MemoryBytes: 64 << 20, TmpBytes: 1 << 30}, -1, syscall.SIGKILL, nil, "Stopped: the task used more than its 64 MB of memory."},
		{"processes", []string{"/bin/sh", "-c", "i=0; while [ $i -lt 40 ]; do sleep 100 & i=$((i+1)); done"}, small, 2, nil, nil, "Stopped: the task ran more than its 20 processes."},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sandboxtest.Spec(t, c.args...)
			s.Limits = c.limits
			if err := os.WriteFile(s.Work.Layer+"/upper/wrong", []byte("\x7fELFx"), 0o755); err != nil {
				t.Fatal(err)
			}
			os.Chown(s.Work.Layer+"/upper/wrong", layers.Canonical, layers.Canonical)
			e := sandboxtest.Start(t, h, s).Wait()
			if e.Code != c.code || e.Signal != c.signal || !errors.Is(e.Start, c.err) {
				t.Errorf("%+v", e)
			}
			if got := e.Sentence(c.limits); got != c.sentence {
				t.Errorf("sentence %q, want %q", got, c.sentence)
			}
		})
	}
}

// A task is ended at its cap, whether the kernel holds it or it is measured, and
// also when it was over right before it ended well.
func TestDisk(t *testing.T) {
	c := sandboxtest.Config(t)
	c.Disk = t.TempDir()
	h := sandboxtest.OpenAs(t, c)
	limits := sandbox.Limits{DiskBytes: 20_000_000}
	for name, command := range map[string]string{
		"work":  "head -c 30000000 /dev/zero > a; sleep 100",
		"home":  "head -c 30000000 /dev/zero > ~/a; sleep 100",
		"both":  "head -c 12000000 /dev/zero > a; head -c 12000000 /dev/zero > ~/a; sleep 100",
		"ended": "head -c 30000000 /dev/zero > a",
	} {
		t.Run(name, func(t *testing.T) {
			s := sandboxtest.Spec(t, "/bin/sh", "-c", command)
			s.Limits = limits
			s.Env = append(s.Env, "HOME=/home/box")
			e := sandboxtest.Start(t, h, s).Wait()
			if got := e.Sentence(limits); !e.Disk || got != "Stopped: the task used more than its 20 MB of disk." {
				t.Errorf("%+v, %q", e, got)
			}
		})
	}
	s := sandboxtest.Spec(t, "/bin/sh", "-c", "head -c 10000000 /dev/zero > a; echo x > /tmp/b")
	s.Limits = limits
	if e := sandboxtest.Start(t, h, s).Wait(); e.Disk || e.Code != 0 {
		t.Errorf("below the cap: %+v", e)
	}
}

func TestOutputIsTheEnd(t *testing.T) {
	h := sandboxtest.Open(t)
	e := sandboxtest.Shell(t, h, "head -c 1000000 /dev/zero | tr '\\0' x; echo err >&2; echo end")
	if len(e.Output) != 8<<10 || !strings.HasSuffix(e.Output, "xerr\nend\n") {
		t.Errorf("%d bytes, ends with %q", len(e.Output), e.Output[max(0, len(e.Output)-20):])
	}
}

// A task that leaves its output's end in a message that nobody reads holds nobody up.
func TestOutputEndLeftInAMessage(t *testing.T) {
	h := sandboxtest.Open(t)
	s := sandboxtest.Spec(t, "/usr/bin/python3", "-c", `import socket, array
s = socket.socket(socket.AF_UNIX)
s.connect("/run/box/broker.sock")
s.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1]))])
print("sent")`)
	took := make(chan net.Conn, 1)
	s.Serve = func(l net.Listener) { // as the broker does it: it keeps its connections a while longer
		if c, err := l.Accept(); err == nil {
			took <- c
		}
	}
	sb := sandboxtest.Start(t, h, s)
	select {
	case c := <-took:
		t.Cleanup(func() { c.Close() }) // before the sandbox is waited for, so that a fault fails this test alone
	case <-sb.Done():
		t.Fatalf("it sent nothing: %+v", sb.Wait())
	}
	select {
	case <-sb.Done():
	case <-time.After(120 * time.Second):
		t.Fatal("the sandbox has not ended after two minutes")
	}
	if e := sb.Wait(); e.Code != 0 || e.Output != "sent\n" {
		t.Errorf("%+v", e)
	}
}

// One task does not use up the machine's terminals.
func TestTerminals(t *testing.T) {
	h := sandboxtest.Open(t)
	e := sandboxtest.Shell(t, h, `python3 -c 'import os
n = 0
try:
    while n < 1000: os.open("/dev/ptmx", os.O_RDWR); n += 1
except OSError as err: print(n, err.strerror)'`)
	if e.Output != "256 No space left on device\n" {
		t.Errorf("%+v", e)
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 999: "999 bytes", 2 << 30: "2 GB", 5_000_000_000: "5 GB", 64 << 20: "64 MB", 1_500_000_000: "1.5 GB"} {
		if got := sandbox.Bytes(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// until waits for what is to become true.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-ctx.Done():
			t.Fatalf("not within a minute: %s", what)
		case <-tick.C:
		}
	}
}

// started runs a command that says when it is on, by a file in its work layer.
func started(t *testing.T, h *sandbox.Host, command string) (*sandbox.Sandbox, sandbox.Spec) {
	t.Helper()
	s := sandboxtest.Spec(t, "/bin/sh", "-c", command)
	sb := sandboxtest.Start(t, h, s)
	until(t, "the program is on", func() bool { _, err := os.Stat(s.Work.Layer + "/upper/on"); return err == nil })
	return sb, s
}

// freeze has a sandbox frozen: with version 1 the kernel of a busy machine needs several tries.
func freeze(t *testing.T, sb *sandbox.Sandbox) {
	t.Helper()
	until(t, "it is frozen", func() bool { return sb.Freeze() == nil })
}

func TestStop(t *testing.T) {
	conf := sandboxtest.Config(t)
	h := sandboxtest.OpenAs(t, conf)
	t.Run("asked", func(t *testing.T) {
		sb, _ := started(t, h, "trap 'echo bye; exit 4' TERM; touch on; while :; do sleep 0.05; done")
		sb.Stop(10 * time.Second)
		if e := sb.Wait(); e.Code != 4 || !strings.Contains(e.Output, "bye") {
			t.Errorf("%+v", e)
		}
	})
	t.Run("made", func(t *testing.T) {
		sb, _ := started(t, h, "trap '' TERM; touch on; while :; do sleep 0.05; done")
		sb.Stop(50 * time.Millisecond)
		if e := sb.Wait(); e.Signal != syscall.SIGKILL {
			t.Errorf("%+v", e)
		}
	})
	t.Run("killed while frozen", func(t *testing.T) {
		sb, _ := started(t, h, "touch on; sleep 100")
		freeze(t, sb)
		sb.Kill()
		if e := sb.Wait(); e.Signal != syscall.SIGKILL {
			t.Errorf("%+v", e)
		}
	})
	t.Run("killed while it is being frozen", func(t *testing.T) {
		for range 5 {
			sb, _ := started(t, h, "for w in 1 2 3 4; do (while :; do echo >> w$w; done) & done; touch on; wait")
			ended := func() bool {
				select {
				case <-sb.Done():
					return true
				default:
					return false
				}
			}
			var freezing sync.WaitGroup
			freezing.Go(func() {
				for late := time.After(time.Minute); !ended(); {
					select {
					case <-late:
						return
					default:
						sb.Freeze() // again and again, as when a busy machine refuses
					}
				}
			})
			sb.Kill()
			freezing.Wait()
			if !ended() {
				t.Error("it is there still")
				sb.Thaw()
			}
		}
	})
	// Agents were paused, and the task, or boxd with it, is ended: nothing goes on from there.
	for _, c := range []struct {
		name string
		kill func(*sandbox.Sandbox) error
	}{
		{"killed while frozen, it does nothing more", func(sb *sandbox.Sandbox) error { sb.Kill(); return nil }},
		{"swept while frozen, it does nothing more", func(*sandbox.Sandbox) error { _, err := cgroup.Sweep(conf.Cgroup, time.Minute); return err }},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 5 {
				sb, s := started(t, h, "for w in 1 2 3 4; do (while :; do echo >> w$w; done) & done; touch on; wait")
				freeze(t, sb)
				written := func() (n int64) {
					for w := range 4 {
						if st, err := os.Stat(fmt.Sprintf("%s/upper/w%d", s.Work.Layer, w+1)); err == nil {
							n += st.Size()
						}
					}
					return n
				}
				frozen := written()
				if err := c.kill(sb); err != nil {
					t.Fatal(err)
				}
				if e := sb.Wait(); e.Signal != syscall.SIGKILL {
					t.Errorf("%+v", e)
				}
				if now := written(); now != frozen {
					t.Errorf("%d lines when it was frozen, %d at its end", frozen, now)
				}
			}
		})
	}
	t.Run("all that it started", func(t *testing.T) {
		sb, s := started(t, h, "setsid sh -c 'touch on; sleep 1000' & setsid sleep 1000 & wait")
		uid := sb.UID()
		if processesOf(t, uid) == 0 {
			t.Fatal("none is seen while it runs")
		}
		sb.Kill()
		sb.Wait()
		if n := processesOf(t, uid); n != 0 {
			t.Errorf("%d processes of %s are left", n, s.User)
		}
	})
}

// processesOf counts the processes of a user in this test's control groups: a boxd
// elsewhere on the machine has sandboxes with the same user ids.
func processesOf(t *testing.T, uid int) int {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	n, ours := 0, fmt.Sprintf("/gurtos-test/%d-", os.Getpid())
	for _, d := range dirs {
		var st unix.Stat_t
		groups, err := os.ReadFile(d + "/cgroup")
		if err == nil && strings.Contains(string(groups), ours) && unix.Stat(d, &st) == nil && int(st.Uid) == uid {
			n++
		}
	}
	return n
}

func TestFreeze(t *testing.T) {
	h := sandboxtest.Open(t)
	sb, s := started(t, h, "touch on; i=0; while :; do i=$((i+1)); echo $i > n; done")
	read := func() string { b, _ := os.ReadFile(s.Work.Layer + "/upper/n"); return string(b) }
	freeze(t, sb)
	frozen := read()
	if e := sandboxtest.Shell(t, h, "sleep 0.1"); e.Code != 0 { // another one, and some time
		t.Fatalf("%+v", e)
	}
	if now := read(); now != frozen {
		t.Fatalf("it went on from %q to %q", frozen, now)
	}
	if err := sb.Thaw(); err != nil {
		t.Fatal(err)
	}
	until(t, "it goes on", func() bool { n := read(); return n != frozen && n != "" })
	if err := sb.Sync(); err != nil {
		t.Error(err)
	}
}

// The broker's socket is there before the program, its user's alone, and closed
// with the sandbox.
func TestServe(t *testing.T) {
	h := sandboxtest.Open(t)
	s := sandboxtest.Spec(t, "/usr/bin/python3", "-c", `
import os, socket
st = os.stat("/run/box/broker.sock")
s = socket.socket(socket.AF_UNIX); s.connect("/run/box/broker.sock")
print(oct(st.st_mode), st.st_uid, s.recv(100).decode())`)
	peers := make(chan int, 1)
	s.Serve = func(l net.Listener) {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		raw, _ := c.(*net.UnixConn).SyscallConn()
		raw.Control(func(fd uintptr) {
			cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
			if err == nil {
				peers <- int(cred.Uid)
			}
		})
		fmt.Fprint(c, "hello")
		c.Close()
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	}
	sb := sandboxtest.Start(t, h, s)
	if e := sb.Wait(); e.Output != "0o140600 1000 hello\n" {
		t.Errorf("%+v", e)
	}
	if uid := <-peers; uid != sb.UID() {
		t.Errorf("the peer is %d, want %d", uid, sb.UID())
	}
}

// The network namespace is given to who sets it up before the program starts.
func TestNetwork(t *testing.T) {
	h := sandboxtest.Open(t)
	s := sandboxtest.Spec(t, "/bin/sh", "-c", "readlink /proc/self/ns/net")
	name := ""
	s.Network = func(ns sandbox.Namespace) (err error) {
		name, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", ns.File().Fd()))
		return err
	}
	if e := sandboxtest.Start(t, h, s).Wait(); e.Output != name+"\n" {
		t.Errorf("inside %q, given %q", e.Output, name)
	}
	no := errors.New("no network today")
	s = sandboxtest.Spec(t, "/bin/true")
	s.Network = func(sandbox.Namespace) error { return no }
	if _, err := h.Start(t.Context(), s); !errors.Is(err, no) {
		t.Errorf("%v", err)
	}
}

func TestRefused(t *testing.T) {
	h := sandboxtest.Open(t)
	for name, change := range map[string]func(*sandbox.Spec){
		"no program":     func(s *sandbox.Spec) { s.Args = nil },
		"relative":       func(s *sandbox.Spec) { s.Args = []string{"sh"} },
		"user":           func(s *sandbox.Spec) { s.User = "root:x:0" },
		"id":             func(s *sandbox.Spec) { s.ID = "../a" },
		"slot":           func(s *sandbox.Spec) { s.Slot = layers.Slots },
		"memory":         func(s *sandbox.Spec) { s.Limits.MemoryBytes = 1 << 20 },
		"pids":           func(s *sandbox.Spec) { s.Limits.Pids = 1 },
		"layer missing":  func(s *sandbox.Spec) { s.Work.Layer += "-not" },
		"layer in use":   func(s *sandbox.Spec) { s.Home = s.Work },
		"zero in an arg": func(s *sandbox.Spec) { s.Args = []string{"/bin/true", "a\x00b"} },
	} {
		t.Run(name, func(t *testing.T) {
			s := sandboxtest.Spec(t, "/bin/true")
			change(&s)
			if sb, err := h.Start(t.Context(), s); err == nil {
				sb.Kill()
				t.Errorf("started: %+v", sb.Wait())
			}
		})
	}
	if left, _ := cgroup.Children(sandboxtest.Config(t).Cgroup); len(left) > 0 {
		t.Errorf("groups left: %q", left)
	}
}

// Landlock is on where the kernel has it: a place left out of its list can't be
// written, whatever the mounts say.
func TestLandlock(t *testing.T) {
	h := sandboxtest.Open(t)
	defer sandbox.SetWritable("/work", "/home/box", "/dev/null")()
	e := sandboxtest.Shell(t, h, "touch a ~/a; touch /tmp/a 2>/dev/null && echo without; mkdir d && mv d e && echo done")
	lsm, _ := os.ReadFile("/sys/kernel/security/lsm")
	want := "done\n"
	if abi, _, _ := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, 1); int(abi) < 2 {
		want = "without\ndone\n"
		t.Logf("this kernel has no Landlock (%s)", lsm)
	}
	if e.Code != 0 || e.Output != want {
		t.Errorf("%+v, want %q", e, want)
	}
}

// A root in which a mount's place is a symlink, missing or something else is refused with its name (CVE-2026-41579, CVE-2023-27561).
func TestRootRefused(t *testing.T) {
	folders := []string{"work", "home/box", "run/box", "tmp", "proc", "dev", "usr/lib/gurtos", "etc", "opt"}
	files := []string{"etc/passwd", "etc/group"}
	type spoiled struct{ path, spoil string }
	var all []spoiled
	for _, p := range slices.Concat(folders, files) {
		all = append(all, spoiled{p, "rm -r " + p + "; ln -s /tmp " + p}, spoiled{p, "rm -r " + p}, spoiled{p, "rm -r " + p + "; mkfifo " + p})
	}
	for _, p := range []string{"home", "run", "usr", "usr/lib"} { // on the way to one
		all = append(all, spoiled{p + "/", "mv " + p + " " + p + "-real; ln -s " + filepath.Base(p) + "-real " + p})
	}
	for _, c := range all {
		t.Run(c.spoil, func(t *testing.T) {
			conf := sandboxtest.Config(t)
			conf.TasksRoot = t.TempDir()
			sh := exec.Command("sh", "-c", "mkdir -p "+strings.Join(folders, " ")+"; touch "+strings.Join(files, " ")+"; "+c.spoil)
			sh.Dir = conf.TasksRoot
			if out, err := sh.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			h, err := sandbox.Open(conf)
			if err == nil {
				h.Close()
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), ": /"+c.path) {
				t.Errorf("%v does not name /%s", err, c.path)
			}
		})
	}
}

// Two Hosts never share a state folder, and the second one sweeps nothing.
func TestOneHost(t *testing.T) {
	c := sandboxtest.Config(t)
	h := sandboxtest.OpenAs(t, c)
	sb, _ := started(t, h, "touch on; sleep 100")
	if _, err := sandbox.Open(c); err == nil || !strings.Contains(err.Error(), "another boxd") {
		t.Errorf("%v", err)
	}
	select {
	case <-sb.Done():
		t.Errorf("the running one ended: %+v", sb.Wait())
	default:
	}
}

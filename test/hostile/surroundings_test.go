package hostile

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/sandbox"
	"gurtos/sandbox/layers"
	"gurtos/sandbox/sandboxtest"
)

// machine is what is on the machine for attempts to reach.
type machine struct {
	secret   string // a file
	abstract string // an abstract Unix socket, without the zero byte
	port     int    // a listener on 127.0.0.1
	tools    string
}

func newMachine(t *testing.T) machine {
	m := machine{secret: filepath.Join(t.TempDir(), "secret"), abstract: "gurtos-hostile-" + strconv.Itoa(os.Getpid()), tools: sandboxtest.Tools(t)}
	if err := os.WriteFile(m.secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	// A program of root that anybody may run, in a folder that everybody sees.
	dir, err := os.MkdirTemp("/tmp", "hostile")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, "setuid"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "setuid"), 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	for _, a := range []net.Addr{&net.UnixAddr{Name: "@" + m.abstract, Net: "unix"}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}} {
		l, err := net.Listen(a.Network(), a.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		if tcp, ok := l.Addr().(*net.TCPAddr); ok {
			m.port = tcp.Port
		}
	}
	return m
}

// Files, processes, networks and memory of the machine. An attempt is a shell
// command that ends with 0 when it got what it wanted; unshare are what its
// control is kept from, the rest it has.
func TestSurroundings(t *testing.T) {
	m := newMachine(t)
	python := func(code string) string { return "python3 -c '" + code + "'" }
	small := sandbox.Limits{MemoryBytes: 64 << 20, Pids: 64, TmpBytes: 16 << 20}
	h := sandboxtest.Open(t)
	tried, unproven := 0, []string(nil)
	for _, c := range []struct {
		name, source, command string
		unshare               []string
	}{
		{"file of the machine", "CVE-2024-21626", "cat " + m.secret, plain},
		{"file by the working folder", "CVE-2024-21626", "cat /proc/self/cwd/../../../../../../.." + m.secret, plain},
		{"file by PID 1's root", "CVE-2024-21626", "cat /proc/1/root" + m.secret, plain},
		{"file by a symlink in the workspace", "CVE-2021-30465", "ln -sf / up; cat up" + m.secret, plain},
		{"processes of the machine", "pid_namespaces(7)", "kill -0 " + strconv.Itoa(os.Getpid()), []string{"--mount"}},
		{"list of processes", "pid_namespaces(7)", "test $(ls /proc | grep -c '^[0-9]') -gt 12", []string{"--mount"}},
		{"abstract socket", "CVE-2020-15257", python(`import socket;socket.socket(socket.AF_UNIX).connect("\0` + m.abstract + `")`), plain},
		{"loopback of the machine", "CVE-2020-15257", python(fmt.Sprintf(`import socket;socket.create_connection(("127.0.0.1",%d),2)`, m.port)), plain},
		{"interfaces of the machine", "network_namespaces(7)", "tail -n +3 /proc/net/dev | grep -qv ' lo:'", plain},
		{"routes out", "spec 6", python(`import socket;socket.socket(socket.AF_INET,socket.SOCK_DGRAM).connect(("198.51.100.1",443))`), plain},
		{"paths in mountinfo", "a string mount shows its folders", python(`import ctypes;ctypes.CDLL(None).mount(b"`+filepath.Dir(m.secret)+`",b"/mnt",None,4096,None)`) + "; grep -e TestSurroundings -e /state/ -e tasks.erofs -e tasks-root /proc/self/mountinfo", plain},
		{"paths in descriptors", "standard output that is a file", "readlink /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 | grep -v '^/dev/null$' | grep '^/'", plain},
		{"hidden mounts", "mounts of other tasks", "test $(wc -l < /proc/self/mountinfo) -gt 60 || grep -e ' / /sys ' /proc/self/mountinfo", plain},
		{"tools changed", "CVE-2019-5736", "dir=/usr/lib/gurtos; test -e $dir/box-init || dir=" + m.tools + "; for f in $dir/*; do test -w $f && exit 0; done; exit 1", plain},
		{"root written", "the root is read-only", "test -w /usr -o -w /etc -o -w /var -o -w /run -o -w / -o -w /home", plain},
		{"setuid programs", "CVE-2021-4034", "find /usr /work /tmp -xdev -perm /6000 -type f 2>/dev/null | grep -q .", plain},
		{"fork bomb", "RLIMIT_NPROC counts all of a user", python(`import os,time
for i in range(200):
  if os.fork()==0: time.sleep(3); os._exit(0)
`), plain},
		{"memory", "memory.max", python(`a=b"x"*(200<<20)`), plain},
		{"memory by /tmp", "tmpfs without a size", "head -c 100000000 /dev/zero > /tmp/hostile-fill; r=$?; rm -f /tmp/hostile-fill; exit $r", plain},
		{"memory by /dev/shm", "tmpfs without a size", "head -c 100000000 /dev/zero > /dev/shm/hostile-fill; r=$?; rm -f /dev/shm/hostile-fill; exit $r", plain},
		{"memory by System V", "memory that outlives its process", python(`import ctypes,sys
c=ctypes.CDLL(None,use_errno=True); c.shmat.restype=ctypes.c_void_p
i=c.shmget(0,200<<20,0o1600); p=c.shmat(i,None,0)
if i<0 or p in (None,2**64-1): sys.exit(1)
c.shmctl(i,0,None); ctypes.memset(p,1,200<<20)`), plain},
		{"memory by memfd", "memory that no mount shows", python(`import os
f=os.memfd_create("x"); b=b"x"*(1<<20)
for i in range(200): os.write(f,b)`), plain},
		{"memory by sockets", "memory of the kernel: unix(7)", python(`import socket,resource,sys
resource.setrlimit(resource.RLIMIT_NOFILE,(4000,4000)); total=0; kept=[]
while total < 100<<20 and len(kept) < 3800:
  a,b=socket.socketpair(); kept+=[a,b]; a.setblocking(False)
  try:
    while True: total+=a.send(b"x"*65536)
  except BlockingIOError: pass
sys.exit(total < 100<<20)`), plain},
		{"memory by pipes", "CVE-2016-2847", python(`import os,fcntl,sys
total=0
for i in range(120):
  r,w=os.pipe()
  try: fcntl.fcntl(w,1031,1<<20)
  except OSError: pass
  os.set_blocking(w,False)
  try:
    while True: total+=os.write(w,b"x"*65536)
  except BlockingIOError: pass
sys.exit(total < 100<<20)`), plain},
		{"inodes by /tmp", "tmpfs without nr_inodes", python(`import os,shutil
os.mkdir("/tmp/hostile-inodes")
try:
  for i in range(5000): os.mknod("/tmp/hostile-inodes/%d" % i)
finally: shutil.rmtree("/tmp/hostile-inodes")
`), plain},
		{"writing to PID 1's output", "CVE-2016-9962", "echo x > /proc/1/fd/1", plain},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sandboxtest.Spec(t, "/bin/sh", "-c", c.command)
			s.Limits = small
			e := sandboxtest.Start(t, h, s).Wait()
			if e.Code == 0 || e.Start != nil || e.Code == 127 {
				t.Errorf("in a sandbox (%s): %+v", c.source, e)
			}
			t.Logf("in a sandbox: %s %s", e.Sentence(small), e.Output)
			out, err := os.Create(filepath.Join(t.TempDir(), "output"))
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			control := exec.Command("unshare", append(c.unshare, "sh", "-c", c.command)...)
			control.Dir, control.Stdout, control.Stderr = t.TempDir(), out, out
			tried++
			if err := control.Run(); err != nil {
				said, _ := os.ReadFile(out.Name())
				unproven = append(unproven, c.name)
				t.Logf("unproven: the control is refused too: %v\n%s", err, said)
			}
		})
	}
	if len(unproven) > tried/10 {
		t.Errorf("%d attempts are unproven, at most %d may be", len(unproven), tried/10)
	}
	t.Logf("%d attempts, unproven: %q", tried, unproven)
}

// A fork bomb leaves the machine to others and is gone at once when killed.
func TestForkBomb(t *testing.T) {
	h := sandboxtest.Open(t)
	s := sandboxtest.Spec(t, "/bin/sh", "-c", "b() { b | b & b; }; touch on; b; sleep 1000")
	s.Limits.Pids = 200
	sb := sandboxtest.Start(t, h, s)
	until(t, "it is on", func() bool { _, err := os.Stat(s.Work.Layer + "/upper/on"); return err == nil })
	if e := sandboxtest.Shell(t, h, "echo here"); e.Output != "here\n" {
		t.Errorf("beside it: %+v", e)
	}
	sb.Kill()
	sb.Wait() // comes back once nothing of it is left
}

func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	end := time.NewTimer(2 * time.Minute)
	defer end.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-end.C:
			t.Fatalf("not within 2 minutes: %s", what)
		case <-tick.C:
		}
	}
}

// The next sandbox with the same user finds nothing of the last one.
func TestSlotReuse(t *testing.T) {
	h := sandboxtest.Open(t)
	run := func(command string) sandbox.Exit {
		s := sandboxtest.Spec(t, "/bin/sh", "-c", command)
		s.Slot = 11
		return sandboxtest.Start(t, h, s).Wait()
	}
	const leave = "ipcmk -M 4096 -S 1 -Q >/dev/null; touch /tmp/left /dev/shm/left; setsid sleep 1000 & python3 -c 'import socket;s=socket.socket(socket.AF_UNIX);s.bind(\"\\0left\")'"
	const find = "{ ipcs -m; ipcs -s; ipcs -q; } | grep 0x | grep -v 0x00000000; ls /tmp /dev/shm | grep left; pgrep sleep; true"
	if e := run(leave + "; " + find); strings.Count(e.Output, "left") != 2 || strings.Count(e.Output, "0x") < 3 {
		t.Fatalf("the control found too little: %+v", e)
	}
	if e := run(find); e.Code != 0 || e.Output != "" {
		t.Errorf("found: %+v", e)
	}
}

// A workspace that is a symlink or a device is refused with its name (CVE-2021-30465).
func TestWorkspaceIsNoFolder(t *testing.T) {
	h := sandboxtest.Open(t)
	for kind, make := range map[string]func(path string) error{
		"symlink": func(p string) error { return os.Symlink("/etc", p) },
		"device":  func(p string) error { return unix.Mknod(p, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))) },
		"file":    func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"nothing": func(string) error { return nil },
	} {
		t.Run(kind, func(t *testing.T) {
			s := sandboxtest.Spec(t, "/bin/ls")
			s.Work.Base = filepath.Join(t.TempDir(), "garden")
			if err := make(s.Work.Base); err != nil {
				t.Fatal(err)
			}
			sb, err := h.Start(t.Context(), s)
			if err == nil {
				t.Fatalf("started: %+v", sb.Wait())
			}
			if !strings.Contains(err.Error(), "garden") {
				t.Errorf("%v does not name it", err)
			}
		})
	}
}

// One task's user can't use another's broker socket, were its path known.
func TestOtherBroker(t *testing.T) {
	dir := t.TempDir()
	os.Chmod(dir, 0o755)
	os.Chmod(filepath.Dir(dir), 0o755)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	path := filepath.Join(dir, "s")
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, layers.UID(1), layers.UID(1)); err != nil {
		t.Fatal(err)
	}
	connect := func(uid int) error {
		c := exec.Command("setpriv", "--reuid="+strconv.Itoa(uid), "--regid="+strconv.Itoa(uid), "--clear-groups", "/usr/bin/python3", "-c", "import socket,sys;socket.socket(socket.AF_UNIX).connect(sys.argv[1])", path)
		return c.Run()
	}
	if err := connect(layers.UID(1)); err != nil {
		t.Fatalf("the control, its own user: %v", err)
	}
	if connect(layers.UID(2)) == nil {
		t.Error("another user connects")
	}
}

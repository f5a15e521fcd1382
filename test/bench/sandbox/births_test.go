// Package sandbox measures the start of a sandbox beside its peers. It is a
// package of its own because a sandbox is born by this very program running
// itself: what other benchmarks link in would be measured too.
package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"gurtos/sandbox"
	"gurtos/sandbox/cgroup"
	"gurtos/sandbox/layers"
	"gurtos/sandbox/sandboxtest"
	"gurtos/sandbox/seccomp"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

// peer runs /bin/true in what it makes, from create to exit. prepare is not
// measured; what it returns is.
type peer struct {
	name    string
	prepare func(b *testing.B) (run func() error)
}

// BenchmarkSandbox is create → exit of /bin/true, one at a time and 4 at once.
// All peers take turns in one run, so that a noisy machine is as noisy for each.
// Peers stand once with what they offer by themselves, and where that is less
// than a task's sandbox once more as equal to it as they can be made: user and
// network namespaces, our filter or as many rules, limits.
func BenchmarkSandbox(b *testing.B) {
	asOnABox(b)
	root := folderRoot(b)
	cold := sandboxtest.OpenAs(b, config(b))
	warm := newWarm(b)
	peers := []peer{
		{"gurtos-cold", func(b *testing.B) func() error { return ours(b, cold) }},
		{"gurtos-warm", func(b *testing.B) func() error { full(b, warm, waiting); return ours(b, warm) }},
		{"runc-1.5.3-equal", runtimePeer(b, runc153(b), root)},
		{"runc-debian-equal", runtimePeer(b, "/usr/sbin/runc", root)},
		{"crun-equal", runtimePeer(b, "/usr/bin/crun", root)},
		{"bubblewrap", bubblewrap(root, nil)},
		{"bubblewrap-equal", bubblewrap(root, filterFile(b))},
		{"unshare", command("unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--ipc", "--uts", "--net", "--cgroup", "/bin/true")},
		{"bare-clone", bareClone},
	}
	for _, atOnce := range []int{1, 4} {
		took := map[string][]float64{}
		b.Run(fmt.Sprintf("at-once=%d", atOnce), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				for _, p := range peers {
					runs := make([]func() error, atOnce)
					for i := range runs {
						runs[i] = p.prepare(b)
					}
					ms := make([]float64, atOnce)
					var all sync.WaitGroup
					b.StartTimer()
					for i, run := range runs {
						all.Go(func() {
							start := time.Now()
							if err := run(); err != nil {
								b.Errorf("%s: %v", p.name, err)
							}
							ms[i] = float64(time.Since(start).Microseconds()) / 1000
						})
					}
					all.Wait()
					b.StopTimer()
					took[p.name] = append(took[p.name], ms...)
				}
				b.StartTimer()
			}
		})
		for _, p := range peers {
			b.Run(fmt.Sprintf("at-once=%d/%s", atOnce, p.name), func(b *testing.B) {
				report(b, took[p.name])
			})
		}
	}
}

// BenchmarkSandboxMemory is what a sandbox costs while it waits in the pool, and
// while it runs a program that only waits: proportional set sizes of its
// processes, and how much the machine's free memory shrinks for each.
func BenchmarkSandboxMemory(b *testing.B) {
	c := config(b)
	c.Pool = 16
	free := available(b)
	h := sandboxtest.OpenAs(b, c)
	full(b, h, c.Pool)
	n := float64(c.Pool)
	b.ReportMetric(0, "ns/op")
	parked := float64(proportional(b, c.Cgroup))
	b.ReportMetric(parked/n, "KB-waiting")
	b.ReportMetric(float64(free-available(b))/n, "KB-machine-waiting")
	for range c.Pool {
		s := emptySpec(b)
		s.Args = []string{"/bin/sleep", "1000"}
		sandboxtest.Start(b, h, s)
	}
	full(b, h, c.Pool) // again, so all of the others run
	b.ReportMetric((float64(proportional(b, c.Cgroup))-parked)/n, "KB-running")
}

// proportional adds up the sizes, in KB, of the processes below a control group.
func proportional(b *testing.B, group string) int {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		b.Fatal(err)
	}
	sum := 0
	for _, d := range dirs {
		in, err := os.ReadFile(d + "/cgroup")
		if err != nil || !strings.Contains(string(in), group+"/") {
			continue
		}
		sum += figure(d+"/smaps_rollup", "Pss:")
	}
	return sum
}

func available(b *testing.B) int { return figure("/proc/meminfo", "MemAvailable:") }

// figure reads a figure in KB; what is gone has 0.
func figure(path, name string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			n, _ := strconv.Atoi(f[1])
			return n
		}
	}
	return 0
}

// report tells what was measured elsewhere; the benchmark itself does nothing.
func report(b *testing.B, ms []float64) {
	if len(ms) == 0 {
		b.Skip("its measuring run was left out")
	}
	slices.Sort(ms)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ms[0], "min-ms")
	b.ReportMetric(ms[len(ms)/2], "p50-ms")
	b.ReportMetric(ms[len(ms)*95/100], "p95-ms")
}

func ours(b *testing.B, h *sandbox.Host) func() error {
	s := emptySpec(b)
	return func() error {
		sb, err := h.Start(b.Context(), s)
		if err != nil {
			return err
		}
		if e := sb.Wait(); e.Code != 0 {
			return fmt.Errorf("%+v", e)
		}
		return nil
	}
}

var made atomic.Int64

// emptySpec has layers in memory, as the peers' /work is: the end of a sandbox
// writes its layers' file system to disk, which no peer has to do.
func emptySpec(b *testing.B) sandbox.Spec {
	id := "b" + strconv.FormatInt(made.Add(1), 10)
	dir, err := os.MkdirTemp("/dev/shm", "bench-"+id)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	for _, l := range []string{"work", "home"} {
		if err := layers.Create(filepath.Join(dir, l)); err != nil {
			b.Fatal(err)
		}
	}
	return sandbox.Spec{ID: id, User: "box-" + id, Slot: sandbox.AnySlot, Args: []string{"/bin/true"},
		Work: layers.View{Layer: filepath.Join(dir, "work")}, Home: layers.View{Layer: filepath.Join(dir, "home")}}
}

// config has its state in memory, as a box and as the peers have theirs.
func config(b *testing.B) sandbox.Config {
	c := sandboxtest.Config(b)
	c.State = filepath.Join(inMemory(b), "state")
	return c
}

// inMemory is a folder that lies in memory.
func inMemory(b *testing.B) string {
	dir, err := os.MkdirTemp("/dev/shm", "bench")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// asOnABox has processes join control groups as fast as on a box, for all peers alike, until the benchmark ends.
func asOnABox(b *testing.B) {
	text, err := os.ReadFile("/proc/mounts")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 4 || f[2] != "cgroup2" || strings.Contains(f[3], "favordynmods") {
			continue
		}
		var kept []string
		for _, o := range []string{"nsdelegate", "memory_localevents", "memory_recursiveprot", "memory_hugetlb_accounting", "pids_localevents"} {
			if strings.Contains(f[3], o) {
				kept = append(kept, o)
			}
		}
		if err := unix.Mount("", f[1], "", unix.MS_REMOUNT, strings.Join(append(kept, "favordynmods"), ",")); err != nil {
			b.Logf("joining a control group is as slow as this machine has it: %v", err)
			return
		}
		b.Cleanup(func() { unix.Mount("", f[1], "", unix.MS_REMOUNT, strings.Join(kept, ",")) })
		return
	}
}

const waiting = 4 // sandboxes in the pool

// newWarm makes a Host with a pool.
func newWarm(b *testing.B) *sandbox.Host {
	c := config(b)
	c.Pool = waiting
	return sandboxtest.OpenAs(b, c)
}

// full waits until the pool has n and nothing is being made: a pool that fills
// up meanwhile would be measured too.
func full(b *testing.B, h *sandbox.Host, n int) {
	end := time.Now().Add(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for h.Parked() < n {
		if time.Now().After(end) {
			b.Fatal("the pool does not fill")
		}
		<-tick.C
	}
}

// folderRoot is the tasks root as a folder, which peers need: an image is
// mounted for the run.
func folderRoot(b *testing.B) string {
	root := sandboxtest.TasksRoot(b)
	if st, err := os.Stat(root); err != nil || st.IsDir() {
		return root
	}
	dir, err := os.MkdirTemp("/run", "bench-root") // where another user may search
	if err != nil {
		b.Fatal(err)
	}
	os.Chmod(dir, 0o755)
	if out, err := exec.Command("mount", "-o", "loop,ro", root, dir).CombinedOutput(); err != nil {
		b.Fatalf("mounting the tasks root: %v\n%s", err, out)
	}
	b.Cleanup(func() {
		unix.Unmount(dir, unix.MNT_DETACH)
		os.Remove(dir)
	})
	return dir
}

// runc153 is built from the module that the sandbox uses, with the library that makes its filter.
func runc153(b *testing.B) string {
	path := filepath.Join(b.TempDir(), "runc")
	if out, err := exec.Command("go", "build", "-tags=seccomp", "-o", path, "github.com/opencontainers/runc").CombinedOutput(); err != nil {
		b.Fatalf("building runc: %v\n%s", err, out)
	}
	return path
}

func runtimePeer(b *testing.B, program, root string) func(b *testing.B) func() error {
	if _, err := os.Stat(program); err != nil {
		return missing(program)
	}
	dir := inMemory(b)
	state := filepath.Join(dir, "state")
	return func(b *testing.B) func() error {
		id := "b" + strconv.FormatInt(made.Add(1), 10)
		bundle := filepath.Join(dir, id)
		if err := os.Mkdir(bundle, 0o755); err != nil {
			b.Fatal(err)
		}
		conf, err := json.Marshal(bundleSpec(id, root))
		if err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(bundle, "config.json"), conf, 0o644); err != nil {
			b.Fatal(err)
		}
		return func() error {
			return withoutUnified(exec.Command(program, "--root", state, "run", "--bundle", bundle, id))
		}
	}
}

// withoutUnified runs a command where the second cgroup hierarchy of a hybrid
// machine is not mounted: crun 1.8 refuses such a machine.
func withoutUnified(c *exec.Cmd) error {
	if cgroup.Unified() {
		return combined(c)
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its namespace
		err := unix.Unshare(unix.CLONE_FS)
		if err == nil {
			err = unix.Setns(int(hybrid().Fd()), unix.CLONE_NEWNS)
		}
		if err == nil {
			err = combined(c)
		}
		done <- err
	}()
	return <-done
}

// hybrid is a mount namespace without the unified hierarchy.
var hybrid = sync.OnceValue(func() *os.File {
	done := make(chan *os.File)
	go func() {
		runtime.LockOSThread()
		must(unix.Unshare(unix.CLONE_NEWNS))
		must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		unix.Unmount("/sys/fs/cgroup/unified", unix.MNT_DETACH)
		f, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/mnt", unix.Gettid()))
		must(err)
		done <- f
	}()
	return <-done
})

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func bundleSpec(id, root string) *specs.Spec {
	pids, memory, share := int64(1024), int64(2<<30), uint64(1024)
	ids := []specs.LinuxIDMapping{{ContainerID: 0, HostID: layers.RootUID, Size: 1}, {ContainerID: 1000, HostID: layers.FirstUID, Size: 1}}
	return &specs.Spec{
		Version: "1.0.2", Root: &specs.Root{Path: root, Readonly: true}, Hostname: "box",
		Process: &specs.Process{Args: []string{"/bin/true"}, Env: []string{"PATH=/usr/bin:/bin"}, Cwd: "/", NoNewPrivileges: true,
			User: specs.User{UID: 1000, GID: 1000}, Capabilities: &specs.LinuxCapabilities{}},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "mode=755", "size=64k"}},
			{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
			{Destination: "/tmp", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=1777", "size=64m"}},
			{Destination: "/work", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "size=64m"}},
			{Destination: "/home/box", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "size=64m"}},
			{Destination: "/run/box", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "noexec", "size=64k"}},
		},
		Linux: &specs.Linux{
			Namespaces:  []specs.LinuxNamespace{{Type: "user"}, {Type: "pid"}, {Type: "ipc"}, {Type: "uts"}, {Type: "mount"}, {Type: "network"}, {Type: "cgroup"}},
			UIDMappings: ids, GIDMappings: ids, CgroupsPath: "/gurtos-bench/" + id,
			Resources:     &specs.LinuxResources{Pids: &specs.LinuxPids{Limit: &pids}, Memory: &specs.LinuxMemory{Limit: &memory}, CPU: &specs.LinuxCPU{Shares: &share}},
			MaskedPaths:   []string{"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi"},
			ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
			Seccomp: &specs.LinuxSeccomp{DefaultAction: specs.ActErrno, Architectures: []specs.Arch{specs.ArchX86_64},
				Syscalls: []specs.LinuxSyscall{{Names: allowed(), Action: specs.ActAllow}}},
		},
	}
}

// allowed are the names that our table allows, as far as older libraries know them.
func allowed() []string {
	var out []string
	for _, row := range seccomp.Table {
		if row.Verdict == seccomp.Allow {
			out = append(out, row.Names()...)
		}
	}
	return out
}

// filterFile is our filter as bubblewrap reads it.
func filterFile(b *testing.B) []byte {
	raw, err := seccomp.Filter(seccomp.Table)
	if err != nil {
		b.Fatal(err)
	}
	var out []byte
	for _, in := range raw {
		out = append(out, instruction(in)...)
	}
	return out
}

func instruction(in bpf.RawInstruction) []byte {
	return []byte{byte(in.Op), byte(in.Op >> 8), in.Jt, in.Jf, byte(in.K), byte(in.K >> 8), byte(in.K >> 16), byte(in.K >> 24)}
}

// bubblewrap sets no limits; with a filter it is otherwise like a task's sandbox.
func bubblewrap(root string, filter []byte) func(b *testing.B) func() error {
	return func(b *testing.B) func() error {
		args := []string{"--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
			"--ro-bind", root, "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/work", "--hostname", "box", "--chdir", "/"}
		if filter == nil {
			return func() error { return combined(exec.Command("bwrap", append(args, "--unshare-net", "/bin/true")...)) }
		}
		f, err := os.CreateTemp(b.TempDir(), "filter")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := f.Write(filter); err != nil {
			b.Fatal(err)
		}
		if _, err := f.Seek(0, 0); err != nil {
			b.Fatal(err)
		}
		return func() error {
			defer f.Close()
			c := exec.Command("bwrap", append(args, "--unshare-user", "--uid", "1000", "--gid", "1000", "--unshare-net", "--tmpfs", "/home/box", "--tmpfs", "/run/box", "--seccomp", "3", "/bin/true")...)
			c.ExtraFiles = []*os.File{f}
			return combined(c)
		}
	}
}

func command(name string, args ...string) func(b *testing.B) func() error {
	return func(*testing.B) func() error { return func() error { return combined(exec.Command(name, args...)) } }
}

func bareClone(*testing.B) func() error {
	return func() error {
		c := exec.Command("/bin/true")
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP}
		return c.Run()
	}
}

func missing(program string) func(b *testing.B) func() error {
	return func(*testing.B) func() error {
		return func() error { return fmt.Errorf("%s is not installed", program) }
	}
}

func combined(c *exec.Cmd) error {
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gurtos/sandbox"
	"gurtos/sandbox/cgroup"
	"gurtos/sandbox/layers"
	"gurtos/sandbox/sandboxtest"
)

// BenchmarkWalls is the work of BenchmarkFiles that asks most of the kernel, in sandboxes that lack one wall each: what a wall costs is what is gained without
// it. overlay is the layers alone, without a sandbox. What is told is time of processors, which a busy machine changes less, and how large a share of each
// place's the bare file system's is.
func BenchmarkWalls(b *testing.B) {
	root := folderRoot(b)
	dir := b.TempDir() // on a disk
	base := filepath.Join(dir, "base")
	makeWork(b, base)
	bare := filepath.Join(dir, "bare")
	if out, err := exec.Command("cp", "-a", base, bare).CombinedOutput(); err != nil {
		b.Fatalf("%v %s", err, out)
	}
	m, err := layers.NewMounter()
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	view := layers.View{Base: base}
	in := func(c sandbox.Config) func(*testing.B, string) string {
		h := sandboxtest.OpenAs(b, c)
		return func(b *testing.B, script string) string { return inView(b, h, view, script) }
	}
	places := []struct {
		name string
		run  func(b *testing.B, script string) string
	}{
		{"bare", func(b *testing.B, script string) string { return onBare(b, root, bare, script) }},
		{"overlay", func(b *testing.B, script string) string { return inOverlay(b, m, root, view, script) }},
		{"sandbox", in(config(b))},
		{"no-filter", in(without(b, "\tif (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0) != 0)\n", "\tif (prog.len == 0)\n"))},
		{"no-landlock", in(without(b, "\tfence(writable, head.writable);\n", "\t(void)fence, (void)writable;\n"))},
		{"filter-spec-allow", in(without(b, "prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0)", "syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &prog)"))},
	}
	if !cgroup.Unified() {
		c := config(b)
		h := sandboxtest.OpenAs(b, c)
		places = append(places, struct {
			name string
			run  func(b *testing.B, script string) string
		}{"memory-not-counted", func(b *testing.B, script string) string { return uncounted(b, h, c.Cgroup, view, script) }})
	}
	for _, w := range fileWork[:3] {
		took := map[string][]float64{}
		b.Run(w.name, func(b *testing.B) {
			for b.Loop() {
				for range rounds {
					for _, p := range places {
						took[p.name] = append(took[p.name], timed(b, p.run(b, "set -e; { "+w.setUp+"; } >&2; python3 -c '"+processors+"' '"+w.run+"'")))
					}
				}
			}
			b.ReportMetric(0, "ns/op")
			least := slices.Min(took["bare"])
			for _, p := range places {
				b.ReportMetric(slices.Min(took[p.name]), p.name+"-ms")
				if p.name != "bare" {
					b.ReportMetric(least/slices.Min(took[p.name]), p.name+"-share")
				}
			}
		})
	}
}

// processors is a program in Python that prints how many nanoseconds of processors a shell command takes.
const processors = `import resource,subprocess,sys
subprocess.run(["/bin/sh","-c",sys.argv[1]],check=True,stdout=subprocess.DEVNULL)
r=resource.getrusage(resource.RUSAGE_CHILDREN)
print("took",int((r.ru_utime+r.ru_stime)*1e9))`

// without has a box-init in whose source one text stands for another.
func without(b *testing.B, wall, instead string) sandbox.Config {
	b.Helper()
	c := config(b)
	dir := b.TempDir()
	source, err := os.ReadFile("../../../sandbox/boxinit/box-init.c")
	if err != nil {
		b.Fatal(err)
	}
	if n := strings.Count(string(source), wall); n != 1 {
		b.Fatalf("box-init.c has %d times %q", n, wall)
	}
	write(b, filepath.Join(dir, "box-init.c"), strings.Replace(string(source), wall, instead, 1))
	args, err := os.ReadFile("../../../sandbox/boxinit/gcc.args")
	if err != nil {
		b.Fatal(err)
	}
	flags := strings.Fields(strings.ReplaceAll(string(args), "sandbox/boxinit/box-init.c", filepath.Join(dir, "box-init.c")))
	gcc := exec.Command("gcc", append(flags, "-o", filepath.Join(dir, "box-init"))...)
	gcc.Dir = "../../.."
	if out, err := gcc.CombinedOutput(); err != nil {
		b.Fatalf("building box-init: %v\n%s", err, out)
	}
	if err := os.Symlink(filepath.Join(c.Tools, "worker"), filepath.Join(dir, "worker")); err != nil {
		b.Fatal(err)
	}
	c.Tools = dir
	return c
}

// inOverlay runs a script as onBare does, in a view with a new layer.
func inOverlay(b *testing.B, m *layers.Mounter, root string, v layers.View, script string) string {
	b.Helper()
	dir := b.TempDir()
	v.Layer = filepath.Join(dir, "work")
	if err := layers.Create(v.Layer); err != nil {
		b.Fatal(err)
	}
	mt, err := m.Mount(v, nil)
	if err != nil {
		b.Fatal(err)
	}
	at := filepath.Join(dir, "at")
	if err := os.Mkdir(at, 0o755); err != nil {
		b.Fatal(err)
	}
	if err := unix.MoveMount(int(mt.File.Fd()), "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		b.Fatal(err)
	}
	out := onBare(b, root, at, script)
	if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
		b.Fatal(err)
	}
	mt.Close()
	if err := layers.Drop(v.Layer); err != nil {
		b.Fatal(err)
	}
	return out
}

// uncounted runs a script in a sandbox whose processes have left its memory group.
func uncounted(b *testing.B, h *sandbox.Host, group string, v layers.View, script string) string {
	b.Helper()
	s := emptySpec(b)
	v.Layer = filepath.Join(b.TempDir(), "work")
	if err := layers.Create(v.Layer); err != nil {
		b.Fatal(err)
	}
	wait, goOn, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	defer wait.Close()
	defer goOn.Close()
	s.Work, s.Args, s.Env, s.Files = v, []string{"/bin/sh", "-c", "read on <&3; exec 3<&-; " + script}, env, []*os.File{wait}
	sb, err := h.Start(b.Context(), s)
	if err != nil {
		b.Fatal(err)
	}
	const memory = "/sys/fs/cgroup/memory"
	lists, err := filepath.Glob(memory + group + "/*/cgroup.procs")
	if err != nil || len(lists) != 1 {
		b.Fatalf("%q, %v", lists, err)
	}
	for {
		text, err := os.ReadFile(lists[0])
		if err != nil {
			b.Fatal(err)
		}
		pids := strings.Fields(string(text))
		if len(pids) == 0 {
			break
		}
		for _, pid := range pids {
			if _, err := strconv.Atoi(pid); err != nil {
				b.Fatal(err)
			}
			if err := os.WriteFile(memory+"/cgroup.procs", []byte(pid), 0); err != nil {
				b.Fatal(err)
			}
		}
	}
	if _, err := goOn.WriteString("on\n"); err != nil {
		b.Fatal(err)
	}
	e := sb.Wait()
	if e.Code != 0 {
		b.Fatalf("%+v", e)
	}
	if err := layers.Drop(v.Layer); err != nil {
		b.Fatal(err)
	}
	return e.Output
}

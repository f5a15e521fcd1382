package box

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gurtos/boot/modules"
	"gurtos/image/build"
	"gurtos/image/qemu"
	"gurtos/initramfs"
	"gurtos/test/boot/nbd"
)

// Lab is a small guest of the image's kernel that does what it is told over its
// console (package main in test/boot/lab).
type Lab struct {
	VM *qemu.VM

	t       testing.TB
	servers map[string]*nbd.Server
	read    int // place in the console's text behind what was waited for
}

// LabSetup says what a lab has besides its own disk.
type LabSetup struct {
	Disks    map[string]*nbd.Disk // virtio disks by serial number
	Late     map[string]*nbd.Disk // NVMe disks, not there before the lab loads nvme
	Programs map[string]string    // files for the lab's disk: path there → path here
	Modules  []string
	MemoryMB int
}

// StartLab boots a lab.
func StartLab(t testing.TB, s LabSetup) *Lab {
	t.Helper()
	img := Built(t)
	dir := Keep(t)
	program := GoBuild(t, "gurtos/test/boot/lab")
	l := &Lab{t: t, servers: map[string]*nbd.Server{}}
	m := qemu.Machine{
		Dir: filepath.Join(dir, "vm"), MemoryMB: s.MemoryMB, NoNet: true, NoReboot: true,
		Kernel: img.Kernel, Initrd: labInitrd(t, img, program), Cmdline: "console=ttyS0 quiet loglevel=3 panic=-1 no_timer_check", // on a busy machine an emulated timer fails the check
		Disks: []qemu.Disk{{File: labDisk(t, img, program, s), ReadOnly: true, Serial: "lab"}, {File: img.Tasks, ReadOnly: true, Serial: "tasks"}},
	}
	for _, group := range []struct {
		disks map[string]*nbd.Disk
		bus   string
	}{{s.Disks, ""}, {s.Late, "nvme"}} {
		for _, serial := range slices.Sorted(maps.Keys(group.disks)) {
			l.servers[serial] = serve(t, group.disks[serial])
			m.Disks = append(m.Disks, qemu.Disk{NBD: l.servers[serial].Socket(), Serial: serial, Bus: group.bus})
		}
	}
	vm, err := qemu.Start(context.WithoutCancel(t.Context()), m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(vm.Kill)
	l.VM = vm
	l.Wait(`lab: ready\r?\n`, time.Minute)
	return l
}

// Server serves the disk of a serial number.
func (l *Lab) Server(serial string) *nbd.Server { return l.servers[serial] }

// Wait waits for the console to say something and gives all it said up to there.
func (l *Lab) Wait(pattern string, limit time.Duration) string {
	l.t.Helper()
	limit = Limit(l.VM.Accel, limit)
	ctx, cancel := context.WithTimeoutCause(l.t.Context(), limit, fmt.Errorf("longer than %v", limit))
	defer cancel()
	_, after, err := l.VM.Serial.Wait(ctx, l.read, regexp.MustCompile(pattern))
	if err != nil {
		l.t.Fatal(err)
	}
	text := l.VM.Serial.Text(l.read)[:after-l.read]
	l.read = after
	return text
}

// Send gives a command without waiting for its end.
func (l *Lab) Send(command string) {
	l.t.Helper()
	if err := l.VM.Serial.Send(command + "\n"); err != nil {
		l.t.Fatal(err)
	}
}

// Try gives a command, waits for its end and gives what the console said and
// whether it went well.
func (l *Lab) Try(limit time.Duration, command string) (said string, ok bool) {
	l.t.Helper()
	l.Send(command)
	said = l.Wait(`lab: (done|failed: [^\n]*)\r?\n`, limit)
	return said, strings.HasSuffix(strings.TrimRight(said, "\r\n"), "lab: done")
}

// Do is Try that has to go well.
func (l *Lab) Do(limit time.Duration, commands ...string) (said string) {
	l.t.Helper()
	for _, c := range commands {
		text, ok := l.Try(limit, c)
		if !ok {
			l.t.Fatalf("%s: %s", c, last(text, 30))
		}
		said += text
	}
	return said
}

// labInitrd holds what finds the lab's disk.
func labInitrd(t testing.TB, img build.Image, program string) string {
	t.Helper()
	tree := initramfs.New()
	tree.File("/init", program, 0o755)
	for file := range modulesOf(t, img, "erofs", "overlay", "virtio_blk", "crc32c_generic") {
		tree.File("/modules/"+filepath.Base(img.Modules)+"/"+file, filepath.Join(img.Modules, file), 0o644)
	}
	file := filepath.Join(t.TempDir(), "initrd")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := tree.Write(f); err != nil {
		t.Fatal(err)
	}
	return file
}

// labDisk is the lab's part of its root: an EROFS with the programs, and folders to mount on.
func labDisk(t testing.TB, img build.Image, program string, s LabSetup) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "lab")
	for _, d := range []string{"proc", "sys", "dev", "run", "tmp", "data", "tasks", "tools"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]string{"init": program}
	maps.Copy(files, s.Programs)
	for file := range modulesOf(t, img, append(s.Modules, "xfs", "nvme", "crc32c_generic")...) {
		files["modules/"+filepath.Base(img.Modules)+"/"+file] = filepath.Join(img.Modules, file)
	}
	for to, from := range files {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		to = filepath.Join(dir, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "lab.erofs")
	if text, err := exec.Command("mkfs.erofs", "-x-1", "--all-root", file, dir).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.erofs (Debian's erofs-utils): %v\n%s", err, text)
	}
	return file
}

// GoBuild builds a static program for a guest.
func GoBuild(t testing.TB, pkg string) string {
	t.Helper()
	return goRun(t, []string{"CGO_ENABLED=0"}, "build", "-ldflags=-s -w", pkg)
}

// GoStatic builds a program that needs cgo, static all the same.
func GoStatic(t testing.TB, pkg string) string {
	t.Helper()
	return goRun(t, []string{"CGO_ENABLED=1"}, "build", "-tags=netgo,osusergo", "-ldflags=-s -w -linkmode=external -extldflags=-static", pkg)
}

// GoTest builds the tests of a package, static, with cgo where it needs it.
func GoTest(t testing.TB, pkg string, cgo bool) string {
	t.Helper()
	if cgo {
		return goRun(t, []string{"CGO_ENABLED=1"}, "test", "-c", "-tags=netgo,osusergo", "-ldflags=-s -w -extldflags=-static", pkg)
	}
	return goRun(t, []string{"CGO_ENABLED=0"}, "test", "-c", "-ldflags=-s -w", pkg)
}

func goRun(t testing.TB, env []string, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	pkg := args[len(args)-1]
	args = append(args[:len(args)-1:len(args)-1], "-o", file, pkg)
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = Root(), append(os.Environ(), env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, text)
	}
	return file
}

// modulesOf lists the files of kernel modules, of what they stand on, and their tables.
func modulesOf(t testing.TB, img build.Image, names ...string) map[string]bool {
	t.Helper()
	files := map[string]bool{"modules.dep": true, "modules.alias": true, "modules.softdep": true, "modules.builtin": true}
	dep, err := os.Open(filepath.Join(img.Modules, "modules.dep"))
	if err != nil {
		t.Fatal(err)
	}
	defer dep.Close()
	wanted := map[string]bool{}
	for _, n := range names {
		wanted[n] = true
	}
	lines := bufio.NewScanner(dep)
	for lines.Scan() {
		file, deps, _ := strings.Cut(lines.Text(), ":")
		if !wanted[modules.Name(file)] {
			continue
		}
		delete(wanted, modules.Name(file))
		files[file] = true
		for _, f := range strings.Fields(deps) {
			files[f] = true
		}
	}
	for n := range wanted {
		t.Fatalf("the image has no kernel module %s", n)
	}
	return files
}

package quota

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gurtos/sandbox/layers"
)

// The XFS part needs a folder on an XFS with prjquota, which the guest has at
// /data: CGO_ENABLED=0 go test -c ./sandbox/quota gives a static quota.test that
// runs there as quota.test -xfs /data.
var xfsFlag = flag.String("xfs", "", "an empty or other folder on an XFS mounted with prjquota")

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "clear-project" {
		os.Exit(clearProject(os.Args[2]))
	}
	os.Exit(m.Run())
}

// clearProject tries, as the owner, to leave a file's project. 0 is success.
func clearProject(path string) int {
	f, err := os.Open(path)
	if err != nil {
		fmt.Println(err)
		return 2
	}
	var a fileAttr
	if err := fileIoctl(f, getXattr, &a); err != nil {
		fmt.Println(err)
		return 2
	}
	a.project, a.flags = 0, a.flags&^projectInherit
	if err := fileIoctl(f, setXattr, &a); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func TestKernelStructSizes(t *testing.T) {
	if n := unsafe.Sizeof(diskQuota{}); n != 112 {
		t.Errorf("fs_disk_quota has %d bytes, want 112", n)
	}
	if n := unsafe.Sizeof(fileAttr{}); n != 28 {
		t.Errorf("fsxattr has %d bytes, want 28", n)
	}
}

func TestMeasuredCap(t *testing.T) {
	dir := t.TempDir()
	q, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if q.Enforced() {
		t.Skip("the temporary folder is on an XFS with project quotas")
	}
	if !strings.Contains(q.Weaker(), dir) {
		t.Errorf("Weaker: %q", q.Weaker())
	}
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	os.Mkdir(a, 0o755)
	os.Mkdir(b, 0o755)
	c, err := q.Limit(0, 1<<20, a, b)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if over, err := c.Watch(ctx); over || err != nil {
		t.Errorf("an empty folder is over its cap: %v %v", over, err)
	}
	os.WriteFile(a+"/x", make([]byte, 600<<10), 0o644)
	if over, err := c.Over(); over || err != nil {
		t.Errorf("600 KiB of 1 MiB: %v %v", over, err)
	}
	os.WriteFile(b+"/x", make([]byte, 600<<10), 0o644)
	os.Link(b+"/x", b+"/y")
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if over, err := c.Watch(ctx); !over || err != nil {
		t.Errorf("1,200 KiB of 1 MiB: %v %v", over, err)
	}
	if n, _, _ := c.Used(); n > 1300<<10 {
		t.Errorf("a file of two names counts twice: %d", n)
	}
	if err := c.Release(); err != nil {
		t.Error(err)
	}
}

// A task is a layer and a home with a cap, as the sandbox makes them.
type task struct {
	dir, work, home string
	cap             *Cap
}

// A look that fails does not end the watch.
func TestWatchGoesOn(t *testing.T) {
	dir := t.TempDir()
	q, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if q.Enforced() {
		t.Skip("this machine's temporary folder is on an XFS with quotas: nothing is measured")
	}
	late := dir + "/late"
	c, err := q.Limit(0, 1<<20, late)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	if over, err := c.Watch(ctx); over || err == nil || ctx.Err() == nil {
		t.Errorf("a folder that is not there: over %v, %v", over, err)
	}
	stop()
	ctx, stop = context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	looked := make(chan bool, 1)
	go func() {
		over, _ := c.Watch(ctx)
		looked <- over
	}()
	if err := os.Mkdir(dir+"/new", 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := fill(dir+"/new/a", 2<<20); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir+"/new", late); err != nil {
		t.Fatal(err)
	}
	if !<-looked {
		t.Error("the watch ended, or did not see what came later")
	}
}

func xfsQuota(t *testing.T) (*Quota, *layers.Mounter, string) {
	t.Helper()
	if *xfsFlag == "" {
		t.Skip("needs an XFS with prjquota, given by -xfs; the boot tests run this in the guest")
	}
	dir, err := os.MkdirTemp(*xfsFlag, "quota")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	q, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	if !q.Enforced() || q.Weaker() != "" {
		t.Fatalf("not enforced: %s", q.Weaker())
	}
	m, err := layers.NewMounter()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	os.Mkdir(dir+"/base", 0o755)
	os.WriteFile(dir+"/base/big", make([]byte, 8<<20), 0o644)
	os.Chown(dir+"/base", layers.Canonical, layers.Canonical)
	os.Chown(dir+"/base/big", layers.Canonical, layers.Canonical)
	return q, m, dir
}

func newTask(t *testing.T, q *Quota, dir, name string, slot int, bytes int64) *task {
	t.Helper()
	k := &task{dir: filepath.Join(dir, name)}
	os.Mkdir(k.dir, 0o700)
	k.work, k.home = k.dir+"/layer", k.dir+"/home"
	for _, l := range []string{k.work, k.home} {
		if err := layers.Create(l); err != nil {
			t.Fatal(err)
		}
	}
	if bytes > 0 {
		var err error
		if k.cap, err = q.Limit(slot, bytes, k.work, k.home); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// as runs f on a thread of the slot's user with the mounted view as its folder.
func (k *task) as(t *testing.T, m *layers.Mounter, slot int, v layers.View, f func() error) error {
	t.Helper()
	ns, err := m.Userns(slot)
	if err != nil {
		t.Fatal(err)
	}
	mt, err := m.Mount(v, ns)
	if err != nil {
		t.Fatal(err)
	}
	defer mt.Close()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
				return err
			}
			if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
				return err
			}
			if err := unix.MoveMount(int(mt.File.Fd()), "", unix.AT_FDCWD, "/mnt", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
				return err
			}
			if err := unix.Chdir("/mnt"); err != nil {
				return err
			}
			uid := uintptr(layers.UID(slot))
			for _, nr := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} {
				if _, _, e := unix.RawSyscall(nr, uid, uid, uid); e != 0 {
					return e
				}
			}
			return f()
		}()
	}()
	return <-done
}

func fill(name string, max int64) (int64, error) {
	f, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n, err := io.CopyN(f, endless{}, max)
	if err == nil {
		err = f.Sync()
	}
	return n, err
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

func full(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

func TestXFSHoldsTheCap(t *testing.T) {
	q, m, dir := xfsQuota(t)
	const mark = 16 << 20
	k := newTask(t, q, dir, "t1", 11, mark)
	work := layers.View{Base: dir + "/base", Layer: k.work}
	home := layers.View{Layer: k.home}
	if over, err := k.cap.Over(); over || err != nil {
		t.Fatalf("over before anything was written: %v", err)
	}
	// Half of it into the home: the cap is of both together.
	if err := k.as(t, m, 11, home, func() error { _, err := fill("h", mark/2); return err }); err != nil {
		t.Fatal(err)
	}
	var n int64
	var shown unix.Statfs_t
	var copyUp error
	err := k.as(t, m, 11, work, func() error {
		if err := unix.Statfs(".", &shown); err != nil {
			return err
		}
		var err error
		n, err = fill("w", 4*(mark+Margin))
		copyUp = os.Chmod("big", 0o600)
		return err
	})
	if !full(err) {
		t.Errorf("writing past the cap: %v", err)
	}
	if got := n + mark/2; got > mark+Margin || got < mark+Margin-(2<<20) {
		t.Errorf("wrote %d bytes, the hard limit is %d", got, mark+Margin)
	}
	if size := shown.Blocks * uint64(shown.Bsize); size > mark+Margin || size < mark {
		t.Errorf("df inside shows %d bytes, the cap is %d", size, mark)
	}
	if over, err := k.cap.Watch(t.Context()); !over || err != nil {
		t.Errorf("not over: %v", err)
	}
	// A copy-up of what is below counts too, and leaves nothing half done.
	if !full(copyUp) {
		t.Errorf("copying up past the cap: %v", copyUp)
	}
	if _, err := os.Lstat(k.work + "/upper/big"); !os.IsNotExist(err) {
		t.Errorf("a copy-up that failed left a file: %v", err)
	}
	// A layer that is full to the brim is refused, and not mounted read-only.
	if mt, err := m.Mount(work, nil); !full(err) {
		t.Errorf("mounting a full layer: %v", err)
		mt.Close()
	}
	// Its end: the limits go, so that sealing can write.
	if err := k.cap.Release(); err != nil {
		t.Fatal(err)
	}
	if err := layers.Seal(t.Context(), work); err != nil {
		t.Errorf("sealing: %v", err)
	}
	// Without a cap there is none.
	free := newTask(t, q, dir, "t2", 12, 0)
	if err := free.as(t, m, 12, layers.View{Base: dir + "/base", Layer: free.work}, func() error {
		_, err := fill("w", mark+Margin+(4<<20))
		return err
	}); err != nil {
		t.Errorf("the control, without a cap: %v", err)
	}
}

func TestXFSHoldsTheNumberOfFiles(t *testing.T) {
	q, m, dir := xfsQuota(t)
	k := newTask(t, q, dir, "t1", 21, 1<<20)
	made := 0
	err := k.as(t, m, 21, layers.View{Base: dir + "/base", Layer: k.work}, func() error {
		for made < 20_000 {
			f, err := os.Create(fmt.Sprint("f", made))
			if err != nil {
				return err
			}
			f.Close()
			made++
		}
		return nil
	})
	if !full(err) || made < 9_000 || made > 10_300 {
		t.Errorf("%d files were made, then %v; the limit is 10,000 and a little", made, err)
	}
	if over, err := k.cap.Over(); !over || err != nil {
		t.Errorf("not over: %v", err)
	}
}

func TestXFSSlotStartsEmpty(t *testing.T) {
	q, m, dir := xfsQuota(t)
	k := newTask(t, q, dir, "t1", 31, 16<<20)
	v := layers.View{Base: dir + "/base", Layer: k.work}
	err := k.as(t, m, 31, v, func() error {
		if err := os.Symlink("nowhere", "link"); err != nil {
			return err
		}
		_, err := fill("w", 4<<20)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// The same task after a restart of boxd.
	q2, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer q2.Close()
	again, err := q2.Limit(77, 16<<20, k.work, k.home)
	if err != nil || again.project != k.cap.project {
		t.Fatalf("after a restart: project %d, %v; was %d", again.project, err, k.cap.project)
	}
	if n, _, _ := again.Used(); n < 4<<20 {
		t.Errorf("after a restart %d bytes are counted", n)
	}
	if err := again.Release(); err != nil {
		t.Fatal(err)
	}
	if err := k.cap.Release(); err != nil {
		t.Fatal(err)
	}
	if err := layers.Seal(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	// The next task of the slot, while the sealed layer is on disk.
	next := newTask(t, q, dir, "t2", 31, 16<<20)
	if next.cap.project == k.cap.project {
		t.Error("the next task has the project of a layer that is on disk")
	}
	if n, _, err := next.cap.Used(); n > 64<<10 || err != nil {
		t.Errorf("the next task starts with %d bytes, %v", n, err)
	}
	if err := next.cap.Release(); err != nil {
		t.Fatal(err)
	}
	// And one after the layer is gone: the project is free again.
	for _, l := range []string{k.work, k.home} {
		if err := layers.Drop(l); err != nil {
			t.Fatal(err)
		}
	}
	// XFS frees unlinked inodes in the background; a sync waits for it.
	deadline := time.Now().Add(2 * time.Minute)
	for {
		unix.Sync()
		u, err := usage(q.root, k.cap.project)
		if err != nil {
			t.Fatal(err)
		}
		if u.inodes == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d files still count in the project of a deleted layer", u.inodes)
		}
		runtime.Gosched()
	}
	third := newTask(t, q, dir, "t3", 31, 16<<20)
	if third.cap.project != k.cap.project {
		t.Errorf("project %d, want %d again", third.cap.project, k.cap.project)
	}
}

func TestXFSTaskCannotLeaveItsProject(t *testing.T) {
	q, _, dir := xfsQuota(t)
	k := newTask(t, q, dir, "t1", 41, 16<<20)
	upper := k.work + "/upper"
	file := upper + "/f"
	os.WriteFile(file, nil, 0o644)
	uid := layers.UID(41)
	for _, p := range []string{k.dir, k.work} {
		os.Chmod(p, 0o755)
	}
	os.Chmod(dir, 0o755)
	for _, p := range []string{upper, file} {
		os.Chown(p, uid, uid)
	}
	// The program, where the task's user can run it.
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	exe := dir + "/exe"
	if err := os.WriteFile(exe, self, 0o755); err != nil {
		t.Fatal(err)
	}
	try := func(userns bool) (string, error) {
		c := exec.Command(exe, "clear-project", file)
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
		if userns {
			ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: layers.RootUID, Size: 1}, {ContainerID: layers.InsideUID, HostID: uid, Size: 1}}
			c.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids,
				Credential: &syscall.Credential{Uid: layers.InsideUID, Gid: layers.InsideUID, NoSetGroups: true},
			}
		}
		out, err := c.CombinedOutput()
		return string(out), err
	}
	if out, err := try(true); err == nil {
		t.Error("a task in its user namespace left its project")
	} else {
		t.Log("inside: ", strings.TrimSpace(out))
	}
	if id, err := projectOfFile(file); err != nil || id != k.cap.project {
		t.Errorf("the file's project is %d, %v; want %d", id, err, k.cap.project)
	}
	// The control: outside a user namespace the owner can.
	if out, err := try(false); err != nil {
		t.Errorf("the control: %v %s", err, out)
	}
}

func projectOfFile(path string) (uint32, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var a fileAttr
	err = fileIoctl(f, getXattr, &a)
	return a.project, err
}

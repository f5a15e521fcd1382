package layers

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// onThread runs f on a thread of its own as the slot's user, with the mount as
// root of relative paths. The thread dies with it.
func onThread(t testing.TB, mt *Mount, slot int, f func()) {
	t.Helper()
	var err error
	done := make(chan struct{})
	tid := 0
	go func() {
		defer close(done)
		runtime.LockOSThread()
		tid = unix.Gettid()
		if err = unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return
		}
		if err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return
		}
		if err = unix.MoveMount(int(mt.File.Fd()), "", unix.AT_FDCWD, "/mnt", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return
		}
		if err = unix.Chdir("/mnt"); err != nil {
			return
		}
		if slot >= 0 {
			uid := uintptr(UID(slot))
			// Raw calls: the package's own would change all threads of the process.
			for _, nr := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} {
				if _, _, e := unix.RawSyscall(nr, uid, uid, uid); e != 0 {
					err = e
					return
				}
			}
		}
		unix.Umask(0)
		f()
	}()
	<-done
	threadEnds(tid)
	if err != nil {
		t.Fatal("entering the view: ", err)
	}
}

// threadEnds waits until a thread is gone, and with it its namespace and what is
// mounted there. The kernel tells nobody of it.
func threadEnds(tid int) {
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		if err := unix.Access(fmt.Sprintf("/proc/self/task/%d", tid), 0); err != nil {
			return
		}
		runtime.Gosched()
	}
}

// kernelView reads the mounted view.
func kernelView(t testing.TB, m *Mounter, v View) map[string]*thing {
	t.Helper()
	mt, err := m.Mount(v, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer mt.Close()
	got := map[string]*thing{}
	onThread(t, mt, -1, func() {
		err = filepath.WalkDir(".", func(p string, d os.DirEntry, err error) error {
			if err != nil || p == "." {
				return err
			}
			x, err := readThing(p)
			got[p] = x
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func readThing(p string) (*thing, error) {
	var st unix.Stat_t
	if err := unix.Lstat(p, &st); err != nil {
		return nil, err
	}
	x := &thing{kind: kindWord(&st), mode: st.Mode & 0o7777}
	switch x.kind {
	case "file":
		b, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		x.sum, x.mtime = sum(b), st.Mtim.Nano()
	case "symlink":
		x.target, _ = os.Readlink(p)
		x.mtime = st.Mtim.Nano()
	}
	b := make([]byte, 100)
	if n, err := unix.Lgetxattr(p, "user.note", b); err == nil {
		x.attr = string(b[:n])
	}
	if st.Uid != Canonical {
		return x, fmt.Errorf("%q belongs to %d", p, st.Uid)
	}
	return x, nil
}

// treeView reads the view as boxd does.
func treeView(t testing.TB, v View) map[string]*thing {
	t.Helper()
	tree, err := OpenTree(v)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	got := map[string]*thing{}
	err = tree.Walk("", func(p string, e Entry) error {
		x := &thing{kind: e.Kind, target: e.Target, mode: uint32(e.Mode.Perm())}
		if e.Kind != "folder" {
			x.mtime = e.Time.UnixNano()
		}
		if e.Kind == "symlink" {
			x.mode = 0o777
		}
		if e.Kind == "file" {
			f, err := tree.Open(p)
			if err != nil {
				return err
			}
			defer f.Close()
			b, err := io.ReadAll(f)
			if err != nil {
				return err
			}
			x.sum = sum(b)
		}
		got[p] = x
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// withoutAttrs is what a Tree shows of a model's view.
func withoutAttrs(v map[string]*thing) map[string]*thing {
	out := map[string]*thing{}
	for p, x := range v {
		y := *x
		y.attr = ""
		y.mode &= 0o777
		out[p] = &y
	}
	return out
}

package layers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// needRoot: layers are made, owned and mounted by root alone.
func needRoot(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("needs root: layers are mounted with overlayfs")
	}
}

func newMounter(t testing.TB) *Mounter {
	t.Helper()
	needRoot(t)
	m, err := NewMounter()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func newLayer(t testing.TB, dir string) string {
	t.Helper()
	if err := Create(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// inside runs a shell as the slot's user with the mount as its working folder.
func inside(t testing.TB, mt *Mount, slot int, script string) (string, error) {
	t.Helper()
	var out []byte
	var err error
	done := make(chan struct{})
	tid := 0
	go func() {
		defer close(done)
		runtime.LockOSThread() // its namespace and working folder are spoilt: let it die
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
		c := exec.Command("/bin/bash", "-ec", script)
		c.Dir = "/mnt"
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(UID(slot)), Gid: uint32(UID(slot))}}
		out, err = c.CombinedOutput()
	}()
	<-done
	threadEnds(tid)
	return string(out), err
}

func TestMountedViewBelongsToItsSlot(t *testing.T) {
	m := newMounter(t)
	dir := t.TempDir()
	base := filepath.Join(dir, "base")
	os.MkdirAll(base+"/d1/sub", 0o755)
	os.WriteFile(base+"/d1/sub/f", []byte("base\n"), 0o644)
	if out, err := exec.Command("chown", "-R", fmt.Sprint(Canonical, ":", Canonical), base).CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	l := newLayer(t, filepath.Join(dir, "layer"))
	ns, err := m.Userns(7)
	if err != nil {
		t.Fatal(err)
	}
	mt, err := m.Mount(View{Base: base, Layer: l}, ns)
	if err != nil {
		t.Fatal(err)
	}
	defer mt.Close()
	out, err := inside(t, mt, 7, `stat -c %u . d1/sub/f; echo more >> d1/sub/f; mv d1 d2; echo new > d2/n; cat d2/sub/f; grep ' /mnt ' /proc/self/mountinfo`)
	if err != nil {
		t.Fatal(err, out)
	}
	uid := fmt.Sprint(UID(7))
	if !strings.HasPrefix(out, uid+"\n"+uid+"\nbase\nmore\n") {
		t.Errorf("inside: %s", out)
	}
	if strings.Contains(out, dir) {
		t.Errorf("mountinfo shows a path of the host: %s", out)
	}
	for _, want := range []string{"nosuid", "nodev", "redirect_dir=on"} {
		if !strings.Contains(out, want) {
			t.Errorf("mountinfo lacks %s: %s", want, out)
		}
	}
	if strings.Contains(out, "userxattr") || strings.Contains(out, "metacopy=on") {
		t.Errorf("mountinfo: %s", out)
	}
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(l, "upper/d2/n"), &st); err != nil || st.Uid != Canonical {
		t.Errorf("on disk: uid %d, %v; want %d", st.Uid, err, Canonical)
	}
	if _, err := m.Mount(View{Base: base, Layer: l}, ns); err == nil {
		t.Error("a layer could be mounted twice")
	}
}

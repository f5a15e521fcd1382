package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/sandbox/layers"
)

// A room is a mount namespace of this process's own in which sandboxes are
// born. It holds what they share: the tasks root, with root's files shown as
// RootUID's, /dev, and the tools. Since no process lives in it, the kernel takes
// it all down when boxd ends, however that ends. Mounts that the machine makes
// or undoes reach it, so it pins none.
type room struct {
	ns *os.File
}

// at is where the room's own tmpfs lies: a folder that every Linux has, that
// everyone may search (a sandbox's root looks it up without privilege over the
// machine's folders), and that starting a sandbox has no other use for.
const at = "/sys/module"

const (
	rootDir = at + "/root"
	devDir  = at + "/dev"
)

const toolsDir = "/usr/lib/gurtos" // where box-init and worker are inside

// tools are the programs that are put there.
var tools = []string{"box-init", "worker"}

// newRoom builds the room. root is the tasks root: a folder, an image of EROFS
// or a device with one; toolsFrom is the folder that has the tools.
func newRoom(root, toolsFrom string) (*room, error) {
	r := &room{}
	users, err := layers.NewUserns(layers.IDMap{Disk: 0, Host: layers.RootUID})
	if err != nil {
		return nil, err
	}
	defer users.Close()
	err = onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
			return os.NewSyscallError("unshare", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("keeping mounts to ourselves: %w", err)
		}
		if err := furnishRoom(root, toolsFrom, users); err != nil {
			return err
		}
		r.ns, err = os.Open(fmt.Sprintf("/proc/self/task/%d/ns/mnt", unix.Gettid()))
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (r *room) Close() error { return r.ns.Close() }

func furnishRoom(root, toolsFrom string, users *os.File) error {
	own, err := newMount("tmpfs", quiet, [2]string{"mode", "0755"})
	if err != nil {
		return err
	}
	defer own.Close()
	if err := attach(own, at); err != nil {
		return err
	}
	for _, d := range []string{"root", "dev", "base", "empty"} {
		if err := os.Mkdir(filepath.Join(at, d), 0o755); err != nil {
			return err
		}
	}
	if err := os.Chdir(at); err != nil { // the overlay below shows its folders as they are named
		return err
	}
	tasks, err := mountRoot(root, users)
	if err != nil {
		return fmt.Errorf("the root file system of tasks, %s: %w", root, err)
	}
	defer tasks.Close()
	if err := checkRoot(tasks); err != nil {
		return fmt.Errorf("the root file system of tasks, %s: %w", root, err)
	}
	if err := attach(tasks, rootDir); err != nil {
		return err
	}
	if err := makeDev(); err != nil {
		return fmt.Errorf("making /dev: %w", err)
	}
	if err := copyTools(toolsFrom); err != nil {
		return err
	}
	return unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "")
}

// mountRoot makes a detached read-only mount of the tasks root. A folder goes
// under an overlay, or mountinfo would tell its path to every task.
func mountRoot(root string, users *os.File) (*os.File, error) {
	st, err := os.Stat(root)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return mountImage(root, st.Mode().IsRegular(), users)
	}
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, err
	}
	base, err := cloneMount(real, 0)
	if err != nil {
		return nil, err
	}
	defer base.Close()
	if err := setAttr(base, quiet|unix.MOUNT_ATTR_RDONLY, users); err != nil {
		return nil, err
	}
	if err := attach(base, "base"); err != nil {
		return nil, err
	}
	defer unix.Unmount("base", unix.MNT_DETACH) // the overlay keeps a mount of its own
	return newMount("overlay", quiet|unix.MOUNT_ATTR_RDONLY, [2]string{"lowerdir+", "base"}, [2]string{"lowerdir+", "empty"},
		[2]string{"redirect_dir", "nofollow"}, [2]string{"metacopy", "off"}, [2]string{"index", "off"}, [2]string{"xino", "off"})
}

// mountImage mounts an EROFS image; a file goes through a loop device that
// frees itself with the mount.
func mountImage(image string, file bool, users *os.File) (*os.File, error) {
	source := image
	if file {
		loop, err := attachLoop(image)
		if err != nil {
			return nil, err
		}
		defer loop.Close()
		source = loop.Name()
	}
	m, err := newMount("erofs", quiet|unix.MOUNT_ATTR_RDONLY, [2]string{"source", source}, [2]string{"ro", ""})
	if err != nil {
		return nil, err
	}
	if err := setAttr(m, 0, users); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

func attachLoop(image string) (*os.File, error) {
	backing, err := os.Open(image)
	if err != nil {
		return nil, err
	}
	defer backing.Close()
	ctl, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer ctl.Close()
	for {
		n, err := unix.IoctlRetInt(int(ctl.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("finding a loop device: %w", err)
		}
		loop, err := os.OpenFile("/dev/loop"+strconv.Itoa(n), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		c := unix.LoopConfig{Fd: uint32(backing.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_READ_ONLY | unix.LO_FLAGS_AUTOCLEAR}}
		copy(c.Info.File_name[:], "tasks")
		err = unix.IoctlLoopConfigure(int(loop.Fd()), &c)
		if err == nil {
			return loop, nil
		}
		loop.Close()
		if !errors.Is(err, unix.EBUSY) { // someone else took it between the two calls
			return nil, fmt.Errorf("setting up a loop device: %w", err)
		}
	}
}

// rootFolders and rootFiles must be there for mounts, and be no symlinks: the
// targets of mounts are looked up by root (CVE-2021-30465, CVE-2023-27561,
// CVE-2026-41579).
var (
	rootFolders = []string{"work", "home/box", "run/box", "tmp", "proc", "dev", "usr/lib/gurtos", "etc", "opt"}
	rootFiles   = []string{"etc/passwd", "etc/group"}
)

func checkRoot(root *os.File) error {
	check := func(path string, kind uint32, what string) error {
		fd, err := unix.Openat2(int(root.Fd()), path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS})
		if err != nil {
			return fmt.Errorf("/%s is missing or a symlink: %w", path, err)
		}
		defer unix.Close(fd)
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != kind {
			return fmt.Errorf("/%s is not a %s", path, what)
		}
		return nil
	}
	for _, d := range rootFolders {
		if err := check(d, unix.S_IFDIR, "folder"); err != nil {
			return err
		}
	}
	for _, f := range rootFiles {
		if err := check(f, unix.S_IFREG, "file"); err != nil {
			return err
		}
	}
	return nil
}

// devices are the usual six.
var devices = []struct {
	name         string
	major, minor uint32
}{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}}

// makeDev builds the /dev that all sandboxes share, read-only but for what is
// mounted in it later: pts and shm.
func makeDev() error {
	id := strconv.Itoa(layers.RootUID)
	dev, err := newMount("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, [2]string{"mode", "0755"}, [2]string{"uid", id}, [2]string{"gid", id}, [2]string{"size", "64k"})
	if err != nil {
		return err
	}
	defer dev.Close()
	if err := attach(dev, devDir); err != nil {
		return err
	}
	for _, d := range devices {
		p := filepath.Join(devDir, d.name)
		if err := unix.Mknod(p, unix.S_IFCHR|0o666, int(unix.Mkdev(d.major, d.minor))); err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		if err := os.Chmod(p, 0o666); err != nil { // whatever the umask
			return err
		}
		if err := os.Chown(p, layers.RootUID, layers.RootUID); err != nil {
			return err
		}
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"} {
		p := filepath.Join(devDir, name)
		if err := os.Symlink(to, p); err != nil {
			return err
		}
		if err := os.Lchown(p, layers.RootUID, layers.RootUID); err != nil {
			return err
		}
	}
	for _, name := range []string{"pts", "shm"} {
		p := filepath.Join(devDir, name)
		if err := os.Mkdir(p, 0o755); err != nil {
			return err
		}
		if err := os.Chown(p, layers.RootUID, layers.RootUID); err != nil {
			return err
		}
	}
	return setAttr(dev, unix.MOUNT_ATTR_RDONLY, nil)
}

// copyTools puts the tools on a small tmpfs of their own, so that a new build or
// a full disk changes nothing for running tasks.
func copyTools(from string) error {
	id := strconv.Itoa(layers.RootUID)
	m, err := newMount("tmpfs", quiet, [2]string{"mode", "0755"}, [2]string{"uid", id}, [2]string{"gid", id})
	if err != nil {
		return err
	}
	defer m.Close()
	to := rootDir + toolsDir
	if err := attach(m, to); err != nil {
		return err
	}
	for _, name := range tools {
		if err := copyTool(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return fmt.Errorf("%s, which runs in every sandbox, is missing or unreadable: %w", name, err)
		}
	}
	return finish(m)
}

// finish makes a mount read-only that was written to. A child that this process is just
// making has the files that were written until exec, and the mount is busy until then.
func finish(m *os.File) error {
	tick, late := time.NewTicker(10*time.Millisecond), time.NewTimer(lockPatience)
	defer tick.Stop()
	defer late.Stop()
	for {
		err := setAttr(m, unix.MOUNT_ATTR_RDONLY, nil)
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		select {
		case <-tick.C:
		case <-late.C:
			return err
		}
	}
}

func copyTool(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o555)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	if err := out.Chmod(0o555); err != nil {
		return err
	}
	return out.Chown(layers.RootUID, layers.RootUID)
}

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"gurtos/sandbox/layers"
)

// Parts of /proc that speak of the machine. A masked file shows as /dev/null, a
// masked folder as an empty one; nothing can be written in the read-only ones.
var (
	masked   = []string{"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/key-users", "/proc/kmsg", "/proc/kpagecount", "/proc/kpageflags", "/proc/kpagecgroup", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/proc/vmallocinfo", "/proc/slabinfo", "/proc/config.gz", "/proc/kallsyms", "/proc/modules", "/proc/pressure", "/proc/iomem", "/proc/ioports"}
	readonly = []string{"/proc/bus", "/proc/driver", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", "/proc/tty"}
)

const brokerDir = "/run/box" // where the broker's socket is inside

// terminals is how many pseudo-terminals a sandbox may have: all of a machine's
// are counted together (kernel.pty.max), and one task could leave others none.
const terminals = "256"

// furniture are the file systems of every sandbox, before they have their place in it.
type furniture struct{ run, pts *os.File }

func (f furniture) Close() {
	for _, m := range []*os.File{f.run, f.pts} {
		if m != nil {
			m.Close()
		}
	}
}

func (b *birth) makeFurniture() error {
	run, err := newMount("tmpfs", quiet|unix.MOUNT_ATTR_NOEXEC, rootOwned("0755", "64k")...)
	if err != nil {
		return err
	}
	b.furniture.run = run
	if b.broker, err = listen(run, b.slot); err != nil {
		return fmt.Errorf("making the broker's socket: %w", err)
	}
	if err := setAttr(run, unix.MOUNT_ATTR_RDONLY, nil); err != nil {
		return err
	}
	b.furniture.pts, err = newMount("devpts", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, [2]string{"ptmxmode", "0666"}, [2]string{"mode", "0620"}, [2]string{"max", terminals})
	return err
}

// furnish does the mounts that need no task, on a thread in the sandbox's mount namespace.
func (b *birth) furnish() error {
	defer func() {
		b.furniture.Close()
		b.furniture = furniture{}
	}()
	var st unix.Statfs_t
	if err := unix.Statfs("/proc", &st); err != nil || st.Type != unix.PROC_SUPER_MAGIC {
		return fmt.Errorf("/proc inside is no proc file system (%w)", err)
	}
	for _, p := range masked {
		if err := mask(p); err != nil {
			return fmt.Errorf("masking %s: %w", p, err)
		}
	}
	for _, p := range readonly {
		if err := freeze(p); err != nil {
			return fmt.Errorf("making %s read-only: %w", p, err)
		}
	}
	if err := attach(b.furniture.pts, "/dev/pts"); err != nil {
		return err
	}
	return attach(b.furniture.run, brokerDir)
}

// rootOwned are the options of a tmpfs whose folder is root's inside.
func rootOwned(mode, size string) [][2]string {
	id := strconv.Itoa(layers.RootUID)
	return [][2]string{{"mode", mode}, {"size", size}, {"uid", id}, {"gid", id}}
}

func mask(path string) error {
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var m *os.File
	if st.IsDir() {
		m, err = newMount("tmpfs", quiet|unix.MOUNT_ATTR_NOEXEC|unix.MOUNT_ATTR_RDONLY, rootOwned("0555", "0")...)
	} else {
		m, err = cloneMount("/dev/null", 0)
	}
	if err != nil {
		return err
	}
	defer m.Close()
	return attach(m, path)
}

func freeze(path string) error {
	m, err := cloneMount(path, unix.AT_RECURSIVE)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer m.Close()
	if err := setAttr(m, quiet|unix.MOUNT_ATTR_NOEXEC|unix.MOUNT_ATTR_RDONLY, nil); err != nil {
		return err
	}
	return attach(m, path)
}

// belongings are the file systems of one task besides its layers.
type belongings struct{ names, tmp, shm *os.File }

func (l belongings) Close() {
	for _, m := range []*os.File{l.names, l.tmp, l.shm} {
		if m != nil {
			m.Close()
		}
	}
}

// pack makes them.
func (l *belongings) pack(s Spec) (err error) {
	if l.names, err = newMount("tmpfs", quiet|unix.MOUNT_ATTR_NOEXEC, rootOwned("0755", "64k")...); err != nil {
		return err
	}
	if err := writeNames(l.names, s.User); err != nil {
		return fmt.Errorf("writing the user's name: %w", err)
	}
	open := append(rootOwned("1777", strconv.FormatInt(s.Limits.TmpBytes, 10)), [2]string{"nr_inodes", strconv.FormatInt(max(1024, s.Limits.TmpBytes/4096), 10)})
	if l.tmp, err = newMount("tmpfs", quiet, open...); err != nil {
		return err
	}
	shm, err := newMount("tmpfs", quiet|unix.MOUNT_ATTR_NOEXEC, open...)
	l.shm = shm
	return err
}

// moveIn does the mounts that belong to a task, on a thread in the sandbox's mount namespace.
func (s *Sandbox) moveIn() error {
	own := s.belongings
	// Files can be bound from a mount that has a place only (before 6.15).
	if err := attach(own.names, "/tmp"); err != nil {
		return err
	}
	for _, f := range []string{"passwd", "group"} {
		m, err := cloneMount("/tmp/"+f, 0)
		if err != nil {
			return err
		}
		defer m.Close()
		if err := setAttr(m, unix.MOUNT_ATTR_RDONLY, nil); err != nil {
			return err
		}
		if err := attach(m, "/etc/"+f); err != nil {
			return err
		}
	}
	if err := unix.Unmount("/tmp", unix.MNT_DETACH); err != nil {
		return err
	}
	for _, m := range []struct {
		mount *os.File
		at    string
	}{{own.tmp, "/tmp"}, {own.shm, "/dev/shm"}, {s.work.File, workDir}, {s.home.File, homeDir}} {
		if err := attach(m.mount, m.at); err != nil {
			return err
		}
	}
	if err := moveInTrees(s.spec.Trees, s.trees); err != nil {
		return err
	}
	if err := trust(s.spec.Trust); err != nil {
		return fmt.Errorf("showing whom programs inside trust: %w", err)
	}
	return nil
}

// moveInTrees puts each tree at its name in a folder that holds nothing else.
func moveInTrees(named []Tree, trees []*layers.Mount) error {
	if len(trees) == 0 {
		return nil
	}
	opt, err := newMount("tmpfs", quiet|unix.MOUNT_ATTR_NOEXEC, rootOwned("0755", "64k")...)
	if err != nil {
		return err
	}
	defer opt.Close()
	if err := attach(opt, treesDir); err != nil {
		return err
	}
	for i, t := range named {
		at := treesDir + "/" + t.Name
		if err := os.Mkdir(at, 0o755); err != nil {
			return err
		}
		if err := attach(trees[i].File, at); err != nil {
			return err
		}
	}
	return setAttr(opt, unix.MOUNT_ATTR_RDONLY, nil)
}

// Where the layers are inside.
const (
	workDir = "/work"
	homeDir = "/home/box"

	treesDir = "/opt"
)

// writeNames writes passwd and group so that the user has its name.
func writeNames(dir *os.File, user string) error {
	id := layers.InsideUID
	for name, text := range map[string]string{
		"passwd": fmt.Sprintf("root:x:0:0:root:/root:/usr/sbin/nologin\n%s:x:%d:%d::%s:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n", user, id, id, homeDir),
		"group":  fmt.Sprintf("root:x:0:\n%s:x:%d:\nnogroup:x:65534:\n", user, id),
	} {
		p := "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + name
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			return err
		}
		if err := os.Chmod(p, 0o644); err != nil { // whatever the umask
			return err
		}
		if err := os.Chown(p, layers.RootUID, layers.RootUID); err != nil {
			return err
		}
	}
	runtime.KeepAlive(dir)
	return nil
}

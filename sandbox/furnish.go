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

// furnish does the mounts that need no task: it runs when the sandbox is born.
func (b *birth) furnish() error {
	run, err := newMount("tmpfs", quiet|unix.MOUNT_ATTR_NOEXEC, rootOwned("0755", "64k")...)
	if err != nil {
		return err
	}
	defer run.Close()
	if b.broker, err = listen(run, b.slot); err != nil {
		return fmt.Errorf("making the broker's socket: %w", err)
	}
	if err := setAttr(run, unix.MOUNT_ATTR_RDONLY, nil); err != nil {
		return err
	}
	return inMounts(b.mounts, func() error {
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
		pts, err := newMount("devpts", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, [2]string{"ptmxmode", "0666"}, [2]string{"mode", "0620"}, [2]string{"max", terminals})
		if err != nil {
			return err
		}
		defer pts.Close()
		if err := attach(pts, "/dev/pts"); err != nil {
			return err
		}
		return attach(run, brokerDir)
	})
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

// moveIn does the mounts that belong to a task.
func (b *birth) moveIn(s Spec, work, home *os.File, trees []*layers.Mount) error {
	names, err := newMount("tmpfs", quiet|unix.MOUNT_ATTR_NOEXEC, rootOwned("0755", "64k")...)
	if err != nil {
		return err
	}
	defer names.Close()
	if err := writeNames(names, s.User); err != nil {
		return fmt.Errorf("writing the user's name: %w", err)
	}
	open := append(rootOwned("1777", strconv.FormatInt(s.Limits.TmpBytes, 10)), [2]string{"nr_inodes", strconv.FormatInt(max(1024, s.Limits.TmpBytes/4096), 10)})
	tmp, err := newMount("tmpfs", quiet, open...)
	if err != nil {
		return err
	}
	defer tmp.Close()
	shm, err := newMount("tmpfs", quiet|unix.MOUNT_ATTR_NOEXEC, open...)
	if err != nil {
		return err
	}
	defer shm.Close()
	return inMounts(b.mounts, func() error {
		// Files can be bound from a mount that has a place only (before 6.15).
		if err := attach(names, "/tmp"); err != nil {
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
		}{{tmp, "/tmp"}, {shm, "/dev/shm"}, {work, workDir}, {home, homeDir}} {
			if err := attach(m.mount, m.at); err != nil {
				return err
			}
		}
		return moveInTrees(s.Trees, trees)
	})
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

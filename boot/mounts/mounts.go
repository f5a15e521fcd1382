package mounts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A Mount is one line of a table.
type Mount struct {
	Source, Target, Type string
	Flags                uintptr
	Data                 string
	Optional             bool // a kernel without it is no fault
}

const guarded = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

// Kernel is what stage 1 makes and hands over to stage 2.
var Kernel = []Mount{
	{Source: "proc", Target: "/proc", Type: "proc", Flags: guarded},
	{Source: "sysfs", Target: "/sys", Type: "sysfs", Flags: guarded},
	{Source: "devtmpfs", Target: "/dev", Type: "devtmpfs", Flags: unix.MS_NOSUID, Data: "mode=0755"},
	{Source: "tmpfs", Target: "/run", Type: "tmpfs", Flags: unix.MS_NOSUID | unix.MS_NODEV, Data: "mode=0755,size=20%"},
}

// System is what stage 2 adds. favordynmods makes moving a process into a
// group cost 0.2 ms and not 9; nsdelegate keeps a group of a cgroup namespace
// inside it; memory_recursiveprot has what protects a group protect those in it.
var System = []Mount{
	{Source: "devpts", Target: "/dev/pts", Type: "devpts", Flags: unix.MS_NOSUID | unix.MS_NOEXEC, Data: "mode=0620,ptmxmode=0666,gid=5"},
	{Source: "tmpfs", Target: "/dev/shm", Type: "tmpfs", Flags: unix.MS_NOSUID | unix.MS_NODEV, Data: "mode=1777"},
	{Source: "tmpfs", Target: "/tmp", Type: "tmpfs", Flags: unix.MS_NOSUID | unix.MS_NODEV, Data: "mode=1777,size=20%"},
	{Source: "tmpfs", Target: "/var", Type: "tmpfs", Flags: unix.MS_NOSUID | unix.MS_NODEV, Data: "mode=0755,size=10%"},
	{Source: "cgroup2", Target: "/sys/fs/cgroup", Type: "cgroup2", Flags: guarded, Data: "nsdelegate,favordynmods,memory_recursiveprot"},
	{Source: "efivarfs", Target: "/sys/firmware/efi/efivars", Type: "efivarfs", Flags: guarded | unix.MS_RDONLY, Optional: true},
}

// All makes every mount of a table below root ("/" or, in tests, another
// folder) and reports all that failed.
func All(root string, table []Mount) error {
	var errs []error
	for _, m := range table {
		if err := m.make(root); err != nil && !m.Optional {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (m Mount) make(root string) error {
	target := filepath.Join(root, m.Target)
	if mounted, err := Mounted(target); err == nil && mounted {
		return nil
	}
	if err := os.MkdirAll(target, 0o755); err != nil && !m.Optional {
		return fmt.Errorf("mount %s: %w", m.Target, err)
	}
	if err := unix.Mount(m.Source, target, m.Type, m.Flags, m.Data); err != nil {
		return fmt.Errorf("mount %s on %s: %w", m.Type, m.Target, err)
	}
	return nil
}

// Mounted says whether something is mounted on a folder: its device then
// differs from its parent's, or it is the root.
func Mounted(dir string) (bool, error) {
	var here, parent unix.Stat_t
	if err := unix.Lstat(dir, &here); err != nil {
		return false, err
	}
	if err := unix.Lstat(filepath.Dir(dir), &parent); err != nil {
		return false, err
	}
	return here.Dev != parent.Dev, nil
}

// Folders are made on the temporary file systems that System mounts.
var Folders = []struct {
	Path string
	Mode os.FileMode
}{
	{"/run/gurtos", 0o755},
	{"/run/lock", 0o755},
	{"/var/tmp", os.ModeSticky | 0o777},
	{"/var/lib", 0o755},
	{"/var/log", 0o755},
	{"/var/cache", 0o755},
}

// MakeFolders makes Folders and the link by which older programs find /run.
func MakeFolders(root string) error {
	for _, f := range Folders {
		path := filepath.Join(root, f.Path)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(path, f.Mode); err != nil {
			return err
		}
	}
	if err := os.Symlink("../run", filepath.Join(root, "/var/run")); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// Sysctls are the kernel's settings, as paths below /proc/sys.
var Sysctls = []struct{ Path, Value, Why string }{
	{"kernel/core_pattern", "|/bin/false", "a crash writes no task's memory anywhere, and runs no program that a path in a task could name"},
	{"kernel/kptr_restrict", "2", "kernel addresses are shown to nobody"},
	{"kernel/dmesg_restrict", "1", "nor is the kernel's log"},
	{"kernel/perf_event_paranoid", "3", "nor its counters"},
	{"kernel/unprivileged_bpf_disabled", "1", "no program of a task in the kernel"},
	{"net/core/bpf_jit_harden", "2", "the same for what is loaded by root on a task's behalf"},
	{"kernel/io_uring_disabled", "2", "a large part of the kernel that nothing here uses, and that a seccomp filter can't look into"},
	{"kernel/yama/ptrace_scope", "1", "a process traces only its own children"},
	{"kernel/kexec_load_disabled", "1", "what runs is what the firmware started"},
	{"kernel/sysrq", "0", "no keyboard shortcut around the shutdown in order"},
	{"dev/tty/legacy_tiocsti", "0", "no program types into another's terminal"},
	{"dev/tty/ldisc_autoload", "0", "no task loads a line discipline"},
	{"vm/unprivileged_userfaultfd", "0", "no task stops the kernel in the middle of a copy"},
	{"fs/protected_symlinks", "1", "links in sticky folders"},
	{"fs/protected_hardlinks", "1", "hard links to files of others"},
	{"fs/protected_fifos", "2", "fifos in sticky folders"},
	{"fs/protected_regular", "2", "files in sticky folders"},
	{"fs/suid_dumpable", "0", "no dump of what has changed its user"},
	{"net/ipv4/ip_forward", "0", "a box is no router"},
	{"net/ipv4/conf/all/rp_filter", "2", "a packet whose sender no port leads to is dropped"},
	{"net/ipv4/conf/all/accept_redirects", "0", "no neighbour changes our routes"},
	{"net/ipv6/conf/all/accept_redirects", "0", "the same"},
	{"net/ipv4/conf/all/send_redirects", "0", "and we change nobody's"},
	{"net/ipv4/tcp_syncookies", "1", "a flood of half-open connections fills no table"},
	{"net/ipv4/ping_group_range", "1 0", "no raw echo sockets for tasks"},
	{"kernel/panic", "30", "a panic stays readable for half a minute, then the box starts anew"},
	{"kernel/panic_on_oops", "1", "a kernel that has lost its way writes no more"},
	{"vm/overcommit_memory", "0", "the kernel's own guess"},
	{"fs/inotify/max_user_instances", "1048576", "counted for all tasks together, so that one could leave the others none: the memory that they take ends first, and that is each task's own"},
	{"fs/inotify/max_user_watches", "67108864", "the same"},
	{"fs/file-max", "9223372036854775807", "the same"},
	{"kernel/pid_max", "4194304", "the same"},
	{"kernel/threads-max", "4194304", "the same, and beyond it nor could boxd start anything"},
	{"kernel/pty/max", "65536", "the same; a task has 256 at most"},
	{"user/max_user_namespaces", "16384", "one per sandbox, and as many spares"},
}

// SetSysctls writes Sysctls below proc (/proc, but in tests). Settings that
// this kernel has not are returned by name; others that it refuses are errors.
func SetSysctls(proc string) (absent []string, err error) {
	var errs []error
	for _, s := range Sysctls {
		switch err := set(filepath.Join(proc, "sys", s.Path), s.Value); {
		case errors.Is(err, os.ErrNotExist):
			absent = append(absent, strings.ReplaceAll(s.Path, "/", "."))
		case err != nil:
			errs = append(errs, fmt.Errorf("set %s to %s: %w", strings.ReplaceAll(s.Path, "/", "."), s.Value, err))
		}
	}
	return absent, errors.Join(errs...)
}

// maxFiles is how many files a process may have open: the kernel starts the
// first one with 4,096, and boxd needs a dozen for each task and two for each
// connection.
const maxFiles = 1 << 19

// RaiseFiles raises the limit of open files, for this process and all that it
// starts.
func RaiseFiles() error { return raiseFiles(maxFiles) }

func raiseFiles(to uint64) error {
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: to, Max: to}); err != nil {
		return fmt.Errorf("raise the limit of open files: %w", err)
	}
	return nil
}

// set writes into a file of the kernel's, which it never makes.
func set(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// Controllers are passed on from the root group, as far as the kernel has them.
var Controllers = []string{"cpu", "memory", "pids", "io", "cpuset"}

// EnableControllers passes the controllers on below a cgroup2 mount. It returns
// those the kernel lacks.
func EnableControllers(cgroup string) (absent []string, err error) {
	text, err := os.ReadFile(filepath.Join(cgroup, "cgroup.controllers"))
	if err != nil {
		return nil, fmt.Errorf("read the control groups' controllers: %w", err)
	}
	have := " " + strings.Join(strings.Fields(string(text)), " ") + " "
	var errs []error
	for _, c := range Controllers {
		if !strings.Contains(have, " "+c+" ") {
			absent = append(absent, c)
			continue
		}
		// One write each: a controller that is refused must not take the others with it.
		if err := set(filepath.Join(cgroup, "cgroup.subtree_control"), "+"+c); err != nil {
			errs = append(errs, fmt.Errorf("enable the %s controller: %w", c, err))
		}
	}
	return absent, errors.Join(errs...)
}

// shares are what the services have before tasks: ten times the processors and
// disks of all tasks together when both want them, and memory that no task's need
// takes from them. PID 1 is in the root group, which nothing limits.
var shares = []struct{ file, value string }{
	{"cpu.weight", "1000"},
	{"io.weight", "1000"},
	{"io.bfq.weight", "1000"},
	{"memory.min", "134217728"},
}

// Protect makes a control group whose processes tasks can't crowd out.
func Protect(group string) error {
	if err := os.MkdirAll(group, 0o755); err != nil {
		return fmt.Errorf("protect the services: %w", err)
	}
	var errs []error
	for _, s := range shares {
		if err := set(filepath.Join(group, s.file), s.value); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("protect the services: %w", err))
		}
	}
	return errors.Join(errs...)
}

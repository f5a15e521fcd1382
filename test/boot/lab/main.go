package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"gurtos/boot/modules"
	"gurtos/boot/mounts"
)

func main() {
	if err := run(); err != nil {
		fmt.Println("lab: failed:", err)
	}
	unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func run() error {
	if _, err := os.Stat("/data"); err == nil { // not in the initramfs
		return lab()
	}
	return initramfs()
}

type fileSystem struct{ kind, at, options string }

func mountAll(list ...fileSystem) error {
	for _, m := range list {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.at, m.kind, 0, m.options); err != nil {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	return nil
}

// initramfs makes a root of three layers: a tmpfs over the lab's disk over the
// tasks root, so that tests find a shell and the usual programs, and can write.
// In the initramfs's own root pivot_root, which sandboxes need, doesn't work.
func initramfs() error {
	if err := mountAll(fileSystem{"proc", "/proc", ""}, fileSystem{"sysfs", "/sys", ""}, fileSystem{"devtmpfs", "/dev", ""}, fileSystem{"tmpfs", "/rw", ""}); err != nil {
		return err
	}
	l, err := loader()
	if err != nil {
		return err
	}
	if err := errors.Join(l.Load("erofs"), l.Load("overlay"), l.Load("virtio_blk")); err != nil {
		return err
	}
	for _, d := range []string{"lab", "tasks"} {
		dev, err := appears(d)
		if err != nil {
			return err
		}
		if err := errors.Join(os.MkdirAll("/lower/"+d, 0o755), unix.Mount(dev, "/lower/"+d, "erofs", unix.MS_RDONLY, "")); err != nil {
			return fmt.Errorf("mount %s: %w", d, err)
		}
	}
	const to = "/system"
	if err := errors.Join(os.Mkdir(to, 0o755), os.Mkdir("/rw/upper", 0o755), os.Mkdir("/rw/work", 0o755)); err != nil {
		return err
	}
	if err := unix.Mount("overlay", to, "overlay", 0, "lowerdir=/lower/lab:/lower/tasks,upperdir=/rw/upper,workdir=/rw/work"); err != nil {
		return fmt.Errorf("mount the root: %w", err)
	}
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		if err := unix.Mount(dir, to+dir, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s: %w", dir, err)
		}
	}
	if err := errors.Join(unix.Chdir(to), unix.Mount(".", "/", "", unix.MS_MOVE, ""), unix.Chroot("."), unix.Chdir("/")); err != nil {
		return fmt.Errorf("switch root: %w", err)
	}
	return unix.Exec("/init", []string{"/init"}, os.Environ())
}

func loader() (*modules.Loader, error) {
	dir, err := modules.Dir("/modules")
	if err != nil {
		return nil, err
	}
	return modules.New(dir, log.New(os.Stdout, "", 0))
}

func lab() error {
	if err := mountAll(
		fileSystem{"tmpfs", "/run", ""}, fileSystem{"tmpfs", "/tmp", ""}, fileSystem{"devpts", "/dev/pts", "ptmxmode=0666"}, fileSystem{"tmpfs", "/dev/shm", ""},
		fileSystem{"cgroup2", "/sys/fs/cgroup", "nsdelegate,favordynmods"},
	); err != nil {
		return err
	}
	if err := asOnABox(); err != nil {
		return err
	}
	l, err := loader()
	if err != nil {
		return err
	}
	fmt.Println("lab: ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		if words[0] == "off" {
			return nil
		}
		if err := command(l, words[0], words[1:]); err != nil {
			fmt.Println("lab: failed:", err)
		} else {
			fmt.Println("lab: done")
		}
	}
	return errors.Join(io.ErrUnexpectedEOF, lines.Err())
}

// asOnABox sets the kernel and its control groups as stage 2 does on a box.
func asOnABox() error {
	_, err := mounts.SetSysctls("/proc")
	_, cerr := mounts.EnableControllers("/sys/fs/cgroup")
	return errors.Join(err, cerr)
}

func command(l *modules.Loader, name string, args []string) error {
	switch {
	case name == "load" && len(args) == 1:
		return l.Load(args[0])
	case name == "mount" && len(args) == 4:
		dev, err := appears(args[1])
		if err != nil {
			return err
		}
		options, flags := args[3], uintptr(0)
		if options == "ro" {
			options, flags = "", unix.MS_RDONLY
		}
		return unix.Mount(dev, args[2], args[0], flags, options)
	case name == "umount" && len(args) == 1:
		return unmount(args[0])
	case name == "machine" && len(args) == 0:
		return machine(l)
	case name == "run" && len(args) >= 2:
		return program(args[0], args[1:])
	case name == "write":
		found, err := disks()
		if err != nil {
			return err
		}
		return write(found)
	case name == "read":
		return read()
	}
	return fmt.Errorf("no such command, or not its arguments: %s %q", name, args)
}

// unmount waits while the kernel still takes down what ended processes held.
func unmount(dir string) error {
	for limit := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := unix.Unmount(dir, 0)
		if err != unix.EBUSY || time.Now().After(limit) {
			return err
		}
	}
}

// machine gives the guest what tests take a machine to have: networks, a file of passwords, and io_uring.
func machine(l *modules.Loader) error {
	if err := errors.Join(l.Load("dummy"), l.Load("nfnetlink"), os.WriteFile("/etc/shadow", []byte("root:!:1::::::\n"), 0o600),
		os.WriteFile("/proc/sys/kernel/io_uring_disabled", []byte("0"), 0)); err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "up0"
	if err := netlink.LinkAdd(&netlink.Dummy{LinkAttrs: attrs}); err != nil {
		return fmt.Errorf("make an uplink: %w", err)
	}
	for _, name := range []string{"lo", "up0"} {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("switch %s on: %w", name, err)
		}
		if name == "lo" {
			continue
		}
		addr := &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(192, 0, 2, 2), Mask: net.CIDRMask(24, 32)}}
		if err := netlink.AddrAdd(link, addr); err != nil {
			return fmt.Errorf("give %s an address: %w", name, err)
		}
		if err := netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}}); err != nil {
			return fmt.Errorf("route over %s: %w", name, err)
		}
	}
	return nil
}

// appears waits for a disk whose driver has just been loaded.
func appears(serial string) (string, error) {
	for limit := time.Now().Add(30 * time.Second); ; {
		found, err := disks()
		if err != nil {
			return "", err
		}
		if dev := found[serial]; dev != "" {
			return dev, nil
		}
		if time.Now().After(limit) {
			return "", fmt.Errorf("there is no disk %s among %v", serial, found)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func program(dir string, args []string) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stdout
	cmd.Env = []string{
		"PATH=/usr/sbin:/usr/bin:/tools", "HOME=/tmp", "TMPDIR=/data/tmp",
		"BOX_TASKS_ROOT=/tasks", "BOX_TEST_TOOLS=/tools", "BOX_TEST_ALL=" + os.Getenv("BOX_TEST_ALL"),
	}
	if err := os.MkdirAll("/data/tmp", 0o755); err != nil {
		return err
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(args[0]), err)
	}
	return nil
}

package layers

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// enterEmptyNamespace gives the thread a mount namespace whose root is an empty
// tmpfs and that holds nothing else.
func enterEmptyNamespace() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	// Any folder that every Linux has will do as the place for the new root.
	if err := unix.Mount("layers", "/proc", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700,size=64k"); err != nil {
		return fmt.Errorf("mounting a tmpfs: %w", err)
	}
	if err := unix.Chdir("/proc"); err != nil {
		return fmt.Errorf("entering the tmpfs: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("letting go of the host's mounts: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("entering the new root: %w", err)
	}
	return unix.Mkdir("/v", 0o700)
}

// buildOverlay runs on the Mounter's thread. The layers must be attached when
// the overlay is created: kernels before 6.15 refuse detached ones. The overlay
// clones the mounts for itself, so they can go right after.
func buildOverlay(clones []int, writable bool) (int, error) {
	if err := unix.Mount("layers", "/v", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700,size=4m"); err != nil {
		return -1, fmt.Errorf("mounting the layers' tmpfs: %w", err)
	}
	defer unix.Unmount("/v", unix.MNT_DETACH) // takes the layers with it
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fsopen: %w", err)
	}
	defer unix.Close(fs)
	set := func(key, value string) error {
		if err := unix.FsconfigSetString(fs, key, value); err != nil {
			return fmt.Errorf("%s: %w%s", key, err, contextLog(fs))
		}
		return nil
	}
	for i, fd := range clones {
		at := "/v/" + strconv.Itoa(i)
		if err := unix.Mkdir(at, 0o700); err != nil {
			return -1, fmt.Errorf("%s: %w", at, err)
		}
		if err := unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return -1, fmt.Errorf("attaching layer %d: %w", i, err)
		}
		if writable && i == 0 {
			continue
		}
		if err := set("lowerdir+", at); err != nil {
			return -1, err
		}
	}
	opts := [][2]string{{"redirect_dir", "on"}, {"metacopy", "off"}, {"index", "off"}, {"xino", "off"}}
	attr := unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	if writable {
		opts = append(opts, [2]string{"upperdir", "/v/0/upper"}, [2]string{"workdir", "/v/0/work"})
	} else {
		opts[0][1] = "nofollow" // sealed layers hold no redirect; were one there, it must not be believed
		attr |= unix.MOUNT_ATTR_RDONLY
	}
	for _, o := range opts {
		if err := set(o[0], o[1]); err != nil {
			return -1, err
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("overlay: %w%s", err, contextLog(fs))
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attr)
	if err != nil {
		return -1, fmt.Errorf("fsmount: %w%s", err, contextLog(fs))
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("statfs: %w", err)
	}
	if writable && st.Flags&unix.ST_RDONLY != 0 {
		// overlayfs falls back to this when it can't make its work folder.
		unix.Close(fd)
		return -1, fmt.Errorf("the layer can't be written to, its disk or cap is full: %w", unix.ENOSPC)
	}
	return fd, nil
}

// contextLog reads what the kernel said about a mount that it refused.
func contextLog(fs int) string {
	var all []string
	b := make([]byte, 1024)
	for {
		n, err := unix.Read(fs, b)
		if err != nil || n <= 0 {
			break
		}
		all = append(all, strings.TrimSpace(string(b[:n])))
	}
	if len(all) == 0 {
		return ""
	}
	return " (" + strings.Join(all, "; ") + ")"
}

// cloneMount gives a detached mount of the folder alone, without what is mounted
// in it, mapped through the user namespace if there is one.
func cloneMount(dir, userns *os.File) (int, error) {
	fd, err := unix.OpenTree(int(dir.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return -1, fmt.Errorf("open_tree: %w", err)
	}
	if userns == nil {
		return fd, nil
	}
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH,
		&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(userns.Fd())})
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("mapping ids: %w", err)
	}
	return fd, nil
}

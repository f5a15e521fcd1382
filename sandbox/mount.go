package sandbox

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

const quiet = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV // every mount in a sandbox but /dev

// newMount makes a detached mount of a new file system; opts are pairs of key
// and value, a value "" standing for a flag.
func newMount(fstype string, attr int, opts ...[2]string) (*os.File, error) {
	ctx, err := unix.Fsopen(fstype, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("%s: fsopen: %w", fstype, err)
	}
	defer unix.Close(ctx)
	for _, o := range opts {
		if o[1] == "" {
			err = unix.FsconfigSetFlag(ctx, o[0])
		} else {
			err = unix.FsconfigSetString(ctx, o[0], o[1])
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %s=%s: %w", fstype, o[0], o[1], err)
		}
	}
	if err := unix.FsconfigCreate(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", fstype, err)
	}
	fd, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, attr)
	if err != nil {
		return nil, fmt.Errorf("%s: fsmount: %w", fstype, err)
	}
	return os.NewFile(uintptr(fd), fstype), nil
}

// cloneMount makes a detached mount of what path shows.
func cloneMount(path string, flags uint) (*os.File, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW|flags)
	if err != nil {
		return nil, fmt.Errorf("%s: open_tree: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// setAttr changes flags of a mount.
func setAttr(m *os.File, set uint64, userns *os.File) error {
	a := unix.MountAttr{Attr_set: set}
	if userns != nil {
		a.Attr_set |= unix.MOUNT_ATTR_IDMAP
		a.Userns_fd = uint64(userns.Fd())
	}
	err := unix.MountSetattr(int(m.Fd()), "", unix.AT_EMPTY_PATH, &a)
	runtime.KeepAlive(userns)
	if err != nil {
		return fmt.Errorf("%s: mount_setattr: %w", m.Name(), err)
	}
	return nil
}

// attach puts a detached mount at path, which is no symlink, in the thread's
// mount namespace.
func attach(m *os.File, path string) error {
	err := unix.MoveMount(int(m.Fd()), "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH)
	runtime.KeepAlive(m)
	if err != nil {
		return fmt.Errorf("mounting %s at %s: %w", m.Name(), path, err)
	}
	return nil
}

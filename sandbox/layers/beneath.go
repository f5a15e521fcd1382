package layers

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Files of a task are hostile: any name may be a link that points anywhere. So
// nothing here follows a link or leaves the folder it started from, and a path
// of more than one name is opened by the kernel under these rules.
const beneathRules = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// maxDepth is how deep folders may be nested in a layer. It bounds descriptors
// and stack; PATH_MAX ends paths of a program that opens by path at about 2,000.
const maxDepth = 1000

// openBeneath opens a path below dir. "." is dir itself.
func openBeneath(dir int, path string, flags int, mode uint32) (*os.File, error) {
	for {
		fd, err := unix.Openat2(dir, path, &unix.OpenHow{
			Flags: uint64(flags) | unix.O_CLOEXEC, Mode: uint64(mode), Resolve: beneathRules,
		})
		// EAGAIN: a rename elsewhere raced with the check of "..", which has none here.
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(fd), path), nil
	}
}

// checkPath takes a path as people write it, from the root of a view, and gives
// it clean: "." or names joined by single slashes.
func checkPath(path string) (string, error) {
	if strings.ContainsRune(path, 0) {
		return "", &PathError{path, "holds a zero byte"}
	}
	if len(path) >= unix.PathMax {
		return "", &PathError{path, "is longer than 4,095 bytes"}
	}
	if strings.HasPrefix(path, "/") {
		return "", &PathError{path, "starts with a slash; it is taken from the workspace"}
	}
	names := slices.DeleteFunc(strings.Split(path, "/"), func(n string) bool { return n == "" || n == "." })
	for _, n := range names {
		if n == ".." {
			return "", &PathError{path, `has ".." in it`}
		}
		if len(n) > unix.NAME_MAX {
			return "", &PathError{path, "has a name of more than 255 bytes"}
		}
	}
	if len(names) == 0 {
		return ".", nil
	}
	return strings.Join(names, "/"), nil
}

// A PathError is a path that can't be used, with the reason.
type PathError struct {
	Path string
	Why  string
}

func (e *PathError) Error() string {
	p := e.Path
	if len(p) > 200 {
		p = p[:200] + "…"
	}
	return fmt.Sprintf("%q %s", p, e.Why)
}

func lstatAt(dir int, name string) (st unix.Stat_t, err error) {
	err = unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

func isKind(st *unix.Stat_t, kind uint32) bool { return st.Mode&unix.S_IFMT == kind }
func isDir(st *unix.Stat_t) bool               { return isKind(st, unix.S_IFDIR) }
func isFile(st *unix.Stat_t) bool              { return isKind(st, unix.S_IFREG) }
func isLink(st *unix.Stat_t) bool              { return isKind(st, unix.S_IFLNK) }

// isWhiteout knows overlayfs's mark for "nothing here": character device 0/0.
func isWhiteout(st *unix.Stat_t) bool { return isKind(st, unix.S_IFCHR) && st.Rdev == 0 }

// names lists a folder, sorted. One that a running task removed since it was
// opened has none.
func names(dir *os.File) ([]string, error) {
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	n, err := dir.Readdirnames(-1)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return nil, err
	}
	slices.Sort(n)
	return n, nil
}

// openFile opens a regular file for reading. A pipe in its place doesn't block
// and a device is not touched: the kind is looked at first and again after.
func openFile(dir int, name string) (*os.File, error) {
	st, err := lstatAt(dir, name)
	if err != nil {
		return nil, err
	}
	if !isFile(&st) {
		return nil, &PathError{name, "is " + kindOf(st.Mode) + ", not a file"}
	}
	f, err := openBeneath(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || !isFile(&st) {
		f.Close()
		return nil, &PathError{name, "changed while it was opened"}
	}
	return f, nil
}

func openFolder(dir int, name string) (*os.File, error) {
	return openBeneath(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}

func readLink(dir int, name string) (string, error) {
	b := make([]byte, unix.PathMax+1)
	n, err := unix.Readlinkat(dir, name, b)
	if err != nil {
		return "", err
	}
	return string(b[:n]), nil
}

// at names an entry of an open folder for the calls that take no descriptor
// (extended attributes, on kernels before 6.13). The last name is not followed.
func at(dir int, name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir, name)
}

// xattrs lists the names of an entry's extended attributes.
func xattrs(dir int, name string) ([]string, error) {
	path := at(dir, name)
	b := make([]byte, 1024)
	for {
		n, err := unix.Llistxattr(path, b)
		if err == unix.ERANGE {
			b = make([]byte, len(b)*4)
			continue
		}
		if err == unix.EOPNOTSUPP {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		all := strings.Split(string(b[:n]), "\x00")
		return all[:len(all)-1], nil
	}
}

// xattr reads one attribute; ok is false when there is none.
func xattr(dir int, name, attr string) (value []byte, ok bool, err error) {
	path := at(dir, name)
	b := make([]byte, 256)
	for {
		n, err := unix.Lgetxattr(path, attr, b)
		switch err {
		case nil:
			return b[:n], true, nil
		case unix.ERANGE:
			b = make([]byte, 65536)
			continue
		case unix.ENODATA, unix.EOPNOTSUPP:
			return nil, false, nil
		}
		return nil, false, err
	}
}

const (
	xattrOpaque   = "trusted.overlay.opaque"
	xattrRedirect = "trusted.overlay.redirect"
	xattrOrigin   = "trusted.overlay.origin"
	xattrMetacopy = "trusted.overlay.metacopy"
	xattrCaps     = "security.capability"
)

// isOpaque tells whether a folder hides what is below it.
func isOpaque(dir int, name string) (bool, error) {
	v, ok, err := xattr(dir, name, xattrOpaque)
	return ok && string(v) == "y", err
}

// times gives the access and modification time of a stat for utimensat.
func times(st *unix.Stat_t) []unix.Timespec { return []unix.Timespec{st.Atim, st.Mtim} }

func setTimes(dir int, name string, st *unix.Stat_t) error {
	return unix.UtimesNanoAt(dir, name, times(st), unix.AT_SYMLINK_NOFOLLOW)
}

// removeTree deletes an entry of a folder with everything in it, however deep:
// a folder that is nested too deep is first moved up beside the top one.
func removeTree(dir int, name string) error {
	st, err := lstatAt(dir, name)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing %s: %w", name, err)
	}
	if !isDir(&st) {
		return unix.Unlinkat(dir, name, 0)
	}
	top, err := openFolder(dir, name)
	if err != nil {
		return fmt.Errorf("removing %s: %w", name, err)
	}
	defer top.Close()
	r := remover{top: int(top.Fd())}
	for {
		r.moved = 0
		if err := r.empty(top, 0); err != nil {
			return fmt.Errorf("removing %s: %w", name, err)
		}
		if r.moved == 0 {
			break
		}
	}
	if err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); err != nil {
		return fmt.Errorf("removing %s: %w", name, err)
	}
	return nil
}

// clearFolder deletes what is in a folder, and not the folder.
func clearFolder(dir int, name string) error {
	f, err := openFolder(dir, name)
	if err != nil {
		return fmt.Errorf("clearing %s: %w", name, err)
	}
	defer f.Close()
	all, err := names(f)
	if err != nil {
		return fmt.Errorf("clearing %s: %w", name, err)
	}
	for _, n := range all {
		step("clear " + name)
		if err := removeTree(int(f.Fd()), n); err != nil {
			return err
		}
	}
	return nil
}

type remover struct {
	top   int // where too deep folders are moved to
	moved int
}

func (r *remover) empty(dir *os.File, depth int) error {
	all, err := names(dir)
	if err != nil {
		return err
	}
	fd := int(dir.Fd())
	for _, n := range all {
		err := unix.Unlinkat(fd, n, 0)
		if err == nil || err == unix.ENOENT {
			continue
		}
		if err != unix.EISDIR {
			return err
		}
		if err := unix.Unlinkat(fd, n, unix.AT_REMOVEDIR); err == nil {
			continue
		}
		if depth == 64 {
			// Emptied in the next round. A task may have used such a name itself.
			for i := r.moved; ; i++ {
				err := unix.Renameat2(fd, n, r.top, fmt.Sprintf("~deep%d", i), unix.RENAME_NOREPLACE)
				if err == unix.EEXIST {
					continue
				}
				if err != nil {
					return err
				}
				r.moved = i + 1
				break
			}
			continue
		}
		sub, err := openFolder(fd, n)
		if err != nil {
			return err
		}
		err = r.empty(sub, depth+1)
		sub.Close()
		if err != nil {
			return err
		}
		if err := unix.Unlinkat(fd, n, unix.AT_REMOVEDIR); err != nil && err != unix.ENOENT {
			return err
		}
	}
	return nil
}

package layers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// A copier writes entries of a stack into a plain folder: file contents as
// clones that share their blocks where the file system can, owner, mode, times,
// extended attributes and hard links as they are. Whiteouts and overlayfs's own
// marks are not written.
type copier struct {
	ctx   context.Context
	link  func(e entry) bool // entries whose own inode is linked and not copied
	links map[inode]placed   // files of several names, as they were written
}

type placed struct {
	dir  *os.File // a descriptor of the copier's root
	path string
}

func newCopier(ctx context.Context, link func(entry) bool) *copier {
	return &copier{ctx: ctx, link: link, links: map[inode]placed{}}
}

// folder writes what f shows into the folder dst, which is root's path below.
func (c *copier) folder(f *folder, root, dst *os.File, at string) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	all, err := f.list()
	if err != nil {
		return err
	}
	for _, e := range all {
		if err := c.entry(f, e, root, dst, path.Join(at, e.name)); err != nil {
			return fmt.Errorf("%s: %w", path.Join(f.path, e.name), err)
		}
	}
	return nil
}

func (c *copier) entry(f *folder, e entry, root, dst *os.File, at string) error {
	fd := int(dst.Fd())
	step("copy")
	switch {
	case isDir(&e.st):
		if err := unix.Mkdirat(fd, e.name, 0o700); err != nil {
			return err
		}
		sub, err := f.enter(e.name)
		if err != nil {
			return err
		}
		if sub != nil {
			defer sub.close()
			to, err := openFolder(fd, e.name)
			if err != nil {
				return err
			}
			err = c.folder(sub, root, to, at)
			to.Close()
			if err != nil {
				return err
			}
		}
	case c.link != nil && c.link(e):
		return unix.Linkat(int(e.part.dir.Fd()), e.name, fd, e.name, 0)
	case isFile(&e.st):
		key := inode{e.st.Dev, e.st.Ino}
		if e.st.Nlink > 1 {
			if p, ok := c.links[key]; ok {
				return linkBeneath(p.dir, p.path, fd, e.name)
			}
			c.links[key] = placed{root, at}
		}
		if err := c.file(e, fd); err != nil {
			return err
		}
	case isLink(&e.st):
		to, err := e.target()
		if err != nil {
			return err
		}
		if err := unix.Symlinkat(to, fd, e.name); err != nil {
			return err
		}
	default:
		return nil // a sealed layer has none
	}
	return copyAttrs(int(e.part.dir.Fd()), e.name, &e.st, fd, e.name)
}

// linkBeneath gives a file written before a second name.
func linkBeneath(root *os.File, old string, dir int, name string) error {
	from, err := openBeneath(int(root.Fd()), path.Dir(old), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer from.Close()
	return unix.Linkat(int(from.Fd()), path.Base(old), dir, name, 0)
}

func (c *copier) file(e entry, dst int) error {
	src, err := e.open()
	if err != nil {
		return err
	}
	defer src.Close()
	to, err := openBeneath(dst, e.name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer to.Close()
	return copyBytes(c.ctx, to, src, e.st.Size)
}

// copyBytes shares the blocks by a reflink, or else copies what is not a hole.
func copyBytes(ctx context.Context, to, from *os.File, size int64) error {
	if size == 0 {
		return nil
	}
	err := unix.IoctlFileClone(int(to.Fd()), int(from.Fd()))
	if err == nil {
		return nil
	}
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTTY) {
		return fmt.Errorf("cloning: %w", err)
	}
	if err := unix.Ftruncate(int(to.Fd()), size); err != nil {
		return err
	}
	for off := int64(0); off < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		start, err := unix.Seek(int(from.Fd()), off, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // only a hole is left
		}
		if err != nil {
			return err
		}
		end, err := unix.Seek(int(from.Fd()), start, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(to, start), io.NewSectionReader(from, start, end-start)); err != nil {
			return err
		}
		off = end
	}
	return nil
}

// copyAttrs gives a written entry the owner, mode, extended attributes and
// times of the one it was made from.
func copyAttrs(src int, srcName string, st *unix.Stat_t, dst int, name string) error {
	if err := unix.Fchownat(dst, name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("owner: %w", err)
	}
	if !isLink(st) { // the entry is ours and no link, so that following is harmless
		if err := unix.Fchmodat(dst, name, st.Mode&0o7777, 0); err != nil {
			return fmt.Errorf("mode: %w", err)
		}
	}
	all, err := xattrs(src, srcName)
	if err != nil {
		return fmt.Errorf("attributes: %w", err)
	}
	for _, a := range all {
		if strings.HasPrefix(a, "trusted.") {
			continue
		}
		v, ok, err := xattr(src, srcName, a)
		if err != nil {
			return fmt.Errorf("attribute %s: %w", a, err)
		}
		if !ok {
			continue
		}
		if err := unix.Lsetxattr(at(dst, name), a, v, 0); err != nil {
			return fmt.Errorf("attribute %s: %w", a, err)
		}
	}
	return setTimes(dst, name, st)
}

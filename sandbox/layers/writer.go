package layers

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// A Writer puts a person's files into an open layer, through the view, so that
// the layer becomes what a task would have made. All it makes belongs to
// Canonical. It follows no link and leaves the view nowhere. Paths are taken
// from the root of the view. After an error the layer may hold half a file: Drop it.
type Writer struct {
	mt   *Mount
	root *os.File
	late []lateTime // of folders, set at Close since each file put in them changes it
}

type lateTime struct {
	path string
	at   time.Time
}

// Writer mounts the view for writing into its Layer. Close it before Seal.
func (m *Mounter) Writer(v View) (*Writer, error) {
	if v.Layer == "" {
		return nil, errors.New("a view without a layer can't be written to")
	}
	mt, err := m.Mount(v, nil)
	if err != nil {
		return nil, err
	}
	root, err := openDirAt(mt.File, ".")
	if err != nil {
		mt.Close()
		return nil, err
	}
	return &Writer{mt: mt, root: root}, nil
}

// Close sets the folders' times and unmounts the view. What was written is on
// disk for sure only after Seal.
func (w *Writer) Close() error {
	var first error
	// The deepest first: setting a time changes no other folder's.
	slices.SortStableFunc(w.late, func(a, b lateTime) int { return len(b.path) - len(a.path) })
	for _, l := range w.late {
		if err := w.chtimes(l.path, l.at); err != nil && !errors.Is(err, fs.ErrNotExist) && first == nil {
			first = fmt.Errorf("%s: %w", l.path, err)
		}
	}
	w.root.Close()
	w.mt.Close()
	return first
}

// File writes a file, in place of a file or link of that name. Missing folders
// above it are made. The zero time means now.
func (w *Writer) File(name string, mode fs.FileMode, at time.Time, r io.Reader) error {
	return w.put(name, at, func(dir int, base string) error {
		f, err := openBeneath(dir, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := io.Copy(f, r); err != nil {
			return err
		}
		if err := unix.Fchown(int(f.Fd()), Canonical, Canonical); err != nil {
			return err
		}
		return unix.Fchmod(int(f.Fd()), uint32(mode&0o777))
	})
}

// Symlink writes a link in place of a file or link of that name. The target is
// kept as it is; nothing here ever follows it.
func (w *Writer) Symlink(target, name string, at time.Time) error {
	if target == "" || len(target) >= unix.PathMax {
		return &PathError{name, "has a target that is empty or longer than 4,095 bytes"}
	}
	return w.put(name, at, func(dir int, base string) error {
		if err := unix.Symlinkat(target, dir, base); err != nil {
			return err
		}
		return unix.Fchownat(dir, base, Canonical, Canonical, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// Link gives a file of the view a second name.
func (w *Writer) Link(old, name string) error {
	o, err := checkPath(old)
	if err != nil {
		return err
	}
	from, err := w.folder(path.Dir(o), false)
	if err != nil {
		return fmt.Errorf("%s: %w", old, err)
	}
	defer from.Close()
	st, err := lstatAt(int(from.Fd()), path.Base(o))
	if err != nil {
		return fmt.Errorf("%s: %w", old, err)
	}
	if !isFile(&st) {
		return &PathError{old, "is " + kindOf(st.Mode) + ", not a file"}
	}
	return w.put(name, time.Unix(st.Mtim.Unix()), func(dir int, base string) error {
		return unix.Linkat(int(from.Fd()), path.Base(o), dir, base, 0)
	})
}

// Folder makes a folder and those above it; one that is there keeps its files
// and takes the mode and time.
func (w *Writer) Folder(name string, mode fs.FileMode, at time.Time) error {
	p, err := newPath(name)
	if err != nil {
		return err
	}
	if p == "." {
		return nil
	}
	d, err := w.folder(p, true)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer d.Close()
	if err := unix.Fchmod(int(d.Fd()), uint32(mode&0o777)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if !at.IsZero() {
		w.late = append(w.late, lateTime{p, at})
	}
	return nil
}

// Delete removes a path with all below it. One that is not there is
// fs.ErrNotExist.
func (w *Writer) Delete(name string) error {
	p, err := checkPath(name)
	if err != nil {
		return err
	}
	if p == "." {
		return &PathError{name, "is the workspace itself"}
	}
	dir, err := w.folder(path.Dir(p), false)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer dir.Close()
	if _, err := lstatAt(int(dir.Fd()), path.Base(p)); err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	if err := removeTree(int(dir.Fd()), path.Base(p)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Tar unpacks an archive below a folder. Files, folders, symlinks and hard links
// within the archive are taken; devices, pipes and anything that would leave the
// folder are refused, with the name. One that stops before its end mark was cut
// off on the way and is io.ErrUnexpectedEOF.
func (w *Writer) Tar(under string, r io.Reader) error {
	u, err := checkPath(under)
	if err != nil {
		return err
	}
	in := &marked{r: r}
	t := tar.NewReader(in)
	for {
		h, err := t.Next()
		if err == io.EOF && in.ran {
			err = io.ErrUnexpectedEOF
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the archive: %w", err)
		}
		p, err := checkPath(h.Name)
		if err != nil {
			return err
		}
		p = path.Join(u, p)
		mode := fs.FileMode(h.Mode & 0o777)
		switch h.Typeflag {
		case tar.TypeReg:
			err = w.File(p, mode, h.ModTime, t)
		case tar.TypeDir:
			err = w.Folder(p, mode, h.ModTime)
		case tar.TypeSymlink:
			err = w.Symlink(h.Linkname, p, h.ModTime)
		case tar.TypeLink:
			var old string
			if old, err = checkPath(h.Linkname); err == nil {
				err = w.Link(path.Join(u, old), p)
			}
			if errors.Is(err, fs.ErrNotExist) {
				err = &PathError{h.Name, fmt.Sprintf("is a hard link to %q, which is not there", h.Linkname)}
			}
		case tar.TypeXGlobalHeader:
		default:
			err = &PathError{h.Name, "is neither file, folder nor link"}
		}
		if err != nil {
			return err
		}
	}
}

// marked tells an archive's end mark from the end of what arrived: the tar
// reader asks for nothing behind the mark, and calls both io.EOF.
type marked struct {
	r   io.Reader
	ran bool
}

func (m *marked) Read(b []byte) (int, error) {
	n, err := m.r.Read(b)
	if n > 0 && err == io.EOF {
		return n, nil // only who asks on comes to the end
	}
	m.ran = m.ran || err == io.EOF
	return n, err
}

// newPath is checkPath for a name that a person puts in. A task may give a file any name,
// but one that is no text could be shown and asked for by nobody.
func newPath(name string) (string, error) {
	if !utf8.ValidString(name) {
		return "", &PathError{name, "is not UTF-8: rename it, so that it can be shown and asked for"}
	}
	return checkPath(name)
}

// put makes the folders above name, clears the place and has write fill it.
func (w *Writer) put(name string, at time.Time, write func(dir int, base string) error) error {
	p, err := newPath(name)
	if err != nil {
		return err
	}
	if p == "." {
		return &PathError{name, "is the workspace itself"}
	}
	dir, err := w.folder(path.Dir(p), true)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer dir.Close()
	fd, base := int(dir.Fd()), path.Base(p)
	st, err := lstatAt(fd, base)
	if err == nil && isDir(&st) {
		return &PathError{name, "is a folder"}
	}
	if err == nil {
		err = unix.Unlinkat(fd, base, 0)
	} else if err == unix.ENOENT {
		err = nil
	}
	if err == nil {
		err = write(fd, base)
	}
	if err == nil && !at.IsZero() {
		err = unix.UtimesNanoAt(fd, base, timeSpec(at), unix.AT_SYMLINK_NOFOLLOW)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// folder opens a folder of the view, made with those above it when make is set.
func (w *Writer) folder(p string, create bool) (*os.File, error) {
	f, err := openBeneath(int(w.root.Fd()), p, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err == nil {
		return f, nil
	}
	if err == unix.ELOOP {
		return nil, &PathError{p, "goes through a symlink"}
	}
	if err == unix.ENOTDIR {
		return nil, &PathError{p, "goes through a file"}
	}
	if err != unix.ENOENT || !create {
		return nil, err
	}
	above, err := w.folder(path.Dir(p), true)
	if err != nil {
		return nil, err
	}
	defer above.Close()
	fd, base := int(above.Fd()), path.Base(p)
	if err := unix.Mkdirat(fd, base, 0o755); err != nil {
		return nil, err
	}
	d, err := openFolder(fd, base)
	if err != nil {
		return nil, err
	}
	// The mode again: boxd's umask took from it.
	err = unix.Fchmod(int(d.Fd()), 0o755)
	if err == nil {
		err = unix.Fchown(int(d.Fd()), Canonical, Canonical)
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

func (w *Writer) chtimes(p string, at time.Time) error {
	d, err := openBeneath(int(w.root.Fd()), p, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	return unix.UtimesNanoAt(int(d.Fd()), ".", timeSpec(at), 0)
}

func timeSpec(at time.Time) []unix.Timespec {
	ts, err := unix.TimeToTimespec(at)
	if err != nil {
		ts = unix.Timespec{}
	}
	return []unix.Timespec{ts, ts}
}

package layers

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A stack reads a view without mounting it: it merges the folders by the rules
// of overlayfs, and knows for every path which layer's file it is, so that the
// file can be cloned from there. The top folder may be an open layer's, with
// redirects; those below are sealed and have none.
type stack struct {
	parts []*os.File // roots, newest first, opened for reading
	open  bool       // the first part is an open layer
	holds []*hold
}

// openStack opens the view for reading; it is locked against removal until
// close. withLayer adds the view's open layer on top, whose lock the caller has.
func openStack(v View, withLayer bool) (*stack, error) {
	s := &stack{}
	if err := s.fill(v, withLayer); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stack) fill(v View, withLayer bool) error {
	if withLayer && v.Layer != "" {
		dir, err := openDir(v.Layer)
		if err != nil {
			return fmt.Errorf("layer %s: %w", v.Layer, err)
		}
		defer dir.Close()
		top, err := openDirAt(dir, "upper")
		if err != nil {
			return fmt.Errorf("layer %s: %w", v.Layer, err)
		}
		s.parts, s.open = append(s.parts, top), true
	}
	for _, l := range v.Lowers {
		h, err := holdLayer(l, false)
		if err != nil {
			return err
		}
		s.holds = append(s.holds, h)
		if err := h.readable(); err != nil {
			return err
		}
		part, err := openDirAt(h.dir, "upper")
		if err != nil {
			return fmt.Errorf("layer %s: %w", l, err)
		}
		s.parts = append(s.parts, part)
	}
	if v.Base != "" {
		h, err := holdBase(v.Base)
		if err != nil {
			return err
		}
		s.holds = append(s.holds, h)
		part, err := openDirAt(h.dir, ".")
		if err != nil {
			return fmt.Errorf("workspace %s: %w", v.Base, err)
		}
		s.parts = append(s.parts, part)
	}
	return nil
}

func (s *stack) close() {
	for _, p := range s.parts {
		p.Close()
	}
	for _, h := range s.holds {
		h.release()
	}
}

// lowers is the stack without its open layer. It shares the descriptors.
func (s *stack) lowers() *stack {
	if !s.open {
		return s
	}
	return &stack{parts: s.parts[1:]}
}

// A folder is one folder of the merged view. It must be closed.
type folder struct {
	s     *stack
	path  string // in the view
	lower string // in the sealed layers; differs below a folder that the open layer moved
	parts []part // that have it, newest first
	shut  bool   // the root: the stack owns the descriptors
}

type part struct {
	dir   *os.File
	layer int // index into stack.parts
}

// An entry is one name in a folder, and the part that it comes from.
type entry struct {
	name string
	part part
	st   unix.Stat_t
}

func (s *stack) root() *folder {
	f := &folder{s: s, path: ".", lower: ".", shut: true}
	for i, p := range s.parts {
		f.parts = append(f.parts, part{p, i})
	}
	return f
}

func (f *folder) close() {
	if f == nil || f.shut {
		return
	}
	for _, p := range f.parts {
		p.dir.Close()
	}
}

// find looks a name up. ok is false when the view has nothing there.
func (f *folder) find(name string) (e entry, ok bool, err error) {
	for _, p := range f.parts {
		st, err := lstatAt(int(p.dir.Fd()), name)
		if err == unix.ENOENT {
			continue
		}
		if err != nil {
			return e, false, fmt.Errorf("%s: %w", path.Join(f.path, name), err)
		}
		if isWhiteout(&st) {
			return e, false, nil
		}
		return entry{name, p, st}, true, nil
	}
	return e, false, nil
}

// A named is a name in a folder and the index of the part that it comes from.
type named struct {
	name string
	part int
}

// all gives the folder's names, sorted. A name may turn out to be a whiteout, or
// to be gone, when it is looked at.
func (f *folder) all() ([]named, error) {
	var all []named
	for i, p := range f.parts {
		ns, err := f.names(p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
		all = slices.Grow(all, len(ns))
		for _, n := range ns {
			all = append(all, named{n, i})
		}
	}
	if len(f.parts) > 1 {
		slices.SortStableFunc(all, func(a, b named) int { return strings.Compare(a.name, b.name) }) // the newest part first
		all = slices.CompactFunc(all, func(a, b named) bool { return a.name == b.name })
	}
	return all, nil
}

// look gives the entry of a name, nil when there is none.
func (f *folder) look(n named) (*entry, error) {
	p := f.parts[n.part]
	st, err := lstatAt(int(p.dir.Fd()), n.name)
	if err == unix.ENOENT && f.s.open && p.layer == 0 {
		return nil, nil // a running task removed it meanwhile
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path.Join(f.path, n.name), err)
	}
	if isWhiteout(&st) {
		return nil, nil
	}
	return &entry{n.name, p, st}, nil
}

// list gives the folder's entries, sorted by name.
func (f *folder) list() ([]entry, error) {
	names, err := f.all()
	if err != nil {
		return nil, err
	}
	var all []entry
	for _, n := range names {
		e, err := f.look(n)
		if err != nil {
			return nil, err
		}
		if e != nil {
			all = append(all, *e)
		}
	}
	return all, nil
}

// names lists one part. The root's descriptors are shared by all who read the
// stack, and a descriptor has one reading position: the root is opened anew.
func (f *folder) names(p part) ([]string, error) {
	if !f.shut {
		return names(p.dir)
	}
	dir, err := openDirAt(p.dir, ".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return names(dir)
}

// enter opens a folder in the folder. nil without an error means that there is
// none by that name.
func (f *folder) enter(name string) (*folder, error) {
	sub := &folder{s: f.s, path: path.Join(f.path, name), lower: path.Join(f.lower, name)}
	ok := false
	defer func() {
		if !ok {
			sub.close()
		}
	}()
	if strings.Count(sub.path, "/") >= maxDepth {
		return nil, &PathError{sub.path, fmt.Sprintf("is nested more than %d folders deep", maxDepth)}
	}
	for _, p := range f.parts {
		fd := int(p.dir.Fd())
		dir, err := openFolder(fd, name)
		if err == unix.ENOENT {
			continue
		}
		if err == unix.ENOTDIR || err == unix.ELOOP {
			break // a file, a link or a whiteout ends what is below it
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sub.path, err)
		}
		sub.parts = append(sub.parts, part{dir, p.layer})
		if opaque, err := isOpaque(int(dir.Fd()), "."); err != nil {
			return nil, fmt.Errorf("%s: %w", sub.path, err)
		} else if opaque {
			break
		}
		if f.s.open && p.layer == 0 {
			to, redirected, err := xattr(int(dir.Fd()), ".", xattrRedirect)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", sub.path, err)
			}
			if redirected {
				ok = true
				return sub, sub.redirect(string(to), f.lower)
			}
		}
	}
	if len(sub.parts) == 0 {
		return nil, nil
	}
	ok = true
	return sub, nil
}

// redirect continues a moved folder with what it was in the layers below: an
// absolute path from their root, or another name in the folder it lies in.
func (f *folder) redirect(to, parent string) error {
	if strings.HasPrefix(to, "/") {
		f.lower = path.Clean(strings.TrimLeft(to, "/"))
	} else {
		f.lower = path.Join(parent, to)
	}
	from, err := f.s.lowers().walk(f.lower)
	if err != nil {
		return err
	}
	if from == nil {
		return nil
	}
	for _, p := range from.parts {
		p.layer++ // indexes of the stack with the open layer on top
		if from.shut {
			if p.dir, err = openDirAt(p.dir, "."); err != nil {
				return err
			}
		}
		f.parts = append(f.parts, p)
	}
	return nil
}

// walk opens the folder at a clean path, nil if there is none.
func (s *stack) walk(path string) (*folder, error) {
	f := s.root()
	if path == "." {
		return f, nil
	}
	for name := range strings.SplitSeq(path, "/") {
		sub, err := f.enter(name)
		f.close()
		if sub == nil || err != nil {
			return nil, err
		}
		f = sub
	}
	return f, nil
}

// lookup finds the entry at a clean path other than ".". The folder that holds
// it is to be closed when ok is true.
func (s *stack) lookup(p string) (dir *folder, e entry, ok bool, err error) {
	dir, err = s.walk(path.Dir(p))
	if err != nil || dir == nil {
		return nil, e, false, err
	}
	e, ok, err = dir.find(path.Base(p))
	if err != nil || !ok {
		dir.close()
		return nil, e, false, err
	}
	return dir, e, true, nil
}

func (e *entry) open() (*os.File, error)  { return openFile(int(e.part.dir.Fd()), e.name) }
func (e *entry) target() (string, error)  { return readLink(int(e.part.dir.Fd()), e.name) }
func (e *entry) attrs() ([]string, error) { return xattrs(int(e.part.dir.Fd()), e.name) }
func (e *entry) attr(n string) ([]byte, error) {
	v, _, err := xattr(int(e.part.dir.Fd()), e.name, n)
	return v, err
}

// isText tells whether a file holds no zero byte in its first 8,000, as git does.
func isText(f *os.File) (bool, error) {
	b := make([]byte, 8000)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return !slices.Contains(b[:n], 0), nil
}

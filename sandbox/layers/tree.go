package layers

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// A Tree is a view, read-only and as boxd sees it: no link is followed, nothing
// outside is reached, and only regular files can be opened. It holds the view's
// layers until Close. It may be used by several goroutines.
type Tree struct{ s *stack }

// An Entry is one file, folder or symlink of a Tree.
type Entry struct {
	Name   string
	Kind   string // file, folder, symlink
	Size   int64  // bytes of a file, 0 of others
	Mode   fs.FileMode
	Time   time.Time // of the last change of content
	Target string    // of a symlink, as it stands
}

// OpenTree opens the view without its Layer. Use it on views of sealed layers.
func OpenTree(v View) (*Tree, error) {
	if len(v.Lowers) > MaxLowers {
		return nil, tooMany(len(v.Lowers))
	}
	v.Layer = ""
	s, err := openStack(v, false)
	if err != nil {
		return nil, err
	}
	return &Tree{s}, nil
}

// Close lets go of the layers. Open files stay open.
func (t *Tree) Close() error {
	t.s.close()
	return nil
}

// Stat describes the path; "" and "." are the root. A path that goes through a
// symlink or a file is fs.ErrNotExist.
func (t *Tree) Stat(name string) (Entry, error) {
	p, err := checkPath(name)
	if err != nil {
		return Entry{}, err
	}
	if p == "." {
		return t.rootEntry()
	}
	dir, e, ok, err := t.s.lookup(p)
	if err != nil {
		return Entry{}, err
	}
	if !ok {
		return Entry{}, notThere(name)
	}
	defer dir.close()
	return e.public()
}

func (t *Tree) rootEntry() (Entry, error) {
	e := Entry{Name: ".", Kind: "folder", Mode: fs.ModeDir | 0o755}
	if len(t.s.parts) > 0 {
		var st unix.Stat_t
		if err := unix.Fstat(int(t.s.parts[0].Fd()), &st); err != nil {
			return e, err
		}
		e.Mode, e.Time = fileMode(&st), time.Unix(st.Mtim.Unix())
	}
	return e, nil
}

// Open opens a regular file for reading.
func (t *Tree) Open(name string) (*os.File, error) {
	p, err := checkPath(name)
	if err != nil {
		return nil, err
	}
	if p == "." {
		return nil, &PathError{name, "is a folder, not a file"}
	}
	dir, e, ok, err := t.s.lookup(p)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, notThere(name)
	}
	defer dir.close()
	if !isFile(&e.st) {
		return nil, &PathError{name, "is " + kindOf(e.st.Mode) + ", not a file"}
	}
	f, err := e.open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// ReadDir lists a folder, sorted by name.
func (t *Tree) ReadDir(name string) ([]Entry, error) {
	p, err := checkPath(name)
	if err != nil {
		return nil, err
	}
	f, err := t.s.walk(p)
	if err != nil {
		return nil, err
	}
	if f == nil {
		if e, err := t.Stat(name); err == nil {
			return nil, &PathError{name, "is a " + e.Kind + ", not a folder"}
		}
		return nil, notThere(name)
	}
	defer f.close()
	all, err := f.list()
	if err != nil {
		return nil, err
	}
	out := make([]Entry, 0, len(all))
	for _, e := range all {
		pub, err := e.public()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path.Join(name, e.name), err)
		}
		out = append(out, pub)
	}
	return out, nil
}

// Walk calls fn for every path below name, a folder before what is in it.
func (t *Tree) Walk(name string, fn func(path string, e Entry) error) error {
	p, err := checkPath(name)
	if err != nil {
		return err
	}
	f, err := t.s.walk(p)
	if err != nil {
		return err
	}
	if f == nil {
		return notThere(name)
	}
	defer f.close()
	return walkFolder(f, fn)
}

func walkFolder(f *folder, fn func(string, Entry) error) error {
	all, err := f.list()
	if err != nil {
		return err
	}
	for _, e := range all {
		pub, err := e.public()
		if err != nil {
			return fmt.Errorf("%s: %w", path.Join(f.path, e.name), err)
		}
		if err := fn(path.Join(f.path, e.name), pub); err != nil {
			return err
		}
		if !isDir(&e.st) {
			continue
		}
		sub, err := f.enter(e.name)
		if err != nil {
			return err
		}
		if sub == nil {
			continue
		}
		err = walkFolder(sub, fn)
		sub.close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *entry) public() (Entry, error) {
	out := Entry{Name: e.name, Kind: kindWord(&e.st), Mode: fileMode(&e.st), Time: time.Unix(e.st.Mtim.Unix())}
	if isFile(&e.st) {
		out.Size = e.st.Size
	}
	if isLink(&e.st) {
		to, err := e.target()
		if err != nil {
			return out, err
		}
		out.Target = to
	}
	return out, nil
}

func fileMode(st *unix.Stat_t) fs.FileMode {
	m := fs.FileMode(st.Mode & 0o777)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		m |= fs.ModeDir
	case unix.S_IFLNK:
		m |= fs.ModeSymlink
	case unix.S_IFREG:
	default:
		m |= fs.ModeIrregular
	}
	return m
}

func notThere(name string) error { return fmt.Errorf("%q: %w", name, fs.ErrNotExist) }

func tooMany(n int) error {
	return fmt.Errorf("a view of %d layers: at most %d can be stacked", n, MaxLowers)
}

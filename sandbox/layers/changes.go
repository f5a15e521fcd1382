package layers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// A Change is one path of a layer that differs from what the task saw below.
// Folders stand only where no path in them says as much.
type Change struct {
	Path   string `json:"path"`
	Change string `json:"change"` // added, modified or deleted
	Kind   string `json:"kind"`   // file, folder or symlink; of a deleted path what it was
	Size   int64  `json:"size"`   // bytes of a file as the task left it, or as it was when deleted
	Binary bool   `json:"binary"` // a zero byte in the first 8,000
}

const (
	Added    = "added"
	Modified = "modified"
	Deleted  = "deleted"
)

// EachChange gives fn what the view's layer changes, path by path as comparePaths
// orders them, and which of the other layers, all of them sealed, change the path too.
// An open layer, which a task may be writing to, is compared now; a sealed one's list
// is kept with it and needs none of the layers below. A layer may change a million
// paths: of each list one record is in memory.
func EachChange(ctx context.Context, v View, others []string, fn func(c Change, also []string) error) error {
	var beside []*follower
	defer func() {
		for _, f := range beside {
			f.stop()
		}
	}()
	for _, o := range others {
		if o != v.Layer {
			beside = append(beside, follow(ctx, o))
		}
	}
	return eachRecord(ctx, v, func(r record) error {
		if r.Hidden {
			return nil
		}
		var also []string
		for _, f := range beside {
			has, err := f.reaches(r.Path)
			if err != nil {
				return err
			}
			if has {
				also = append(also, f.layer)
			}
		}
		return fn(r.Change, also)
	})
}

// eachRecord gives the layer's records one by one, as comparePaths orders them.
func eachRecord(ctx context.Context, v View, emit func(record) error) error {
	dir, m, err := openLayer(v.Layer)
	if err != nil {
		return err
	}
	defer dir.Close()
	switch m.State {
	case StateSealed, StateApplied:
		err := readChanges(dir, emit)
		if errors.Is(err, fs.ErrNotExist) { // what is on its way out loses its files one by one
			if _, now := StateOf(v.Layer); errors.Is(now, ErrGone) {
				err = ErrGone
			}
		}
		if err != nil {
			return fmt.Errorf("layer %s: %w", v.Layer, err)
		}
		return nil
	case StateDropped:
		return fmt.Errorf("layer %s: %w", v.Layer, ErrGone)
	}
	merged, err := openStack(v, true)
	if err != nil {
		return err
	}
	defer merged.close()
	c := &comparer{ctx: ctx, live: true, emit: emit}
	if err := c.run(merged); err != nil {
		return fmt.Errorf("layer %s: %w", v.Layer, err)
	}
	return nil
}

// A comparer tells how a view with its open layer differs from that without. A
// layer may change a million paths: what it keeps in memory is the names of the
// folders that it is in, and their records until something in them has one.
type comparer struct {
	ctx     context.Context
	live    bool // a task may change files meanwhile: what vanishes is left out
	before  *beforeWriter
	emit    func(record) error
	pending []record // of the folders that it is in, outermost first
}

// tell emits a record behind those of the folders that it lies in, which it speaks for.
func (c *comparer) tell(r record) error {
	for _, f := range c.pending {
		f.Hidden = f.Change.Change != Modified
		if err := c.emit(f); err != nil {
			return err
		}
	}
	c.pending = c.pending[:0]
	return c.emit(r)
}

func (c *comparer) run(merged *stack) error {
	top, below := merged.root(), merged.lowers().root()
	if len(below.parts) == 0 {
		below = nil
	}
	return c.folder(top, below)
}

// folder compares a folder that the layer has, or that it moved, with what the
// layers below show at its path.
func (c *comparer) folder(top, below *folder) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	news, err := top.all()
	if err != nil {
		return err
	}
	var olds []named
	if below != nil {
		if olds, err = below.all(); err != nil {
			return err
		}
	}
	for len(news) > 0 || len(olds) > 0 {
		var n, o *named
		switch {
		case len(olds) == 0 || len(news) > 0 && news[0].name < olds[0].name:
			n, news = &news[0], news[1:]
		case len(news) == 0 || olds[0].name < news[0].name:
			o, olds = &olds[0], olds[1:]
		default:
			n, o, news, olds = &news[0], &olds[0], news[1:], olds[1:]
		}
		err := c.names(top, below, n, o)
		if c.live && errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// names looks at what has one name; n or o is nil when one side lacks it.
func (c *comparer) names(top, below *folder, n, o *named) (err error) {
	var is, was *entry
	if n != nil {
		if is, err = top.look(*n); err != nil {
			return err
		}
	}
	if o != nil {
		if was, err = below.look(*o); err != nil {
			return err
		}
	}
	if is == nil && was == nil {
		return nil
	}
	return c.pair(top, below, is, was)
}

// pair compares one name; n or o is nil when one side lacks it.
func (c *comparer) pair(top, below *folder, n, o *entry) error {
	var was, is *folder // the name as a folder, on either side
	var err error
	if n != nil && isDir(&n.st) {
		if is, err = top.enter(n.name); err != nil {
			return err
		}
		defer is.close()
		// Where the layer has no part, and no folder above was moved, both sides
		// are the same folders.
		if o != nil && isDir(&o.st) && is != nil && len(is.parts) > 0 && !(top.s.open && is.parts[0].layer == 0) && is.lower == is.path {
			return nil
		}
	}
	if o != nil && isDir(&o.st) {
		if was, err = below.enter(o.name); err != nil {
			return err
		}
		defer was.close()
	}
	r, differs, err := c.compare(top, n, o)
	if err != nil {
		return err
	}
	if is == nil && was == nil {
		if differs {
			return c.tell(r)
		}
		return nil
	}
	if differs {
		c.pending = append(c.pending, r)
	}
	depth := len(c.pending)
	switch {
	case is != nil && was != nil:
		err = c.folder(is, was)
	case is != nil:
		err = c.folder(is, nil)
	default:
		err = c.gone(was)
	}
	if err != nil {
		if differs && len(c.pending) >= depth { // it went meanwhile
			c.pending = c.pending[:depth-1]
		}
		return err
	}
	if differs && len(c.pending) == depth { // nothing in it was told of
		c.pending = c.pending[:depth-1]
		return c.tell(r)
	}
	return nil
}

// gone lists all below a folder as deleted.
func (c *comparer) gone(f *folder) error {
	return c.folder(&folder{s: &stack{}, path: f.path, lower: f.path}, f)
}

// compare describes one name without what is in it.
func (c *comparer) compare(top *folder, n, o *entry) (r record, differs bool, err error) {
	name := ""
	if n != nil {
		name = n.name
	} else {
		name = o.name
	}
	r.Path = path.Join(top.path, name)
	if n != nil {
		r.Kind, r.Mode, r.Size = kindWord(&n.st), n.st.Mode, sizeOf(&n.st)
		r.Change.Change = Added
	}
	if o != nil {
		r.OldKind, r.OldMode, r.OldSize = kindWord(&o.st), o.st.Mode, sizeOf(&o.st)
		r.Change.Change = Modified
		if n == nil {
			r.Change.Change, r.Kind, r.Size = Deleted, r.OldKind, r.OldSize
		}
	}
	if n != nil && o != nil {
		same, err := sameEntry(n, o)
		if err != nil || same {
			return r, false, wrapPath(r.Path, err)
		}
	}
	if n != nil && isFile(&n.st) {
		if r.Binary, err = n.binary(); err != nil {
			return r, false, wrapPath(r.Path, err)
		}
	}
	if o != nil && isFile(&o.st) {
		if r.OldBin, err = o.binary(); err != nil {
			return r, false, wrapPath(r.Path, err)
		}
		if n == nil {
			r.Binary = r.OldBin
		}
	}
	if o != nil && c.before != nil && !r.OldBin {
		if r.Old, err = c.before.keep(o); err != nil {
			return r, false, wrapPath(r.Path, err)
		}
	}
	return r, true, nil
}

func wrapPath(p string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", p, err)
}

func kindWord(st *unix.Stat_t) string {
	switch {
	case isDir(st):
		return "folder"
	case isLink(st):
		return "symlink"
	case isFile(st):
		return "file"
	}
	return strings.TrimPrefix(kindOf(st.Mode), "a ")
}

func sizeOf(st *unix.Stat_t) int64 {
	if isDir(st) {
		return 0
	}
	return st.Size
}

func (e *entry) binary() (bool, error) {
	f, err := e.open()
	if err != nil {
		return false, err
	}
	defer f.Close()
	text, err := isText(f)
	return !text, err
}

// sameEntry tells whether two entries are alike in kind, mode and content. Times
// and owners don't count: they are no change that a person looks for.
func sameEntry(a, b *entry) (bool, error) {
	if a.st.Dev == b.st.Dev && a.st.Ino == b.st.Ino {
		return true, nil
	}
	if a.st.Mode != b.st.Mode {
		return false, nil
	}
	switch {
	case isDir(&a.st):
		return true, nil
	case isLink(&a.st):
		x, err := a.target()
		if err != nil {
			return false, err
		}
		y, err := b.target()
		return x == y, err
	case isFile(&a.st):
		if a.st.Size != b.st.Size {
			return false, nil
		}
		x, err := a.open()
		if err != nil {
			return false, err
		}
		defer x.Close()
		y, err := b.open()
		if err != nil {
			return false, err
		}
		defer y.Close()
		return sameBytes(x, y)
	}
	return a.st.Rdev == b.st.Rdev, nil
}

func sameBytes(x, y io.Reader) (bool, error) {
	a, b := make([]byte, 128<<10), make([]byte, 128<<10)
	for {
		n, errA := io.ReadFull(x, a)
		m, errB := io.ReadFull(y, b)
		if !bytes.Equal(a[:n], b[:m]) {
			return false, nil
		}
		for _, err := range []error{errA, errB} {
			if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
				return false, err
			}
		}
		if errA != nil {
			return true, nil
		}
	}
}

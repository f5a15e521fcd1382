package powercut

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"gurtos/core/durable"
)

// ErrOff is what every operation answers once the power is gone.
var ErrOff = errors.New("the power is off")

// Skip is an error for Fail that makes a sync answer nil and do nothing, as if the
// line that asks for it had been forgotten.
var Skip = errors.New("skipped")

// Kind says what an operation does.
type Kind string

// The operations that change something. Opening a file that is there isn't one.
const (
	Create   Kind = "create"
	Write    Kind = "write"
	Truncate Kind = "truncate"
	Chmod    Kind = "chmod"
	Allocate Kind = "allocate"
	Sync     Kind = "sync"
	Datasync Kind = "datasync"
	Rename   Kind = "rename"
	Remove   Kind = "remove"
	Mkdir    Kind = "mkdir"
	SyncDir  Kind = "syncdir"
)

// Op is an operation that is about to be done.
type Op struct {
	N    int    // counted from 1
	Kind Kind   //
	Path string // below the disk's folder
}

func (o Op) String() string { return fmt.Sprintf("%d %s %s", o.N, o.Kind, o.Path) }

// Short is an error for Fail that lets the first N bytes of a write through.
type Short struct {
	N   int
	Err error
}

func (s *Short) Error() string { return s.Err.Error() }
func (s *Short) Unwrap() error { return s.Err }

// Disk is a disk that forgets what was not synced. Make one with New.
type Disk struct {
	root string
	boot string

	mu     sync.Mutex
	top    *node
	ops    int
	after  int // operations that are still done, -1 for all
	fail   func(Op) error
	off    bool
	handle map[*handle]bool // open ones
}

var _ durable.FS = (*Disk)(nil)

// New is a disk over a folder. What is there already counts as synced.
func New(root string) *Disk {
	return &Disk{root: filepath.Clean(root), boot: rand.Text(), top: &node{dir: true}, after: -1, handle: map[*handle]bool{}}
}

// CutAfter turns the power off after n more operations.
func (d *Disk) CutAfter(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.after = n
}

// Fail has fn called before each operation; its error is the operation's and
// nothing is done. fn must not use the disk.
func (d *Disk) Fail(fn func(Op) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = fn
}

// Ops is how many operations were asked for.
func (d *Disk) Ops() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ops
}

// Boot is part of durable.FS: another with each New.
func (d *Disk) Boot() string { return d.boot }

// begin counts an operation and says whether it may be done. d.mu is held.
func (d *Disk) begin(kind Kind, path string) error {
	if d.off {
		return ErrOff
	}
	if d.after == 0 {
		d.off = true
		return ErrOff
	}
	if d.after > 0 {
		d.after--
	}
	d.ops++
	if d.fail != nil {
		return d.fail(Op{N: d.ops, Kind: kind, Path: path})
	}
	return nil
}

// rel is a path below the disk's folder.
func (d *Disk) rel(name string) (string, error) {
	if name = filepath.Clean(name); name == d.root {
		return "", nil
	}
	r, ok := strings.CutPrefix(name, d.root+string(filepath.Separator))
	if !ok {
		return "", fmt.Errorf("%s is outside the disk %s", name, d.root)
	}
	return r, nil
}

// find is the node of a folder.
func (d *Disk) find(rel string) (*node, error) {
	n, path := d.top, d.root
	if rel != "" {
		for name := range strings.SplitSeq(rel, string(filepath.Separator)) {
			if err := n.load(path); err != nil {
				return nil, err
			}
			path = filepath.Join(path, name)
			next := n.now[name]
			if next == nil {
				return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
			}
			n = next
		}
	}
	return n, n.load(path)
}

// parent is the folder that name is in, and its name there.
func (d *Disk) parent(name string) (folder *node, rel, base string, err error) {
	rel, err = d.rel(name)
	if err != nil {
		return nil, "", "", err
	}
	if rel == "" {
		return nil, "", "", errors.New("the disk's own folder")
	}
	up := filepath.Dir(rel)
	if up == "." {
		up = ""
	}
	folder, err = d.find(up)
	return folder, rel, filepath.Base(rel), err
}

// Open is part of durable.FS.
func (d *Disk) Open(name string, flag int, perm fs.FileMode) (durable.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return nil, ErrOff
	}
	folder, rel, base, err := d.parent(name)
	if err != nil {
		return nil, err
	}
	n := folder.now[base]
	creates := n == nil && flag&os.O_CREATE != 0
	if creates {
		if err := d.begin(Create, rel); err != nil {
			return nil, err
		}
	}
	truncates := n != nil && flag&os.O_TRUNC != 0
	if truncates {
		if err := d.begin(Truncate, rel); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(name, flag&^os.O_TRUNC, perm)
	if err != nil {
		return nil, err
	}
	if creates {
		n = &node{loaded: true, perm: perm}
		folder.change(entry{base, n})
	}
	if n != nil && !n.dir {
		if err := n.load(name); err != nil {
			f.Close()
			return nil, err
		}
	}
	if truncates {
		if err := f.Truncate(0); err != nil {
			f.Close()
			return nil, err
		}
		n.pending = append(n.pending, change{truncate: true})
	}
	h := &handle{File: f, disk: d, node: n, rel: rel}
	d.handle[h] = true
	return h, nil
}

// Rename is part of durable.FS. Both names must be in one folder.
func (d *Disk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	folder, rel, base, err := d.parent(from)
	if err != nil {
		return err
	}
	other, _, newBase, err := d.parent(to)
	if err != nil {
		return err
	}
	if other != folder {
		return fmt.Errorf("rename %s to %s: powercut knows renames within a folder only", from, to)
	}
	if err := d.begin(Rename, rel); err != nil {
		return err
	}
	n := folder.now[base]
	if n != nil {
		if err := n.loadAll(from); err != nil {
			return err
		}
	}
	if gone := folder.now[newBase]; gone != nil {
		if err := gone.loadAll(to); err != nil {
			return err
		}
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	folder.change(entry{base, nil}, entry{newBase, n})
	return nil
}

// Remove is part of durable.FS.
func (d *Disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	folder, rel, base, err := d.parent(name)
	if err != nil {
		return err
	}
	n := folder.now[base]
	if n == nil {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	if err := d.begin(Remove, rel); err != nil {
		return err
	}
	if err := n.loadAll(name); err != nil {
		return err
	}
	if err := os.Remove(name); err != nil {
		return err
	}
	folder.change(entry{base, nil})
	return nil
}

// Mkdir is part of durable.FS.
func (d *Disk) Mkdir(name string, perm fs.FileMode) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	folder, rel, base, err := d.parent(name)
	if err != nil {
		return err
	}
	if err := d.begin(Mkdir, rel); err != nil {
		return err
	}
	if err := os.Mkdir(name, perm); err != nil {
		return err
	}
	folder.change(entry{base, &node{dir: true, loaded: true, perm: perm, now: map[string]*node{}, synced: map[string]*node{}}})
	return nil
}

// SyncDir is part of durable.FS.
func (d *Disk) SyncDir(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	rel, err := d.rel(name)
	if err != nil {
		// The folder above the disk's own is somebody else's.
		if filepath.Dir(d.root) == filepath.Clean(name) {
			return nil
		}
		return err
	}
	if err := d.begin(SyncDir, rel); err == Skip {
		return nil
	} else if err != nil {
		return err
	}
	n, err := d.find(rel)
	if err != nil {
		return err
	}
	n.apply(len(n.changes))
	return nil
}

// handle is an open file.
type handle struct {
	*os.File
	disk *Disk
	node *node
	rel  string
}

// change does one operation on the file under the disk's lock.
func (h *handle) change(kind Kind, do func() error) error {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if err := h.disk.begin(kind, h.rel); err == Skip {
		return nil
	} else if err != nil {
		return err
	}
	return do()
}

func (h *handle) WriteAt(p []byte, off int64) (n int, err error) {
	err = h.change(Write, func() error {
		n, err = h.write(p, off)
		return err
	})
	var short *Short
	if errors.As(err, &short) && n == 0 && short.N > 0 {
		h.disk.mu.Lock()
		defer h.disk.mu.Unlock()
		n, _ = h.write(p[:min(short.N, len(p))], off)
	}
	return n, err
}

func (h *handle) write(p []byte, off int64) (int, error) {
	n, err := h.File.WriteAt(p, off)
	h.node.pending = append(h.node.pending, change{off: off, data: append([]byte(nil), p[:n]...)})
	return n, err
}

func (h *handle) ReadAt(p []byte, off int64) (int, error) {
	h.disk.mu.Lock()
	dark := h.disk.off
	h.disk.mu.Unlock()
	if dark {
		return 0, ErrOff
	}
	return h.File.ReadAt(p, off)
}

func (h *handle) Truncate(size int64) error {
	return h.change(Truncate, func() error {
		if err := h.File.Truncate(size); err != nil {
			return err
		}
		h.node.pending = append(h.node.pending, change{truncate: true, off: size})
		return nil
	})
}

func (h *handle) Chmod(mode fs.FileMode) error {
	return h.change(Chmod, func() error {
		if err := h.File.Chmod(mode); err != nil {
			return err
		}
		h.node.permNow = &mode
		return nil
	})
}

func (h *handle) Sync() error {
	return h.change(Sync, func() error {
		h.node.flush()
		if h.node.permNow != nil {
			h.node.perm = *h.node.permNow
		}
		return nil
	})
}

func (h *handle) Datasync() error {
	return h.change(Datasync, func() error {
		h.node.flush()
		return nil
	})
}

func (h *handle) Allocate(int64) error {
	return h.change(Allocate, func() error { return nil })
}

func (h *handle) Lock() error { return durable.Lock(h.File) }

func (h *handle) Close() error {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if h.disk.off && !h.disk.handle[h] {
		return ErrOff
	}
	delete(h.disk.handle, h)
	return h.File.Close()
}

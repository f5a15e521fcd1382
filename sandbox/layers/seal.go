package layers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// step is called between any two changes of Seal, Drop and Fold to what is on
// disk, with what comes next. Tests cut there.
var step = func(next string) {}

// Seal ends the view's layer: from then on it never changes. The view it gives
// is what it was, with these taken out: setuid and setgid bits of files, file
// capabilities, user.overlay.* attributes, devices, sockets and pipes. Folders
// that the task moved are written out in full (as clones), so that the layer
// points into no other; what hides nothing of the view below it is taken away,
// so that it hides nothing later either.
//
// The layer must not be mounted. A cut at any point leaves an open layer with
// the same view, and Seal starts over; sealing a sealed layer does nothing.
func Seal(ctx context.Context, v View) error {
	h, err := holdLayer(v.Layer, true)
	if err != nil {
		return err
	}
	defer h.release()
	switch h.state() {
	case StateSealed:
		return nil
	case StateOpen:
	default:
		return fmt.Errorf("layer %s is %s: %w", v.Layer, h.state(), ErrNotOpen)
	}
	if err := seal(ctx, v, h); err != nil {
		return fmt.Errorf("sealing layer %s: %w", v.Layer, err)
	}
	return nil
}

func seal(ctx context.Context, v View, h *hold) error {
	fd := int(h.dir.Fd())
	step("clear tmp")
	if err := removeTree(fd, "tmp"); err != nil {
		return err
	}
	if err := unix.Mkdirat(fd, "tmp", 0o700); err != nil {
		return fmt.Errorf("making tmp: %w", err)
	}
	tmp, err := openFolder(fd, "tmp")
	if err != nil {
		return err
	}
	defer tmp.Close()
	merged, err := openStack(v, true)
	if err != nil {
		return err
	}
	defer merged.close()
	upper := merged.parts[0]
	s := &sealer{ctx: ctx, merged: merged, tmp: tmp}
	below := merged.lowers().root()
	if err := s.folder(upper, below, "."); err != nil {
		return err
	}
	if err := s.attrs(int(upper.Fd()), "."); err != nil {
		return err
	}
	if err := clearFolder(fd, "work"); err != nil { // which an open layer must have
		return err
	}

	step("write changes")
	m, err := describe(ctx, h.dir, merged)
	if err != nil {
		return err
	}
	m.ID, m.State = h.known().ID, StateSealed
	for _, low := range merged.holds {
		if low.known().ID != "" {
			m.Saw = append(m.Saw, low.known().ID)
		}
	}
	step("remove tmp")
	if err := removeTree(fd, "tmp"); err != nil {
		return err
	}
	if m.Bytes, m.Inodes, err = measure(h.dir); err != nil {
		return err
	}
	step("prepare meta")
	if err := prepareMeta(h.dir, m, false); err != nil {
		return err
	}
	step("sync")
	if err := unix.Syncfs(int(upper.Fd())); err != nil {
		return fmt.Errorf("writing the layer to disk: %w", err)
	}
	step("put meta in place")
	return commitMeta(h.dir)
}

type sealer struct {
	ctx    context.Context
	merged *stack
	tmp    *os.File
}

// folder cleans a folder of the upper layer. below is what the sealed layers
// show at its path, nil for nothing.
func (s *sealer) folder(dir *os.File, below *folder, at string) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	if strings.Count(at, "/") >= maxDepth {
		return &PathError{at, fmt.Sprintf("is nested more than %d folders deep", maxDepth)}
	}
	fd := int(dir.Fd())
	var was unix.Stat_t
	if err := unix.Fstat(fd, &was); err != nil {
		return err
	}
	all, err := names(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	changed, whiteouts := false, false
	for _, n := range all {
		c, err := s.entry(fd, n, below, path.Join(at, n))
		if err != nil {
			return err
		}
		changed = changed || c
		st, err := lstatAt(fd, n)
		whiteouts = whiteouts || err == nil && isWhiteout(&st)
	}
	if whiteouts {
		// overlayfs looks for whiteouts in a folder that only one layer has, as
		// this one may be one day, only if this mark is there (ovl_get_inode, since
		// 4.12); else they show as names that can't be opened. The empty value
		// stands for "copied up, origin not known".
		step("mark a folder with whiteouts")
		if err := unix.Fsetxattr(fd, xattrOrigin, nil, 0); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
	}
	if changed { // not by the task, so the time of change is not the task's either
		return setTimes(fd, ".", &was)
	}
	return nil
}

// entry cleans one entry and tells whether the folder's list changed by it.
func (s *sealer) entry(dir int, name string, below *folder, at string) (changed bool, err error) {
	fail := func(err error) (bool, error) {
		var p *PathError
		if err == nil || errors.As(err, &p) {
			return changed, err
		}
		return changed, fmt.Errorf("%s: %w", at, err)
	}
	st, err := lstatAt(dir, name)
	if err != nil {
		return fail(err)
	}
	hides := false // something that the task saw below
	if below != nil {
		if _, hides, err = below.find(name); err != nil {
			return false, err
		}
	}
	switch {
	case isWhiteout(&st):
		if hides {
			return false, nil
		}
		step("remove an idle whiteout")
		return true, unix.Unlinkat(dir, name, 0)
	case isFile(&st):
		if st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
			step("clear setuid")
			// Nothing runs that could put a link here: the sandbox has ended and the
			// folder above the layer is root's alone.
			if err := unix.Fchmodat(dir, name, st.Mode&0o1777, 0); err != nil {
				return fail(err)
			}
		}
		return fail(s.attrs(dir, name))
	case isLink(&st):
		return fail(s.attrs(dir, name))
	case isDir(&st):
		return s.subfolder(dir, name, below, hides, at)
	default:
		step("remove " + kindOf(st.Mode))
		if !hides {
			return true, unix.Unlinkat(dir, name, 0)
		}
		if err := removeTree(int(s.tmp.Fd()), "whiteout"); err != nil {
			return fail(err)
		}
		if err := unix.Mknodat(int(s.tmp.Fd()), "whiteout", unix.S_IFCHR, 0); err != nil {
			return fail(err)
		}
		changed = true
		return fail(unix.Renameat(int(s.tmp.Fd()), "whiteout", dir, name))
	}
}

func (s *sealer) subfolder(dir int, name string, below *folder, hides bool, at string) (changed bool, err error) {
	sub, err := openFolder(dir, name)
	if err != nil {
		return false, fmt.Errorf("%s: %w", at, err)
	}
	defer func() { sub.Close() }()
	_, redirected, err := xattr(int(sub.Fd()), ".", xattrRedirect)
	if err != nil {
		return false, fmt.Errorf("%s: %w", at, err)
	}
	if redirected {
		if err := s.flatten(dir, name, hides, at); err != nil {
			return false, fmt.Errorf("writing out the moved folder %s: %w", at, err)
		}
		changed = true
		sub.Close()
		if sub, err = openFolder(dir, name); err != nil {
			return changed, fmt.Errorf("%s: %w", at, err)
		}
	}
	opaque, err := isOpaque(int(sub.Fd()), ".")
	if err != nil {
		return changed, fmt.Errorf("%s: %w", at, err)
	}
	if opaque && !hides {
		// overlayfs marks every new folder so, to save itself look-ups. It would
		// hide what a task of the same time put into a folder of the same name.
		step("clear an idle opaque mark")
		if err := unix.Fremovexattr(int(sub.Fd()), xattrOpaque); err != nil {
			return changed, fmt.Errorf("%s: %w", at, err)
		}
	}
	if err := s.attrs(int(sub.Fd()), "."); err != nil {
		return changed, fmt.Errorf("%s: %w", at, err)
	}
	var lower *folder
	if below != nil && hides && !opaque {
		if lower, err = below.enter(name); err != nil {
			return changed, err
		}
		defer lower.close()
	}
	return changed, s.folder(sub, lower, at)
}

// flatten replaces a moved folder by a full one: built aside, synced, exchanged.
func (s *sealer) flatten(dir int, name string, hides bool, at string) error {
	f, err := s.merged.walk(at)
	if err != nil {
		return err
	}
	defer f.close()
	tmp := int(s.tmp.Fd())
	step("clear flat")
	if err := removeTree(tmp, "flat"); err != nil {
		return err
	}
	if err := unix.Mkdirat(tmp, "flat", 0o700); err != nil {
		return err
	}
	flat, err := openFolder(tmp, "flat")
	if err != nil {
		return err
	}
	defer flat.Close()
	c := newCopier(s.ctx, func(e entry) bool { return e.part.layer == 0 })
	if err := c.folder(f, flat, flat, "."); err != nil {
		return err
	}
	st, err := lstatAt(dir, name)
	if err != nil {
		return err
	}
	if err := copyAttrs(dir, name, &st, tmp, "flat"); err != nil {
		return err
	}
	if hides {
		if err := unix.Fsetxattr(int(flat.Fd()), xattrOpaque, []byte("y"), 0); err != nil {
			return err
		}
	}
	if err := unix.Syncfs(tmp); err != nil {
		return err
	}
	step("exchange a moved folder")
	if err := unix.Renameat2(tmp, "flat", dir, name, unix.RENAME_EXCHANGE); err != nil {
		return err
	}
	// XFS sets a folder's time when the folder above it changes (xfs_cross_rename).
	if err := setTimes(dir, name, &st); err != nil {
		return err
	}
	step("remove the moved folder's old form")
	return removeTree(tmp, "flat")
}

// attrs takes away the extended attributes that a sealed layer must not have,
// and makes sure that none points into another layer.
func (s *sealer) attrs(dir int, name string) error {
	all, err := xattrs(dir, name)
	if err != nil {
		return err
	}
	for _, a := range all {
		if a == xattrOrigin {
			v, _, err := xattr(dir, name, a)
			if err != nil {
				return err
			}
			if len(v) == 0 {
				continue // the mark of a folder with whiteouts
			}
		}
		switch {
		case a == xattrOpaque:
			continue
		case a == xattrRedirect, a == xattrMetacopy:
			return fmt.Errorf("still points into another layer (%s)", a)
		case a == xattrCaps, strings.HasPrefix(a, "trusted."), strings.HasPrefix(a, "user.overlay."):
			step("remove " + a)
			if err := unix.Lremovexattr(at(dir, name), a); err != nil && err != unix.ENODATA {
				return fmt.Errorf("removing %s: %w", a, err)
			}
		}
	}
	return nil
}

// Sealed tells whether the layer is sealed, or folded into its base.
func Sealed(dir string) bool {
	s, _ := StateOf(dir)
	return s == StateSealed || s == StateApplied
}

package layers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// FoldAt is how many live layers a workspace may have before the oldest are to
// be folded into its base.
const FoldAt = 200

// xattrFolded on a base's folder holds the ids of the layers that its last Fold
// took in, 8 letters each. It comes into being together with the new base, so it
// is what tells, after a cut, which layers are in it.
const xattrFolded = "trusted.gurtos.folded"

// folding lets one Fold run at a time.
var folding sync.Mutex

// Fold makes a new base out of the old one and its oldest layers (given newest
// first, as in a View) and marks these as applied. The view stays what it was,
// with and without them. Whatever is mounted keeps the old base, which is deleted
// when the last such mount closes.
//
// The new base is built aside and put in place by one exchange of names. A cut
// at any point leaves the old or the new one; RecoverBase finishes it.
func Fold(ctx context.Context, base string, lowers []string) error {
	folding.Lock()
	defer folding.Unlock()
	if len(lowers) > MaxLowers {
		return tooMany(len(lowers))
	}
	if len(lowers) == 0 {
		return nil
	}
	if err := fold(ctx, base, lowers); err != nil {
		return fmt.Errorf("folding %d layers into %s: %w", len(lowers), filepath.Base(base), err)
	}
	return nil
}

func fold(ctx context.Context, base string, lowers []string) error {
	// The marks of the Fold before must be there before its record goes.
	if err := markFolded(base, lowers); err != nil {
		return err
	}
	s, err := openStack(View{Base: base, Lowers: lowers}, false)
	if err != nil {
		return err
	}
	defer s.close()
	parent, err := openDir(filepath.Dir(base))
	if err != nil {
		return err
	}
	defer parent.Close()
	fd, name := int(parent.Fd()), filepath.Base(base)
	tmp := name + "~fold"
	step("clear the new base")
	if err := removeTree(fd, tmp); err != nil {
		return err
	}
	if err := buildBase(ctx, s, fd, tmp); err != nil {
		return errors.Join(err, removeTree(fd, tmp))
	}

	// The point of no return.
	step("exchange the bases")
	if err := unix.Renameat2(fd, tmp, fd, name, unix.RENAME_EXCHANGE); err != nil {
		return errors.Join(err, removeTree(fd, tmp))
	}
	old := fmt.Sprintf("%s~old.%s", name, newID())
	step("rename the old base")
	if err := unix.Renameat(fd, tmp, fd, old); err != nil {
		return err
	}
	if err := syncDir(parent); err != nil {
		return err
	}
	step("mark applied")
	if err := markFolded(base, lowers); err != nil {
		return err
	}
	step("delete the old base")
	s.close() // our own reading
	s.parts, s.holds = nil, nil
	path := filepath.Join(filepath.Dir(base), old)
	if whenLast(path, func() { removePath(path) }) {
		return nil
	}
	return removePath(path)
}

// buildBase writes what the stack shows into a new folder. Files that are in the
// old base already are linked, since neither base is ever written to; those of
// the layers are cloned.
func buildBase(ctx context.Context, s *stack, fd int, name string) error {
	if err := unix.Mkdirat(fd, name, 0o700); err != nil {
		return err
	}
	to, err := openFolder(fd, name)
	if err != nil {
		return err
	}
	defer to.Close()
	last := len(s.parts) - 1
	c := newCopier(ctx, func(e entry) bool { return e.part.layer == last })
	if err := c.folder(s.root(), to, to, "."); err != nil {
		return err
	}
	was := s.parts[last]
	var st unix.Stat_t
	if err := unix.Fstat(int(was.Fd()), &st); err != nil {
		return err
	}
	if err := copyAttrs(int(was.Fd()), ".", &st, int(to.Fd()), "."); err != nil {
		return err
	}
	var ids strings.Builder
	for _, h := range s.holds[:last] {
		ids.WriteString(h.known().ID)
	}
	if err := unix.Fsetxattr(int(to.Fd()), xattrFolded, []byte(ids.String()), 0); err != nil {
		return fmt.Errorf("recording the layers: %w", err)
	}
	if err := unix.Syncfs(int(to.Fd())); err != nil {
		return fmt.Errorf("writing the new base to disk: %w", err)
	}
	return nil
}

// foldedIDs reads which layers the base's last Fold took in.
func foldedIDs(base string) ([]string, error) {
	dir, err := openDir(base)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	b := make([]byte, 8*(MaxLowers+1))
	n, err := unix.Lgetxattr(at(int(dir.Fd()), "."), xattrFolded, b)
	if err == unix.ENODATA || err == unix.EOPNOTSUPP {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading which layers %s holds: %w", filepath.Base(base), err)
	}
	var ids []string
	for b = b[:n]; len(b) >= 8; b = b[8:] {
		ids = append(ids, string(b[:8]))
	}
	return ids, nil
}

// markFolded marks those of the layers as applied that the base holds.
func markFolded(base string, layers []string) error {
	ids, err := foldedIDs(base)
	if err != nil || len(ids) == 0 {
		return err
	}
	for _, l := range layers {
		h, err := holdLayer(l, false)
		if errors.Is(err, ErrInUse) || errors.Is(err, ErrGone) {
			continue // an open one, or one that was dropped after all
		}
		if err != nil {
			return err
		}
		if h.state() == StateSealed && slices.Contains(ids, h.known().ID) {
			m := h.known()
			m.State = StateApplied
			err = h.setMeta(m)
		}
		h.release()
		if err != nil {
			return err
		}
	}
	return nil
}

// RecoverBase finishes what a cut left of a Fold: it removes what is neither the
// old nor the new base any more, and marks the layers that the base holds. It
// gives those of the layers that are applied, which can't be undone any more. It
// is to be called for every workspace before anything is mounted.
func RecoverBase(base string, layers []string) (applied []string, err error) {
	parent, err := openDirPath(filepath.Dir(base))
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	all, err := names(parent)
	if err != nil {
		return nil, err
	}
	name := filepath.Base(base)
	for _, n := range all {
		if n == name+"~fold" || strings.HasPrefix(n, name+"~old.") {
			if err := removeTree(int(parent.Fd()), n); err != nil {
				return nil, fmt.Errorf("workspace %s: %w", name, err)
			}
		}
	}
	if err := markFolded(base, layers); err != nil {
		return nil, fmt.Errorf("workspace %s: %w", name, err)
	}
	for _, l := range layers {
		if s, err := StateOf(l); err == nil && s == StateApplied {
			applied = append(applied, l)
		}
	}
	return applied, nil
}

func openDirPath(path string) (*os.File, error) {
	dir, err := openDir(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return openDirAt(dir, ".")
}

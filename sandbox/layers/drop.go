package layers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Drop deletes a layer. Mounts and trees that read it keep it alive: then it is
// marked, and deleted when the last of them closes, or by Recover at the next
// start. A layer that is being written to is ErrInUse. A layer that is not there
// is no error.
func Drop(dir string) error {
	for {
		err := deleteLayer(dir)
		if errors.Is(err, ErrGone) {
			return nil
		}
		if errors.Is(err, ErrInUse) && isRead(dir) {
			if err = mark(dir); err == nil && whenLast(dir, func() { deleteLayer(dir) }) {
				return nil
			}
			if err == nil {
				continue // the last reader left meanwhile
			}
		}
		if err != nil {
			return fmt.Errorf("dropping %w", err)
		}
		return nil
	}
}

// deleteLayer deletes a layer that nobody has. The rename is what counts: what
// is left of it after a cut is deleted by Recover.
func deleteLayer(dir string) error {
	h, err := holdLayer(dir, true)
	if err != nil {
		return err
	}
	defer h.release()
	step("rename dropped")
	if err := os.Rename(dir, dir+"~gone"); err != nil {
		return fmt.Errorf("layer %s: %w", dir, err)
	}
	if err := syncPath(filepath.Dir(dir)); err != nil {
		return fmt.Errorf("layer %s: %w", dir, err)
	}
	step("delete dropped")
	if err := removePath(dir + "~gone"); err != nil {
		return fmt.Errorf("layer %s: %w", dir, err)
	}
	return nil
}

// mark records that a layer that is being read is to be deleted.
func mark(dir string) error {
	h, err := holdLayer(dir, false)
	if err != nil {
		return err
	}
	defer h.release()
	m := h.known()
	m.State = StateDropped
	step("mark dropped")
	return h.setMeta(m)
}

// removePath deletes a folder of ours by its path.
func removePath(path string) error {
	parent, err := openDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer parent.Close()
	return removeTree(int(parent.Fd()), filepath.Base(path))
}

// whenLast has f run when the last reader of this process lets the folder go. It
// tells false, and f never runs, when there is none.
func whenLast(dir string, f func()) bool {
	h, unlock := reader(dir)
	defer unlock()
	if h == nil {
		return false
	}
	h.last = f
	return true
}

func isRead(dir string) bool {
	h, unlock := reader(dir)
	defer unlock()
	return h != nil
}

// reader finds the hold by which this process reads a folder, with the registry
// locked.
func reader(dir string) (h *hold, unlock func()) {
	holds.Lock()
	var st unix.Stat_t
	if unix.Lstat(dir, &st) == nil {
		h = holds.read[inode{st.Dev, st.Ino}]
	}
	return h, holds.Unlock
}

// Recover finishes what a cut left of Create, Seal or Drop, and tells the
// layer's state, "" when there is none. It is to be called for every layer
// folder before anything else is done with it.
func Recover(dir string) (State, error) {
	for _, left := range []string{"~new", "~gone"} {
		if err := removePath(dir + left); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("layer %s: %w", dir, err)
		}
	}
	s, err := StateOf(dir)
	if errors.Is(err, ErrGone) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	switch s {
	case StateDropped:
		return "", Drop(dir)
	case StateOpen:
		return s, removePath(filepath.Join(dir, "tmp"))
	}
	return s, nil
}

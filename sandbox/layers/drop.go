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
	d, m, err := openLayer(dir)
	if errors.Is(err, ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	if m.State != StateDropped {
		step("mark dropped")
		h, err := holdLayer(dir, false) // fails when a writer has it
		if err != nil {
			return err
		}
		m.State = StateDropped
		err = h.setMeta(m)
		h.release()
		if err != nil {
			return fmt.Errorf("dropping layer %s: %w", dir, err)
		}
	}
	if err := deleteDropped(dir); err != nil && !errors.Is(err, ErrInUse) {
		return fmt.Errorf("dropping layer %s: %w", dir, err)
	}
	return nil
}

// deleteDropped deletes a marked layer unless someone reads it, in which case
// the last reader will do it.
func deleteDropped(dir string) error {
	if whenLast(dir, func() { deleteDropped(dir) }) {
		return ErrInUse
	}
	h, err := holdLayer(dir, true)
	if err != nil {
		return err
	}
	defer h.release()
	step("rename dropped")
	if err := os.Rename(dir, dir+"~gone"); err != nil {
		return err
	}
	if err := syncPath(filepath.Dir(dir)); err != nil {
		return err
	}
	step("delete dropped")
	return removePath(dir + "~gone")
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

// whenLast has f run when the last reader of this process lets the layer go. It
// tells false, and f never runs, when there is none.
func whenLast(dir string, f func()) bool {
	var st unix.Stat_t
	if unix.Lstat(dir, &st) != nil {
		return false
	}
	holds.Lock()
	defer holds.Unlock()
	h := holds.read[inode{st.Dev, st.Ino}]
	if h == nil {
		return false
	}
	h.last = f
	return true
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

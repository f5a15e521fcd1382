package layers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Probe tries in a folder all that layers need of its file system and of the
// kernel. The error is a sentence for whoever starts the box.
func (m *Mounter) Probe(dir string) error {
	if err := m.probe(dir); err != nil {
		return fmt.Errorf("%s can't hold the layers of tasks: %w; it must be on XFS or ext4, not on an overlay or network file system, and the kernel at least 6.12", dir, err)
	}
	return nil
}

func (m *Mounter) probe(dir string) (err error) {
	tmp := filepath.Join(dir, "probe~")
	if err := removePath(tmp); err != nil { // a killed boxd's
		return err
	}
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removePath(tmp)) }()
	base := filepath.Join(tmp, "base")
	if err := os.MkdirAll(filepath.Join(base, "a"), 0o755); err != nil {
		return err
	}
	v := View{Base: base, Layer: filepath.Join(tmp, "layer")}
	if err := Create(v.Layer); err != nil {
		return err
	}
	users, err := NewUserns(IDMap{0, 0}, IDMap{Canonical, UID(0)})
	if err != nil {
		return err
	}
	defer users.Close()
	mt, err := m.Mount(v, users)
	if err != nil {
		return err
	}
	defer mt.Close()
	root, err := openDirAt(mt.File, ".")
	if err != nil {
		return err
	}
	defer root.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(root.Fd()), &st); err != nil {
		return err
	}
	if int(st.Uid) != UID(0) {
		return fmt.Errorf("owners aren't mapped (the view belongs to %d)", st.Uid)
	}
	if err := unix.Renameat(int(root.Fd()), "a", int(root.Fd()), "b"); err != nil {
		return fmt.Errorf("moving a folder: %w", err)
	}
	return nil
}

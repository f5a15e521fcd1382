package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace makes name hold data with the given mode. After a power cut at any
// moment name holds either what it held before or all of data. Two callers must
// not replace the same name at once.
func Replace(fsys FS, name string, data []byte, perm fs.FileMode) error {
	if err := replace(fsys, name, data, perm); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func replace(fsys FS, name string, data []byte, perm fs.FileMode) error {
	next := name + ".new"
	// A leftover of a crash may have another mode or be a link.
	if err := fsys.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := fsys.Open(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	if err := fill(f, data, perm); err != nil {
		f.Close()
		fsys.Remove(next)
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := fsys.Rename(next, name); err != nil {
		fsys.Remove(next)
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))
}

func fill(f File, data []byte, perm fs.FileMode) error {
	if err := f.Chmod(perm); err != nil { // whatever the umask took away
		return err
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		return err
	}
	return f.Sync()
}

// Remove removes name and returns once that is durable. A name that is not there
// is no error.
func Remove(fsys FS, name string) error {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))
}

// MkdirAll makes a folder and those above it that are missing, each durable.
func MkdirAll(fsys FS, name string, perm fs.FileMode) error {
	if info, err := os.Stat(name); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("%s is not a folder", name)
		}
		// A crash may have come between its making and the sync.
		return fsys.SyncDir(filepath.Dir(name))
	}
	up := filepath.Dir(name)
	if up == name {
		return fmt.Errorf("%s: no such folder", name)
	}
	if err := MkdirAll(fsys, up, perm); err != nil {
		return err
	}
	if err := fsys.Mkdir(name, perm); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return fsys.SyncDir(up)
}

// ReadFile reads all of a file that is known to be small.
func ReadFile(fsys FS, name string) ([]byte, error) {
	f, err := fsys.Open(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(f, 0, info.Size()))
}

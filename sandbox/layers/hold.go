package layers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// A hold is a lock on a layer or a base: one writer, or any number of readers.
// The lock is a flock, so it also holds against another process and is gone when
// this one dies; the registry shares one descriptor among this process's readers.
type hold struct {
	dir  *os.File // the layer's or base's folder, O_PATH
	path string
	lock *os.File
	key  inode

	// guarded by holds.Mutex
	meta    meta // of a layer
	readers int
	last    func() // runs when the last reader lets go
}

type inode struct{ dev, ino uint64 }

// holds is the registry of what this process reads, by the folder's inode.
var holds = struct {
	sync.Mutex
	read map[inode]*hold
}{read: map[inode]*hold{}}

// known is the layer's meta: a fold may write it while others read the layer.
func (h *hold) known() meta {
	holds.Lock()
	defer holds.Unlock()
	return h.meta
}

func (h *hold) state() State { return h.known().State }

// readable tells why the layer can't be a lower one of a view, nil if it can.
func (h *hold) readable() error {
	switch h.state() {
	case StateSealed, StateApplied:
		return nil
	case StateDropped:
		return fmt.Errorf("layer %s: %w", h.path, ErrGone)
	}
	return fmt.Errorf("layer %s: %w", h.path, ErrNotSealed)
}

// setMeta writes the layer's meta; whoever reads the layer in this process sees it.
func (h *hold) setMeta(m meta) error {
	if err := writeMeta(h.dir, m); err != nil {
		return err
	}
	holds.Lock()
	defer holds.Unlock()
	h.meta = m
	if r := holds.read[h.key]; r != nil {
		r.meta = m
	}
	return nil
}

// holdLayer locks a layer for writing (alone) or for reading.
func holdLayer(path string, write bool) (*hold, error) {
	dir, err := openDir(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("layer %s: %w", path, ErrGone)
	}
	if err != nil {
		return nil, fmt.Errorf("layer %s: %w", path, err)
	}
	h, err := take(dir, path, write, true)
	if err != nil && !write {
		// It may be on its way out just now.
		if s, serr := StateOf(path); s == StateDropped || errors.Is(serr, ErrGone) {
			err = ErrGone
		}
	}
	if err != nil {
		return nil, fmt.Errorf("layer %s: %w", path, err)
	}
	return h, nil
}

// holdBase locks a base folder for reading.
func holdBase(path string) (*hold, error) {
	dir, err := openDir(path)
	if err != nil {
		return nil, fmt.Errorf("workspace %s: %w", filepath.Base(path), err)
	}
	h, err := take(dir, path, false, false)
	if err != nil {
		return nil, fmt.Errorf("workspace %s: %w", filepath.Base(path), err)
	}
	return h, nil
}

// take owns dir from here on. A layer is locked by its lock file, a base, which
// holds nothing but the user's own files, by its folder.
func take(dir *os.File, path string, write, layer bool) (*hold, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		dir.Close()
		return nil, err
	}
	key := inode{st.Dev, st.Ino}
	holds.Lock()
	defer holds.Unlock()
	if h := holds.read[key]; h != nil && !write {
		dir.Close()
		h.readers++
		return h, nil
	}
	name, flags := ".", unix.O_DIRECTORY
	if layer {
		name, flags = "lock", 0
	}
	lock, err := openBeneath(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|flags, 0)
	if err != nil {
		dir.Close()
		return nil, err
	}
	how := unix.LOCK_SH
	if write {
		how = unix.LOCK_EX
	}
	if err := unix.Flock(int(lock.Fd()), how|unix.LOCK_NB); err != nil {
		lock.Close()
		dir.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrInUse
		}
		return nil, fmt.Errorf("locking: %w", err)
	}
	h := &hold{dir: dir, path: path, lock: lock, key: key}
	if layer {
		if h.meta, err = readMeta(dir); err != nil {
			lock.Close()
			dir.Close()
			return nil, err
		}
	}
	if !write {
		h.readers = 1
		holds.read[key] = h
	}
	return h, nil
}

// release gives the lock back.
func (h *hold) release() {
	holds.Lock()
	var last func()
	if h.readers > 0 {
		if h.readers--; h.readers > 0 {
			holds.Unlock()
			return
		}
		delete(holds.read, h.key)
		last = h.last
	}
	// Said, and not left to Close: a child that is just being born holds a copy of
	// the descriptor until its exec, and the lock with it.
	unix.Flock(int(h.lock.Fd()), unix.LOCK_UN)
	h.lock.Close()
	h.dir.Close()
	holds.Unlock()
	if last != nil {
		last()
	}
}

// openDir opens a folder that must not be a symlink itself.
func openDir(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		var st unix.Stat_t
		if unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return nil, fmt.Errorf("not a folder but %s", kindOf(st.Mode))
		}
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// openDirAt opens a folder in a folder for reading.
func openDirAt(dir *os.File, name string) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

func kindOf(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "a file"
	case unix.S_IFDIR:
		return "a folder"
	case unix.S_IFLNK:
		return "a symlink"
	case unix.S_IFIFO:
		return "a pipe"
	case unix.S_IFSOCK:
		return "a socket"
	}
	return "a device"
}

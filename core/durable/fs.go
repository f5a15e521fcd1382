package durable

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// FS is the part of a file system that changes things. Reading a folder or a
// file's mode goes through package os; what changes durable state goes through
// here, so that a test can forget it.
type FS interface {
	// Open opens name with the flags of os.OpenFile. A file that it creates is
	// there after a power cut only once its folder was synced.
	Open(name string, flag int, perm fs.FileMode) (File, error)
	// Rename replaces to by from. Durable once the folder was synced.
	Rename(from, to string) error
	// Remove removes a file or an empty folder. Durable once the folder was synced.
	Remove(name string) error
	// Mkdir makes a folder. Durable once the folder above was synced.
	Mkdir(name string, perm fs.FileMode) error
	// SyncDir makes the entries of a folder durable.
	SyncDir(name string) error
	// Boot names the time since the power came on. What was written in it can still
	// be read, synced or not.
	Boot() string
}

// File is an open file. It has no position; reads and writes name theirs.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer

	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
	Chmod(mode fs.FileMode) error

	// Sync makes contents, size and mode durable.
	Sync() error
	// Datasync makes contents and size durable.
	Datasync() error
	// Allocate reserves blocks for the bytes below end without changing the size.
	Allocate(end int64) error
	// Lock takes the exclusive lock on the file, or returns ErrLocked at once. It
	// is held until the file is closed.
	Lock() error
}

// ErrLocked says that somebody else holds the lock of a file.
var ErrLocked = errors.New("locked by another process")

// Disk is the machine's own file system.
var Disk FS = disk{}

type disk struct{}

func (disk) Open(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return file{f}, nil
}

func (disk) Rename(from, to string) error              { return os.Rename(from, to) }
func (disk) Remove(name string) error                  { return os.Remove(name) }
func (disk) Mkdir(name string, perm fs.FileMode) error { return os.Mkdir(name, perm) }

func (disk) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !readOnly(d) {
		return fmt.Errorf("sync folder %s: %w", name, err)
	}
	return nil
}

// readOnly says whether f lies in a file system that is never written: EROFS, a
// box's root, has no fsync (EINVAL).
func readOnly(f *os.File) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(int(f.Fd()), &st) == nil && st.Flags&unix.ST_RDONLY != 0
}

func (disk) Boot() string { return boot() }

// boot is the kernel's id of this boot (random(4)). Without one each start of the
// program counts as a boot.
var boot = sync.OnceValue(func() string {
	if id, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		return string(id)
	}
	return rand.Text()
})

type file struct{ *os.File }

func (f file) Datasync() error {
	return f.control("fdatasync", unix.Fdatasync)
}

func (f file) Allocate(end int64) error {
	err := f.control("fallocate", func(fd int) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, end)
	})
	// tmpfs, NFS and the like can't; then a full disk shows at the write.
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return nil
	}
	return err
}

func (f file) Lock() error { return Lock(f.File) }

// Lock takes the exclusive lock on f, or returns ErrLocked at once. Closing f, or
// the end of the process, gives it back.
func Lock(f *os.File) error {
	// A lock of the open file, not of the process (fcntl(2), open file description
	// locks): a second Open in the same process is refused too.
	err := file{f}.control("lock", func(fd int) error {
		return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart})
	})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%s: %w", f.Name(), ErrLocked)
	}
	return err
}

// Locked says whether somebody else holds the lock of f, and takes nothing.
func Locked(f *os.File) (bool, error) {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	err := file{f}.control("lock", func(fd int) error {
		return unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &lock)
	})
	return err == nil && lock.Type != unix.F_UNLCK, err
}

// control runs a system call on the descriptor, again when a signal interrupts it.
func (f file) control(what string, call func(fd int) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := c.Control(func(fd uintptr) {
		for {
			if failed = call(int(fd)); failed != unix.EINTR {
				return
			}
		}
	}); err != nil {
		return err
	}
	if failed != nil {
		return &fs.PathError{Op: what, Path: f.Name(), Err: failed}
	}
	return nil
}

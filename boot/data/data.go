package data

import (
	"context"
	"errors"
	"fmt"
	"log"

	"golang.org/x/sys/unix"

	"gurtos/boot/disk"
	"gurtos/boot/proc"
)

// Below this much free space people are told.
const lowSpace = 256 << 20

const (
	flags   = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOATIME
	options = "prjquota"
)

// dirtyJournal is xfs_repair's exit code for a journal that must be replayed by
// a mount first, which has just failed.
const dirtyJournal = 2

// A Mounter mounts. Its functions are those of the machine, but in tests.
type Mounter struct {
	Log   *log.Logger
	Mount func(source, target, fstype string, flags uintptr, data string) error
	Run   func(ctx context.Context, name string, args ...string) error
}

// New makes a mounter of this machine.
func New(log *log.Logger) *Mounter { return &Mounter{Log: log, Mount: unix.Mount, Run: proc.Run} }

// A Shape is how the data disk came up.
type Shape struct {
	ReadOnly bool
	Repaired bool
	Reason   string // a sentence when it is not as it should be
}

// Attach mounts p on dir, read-write if that can be.
func (m *Mounter) Attach(ctx context.Context, p disk.Part, dir string) (Shape, error) {
	err := m.mount(p, dir, 0, options)
	if err == nil {
		return Shape{}, nil
	}
	switch {
	case errors.Is(err, unix.EROFS), errors.Is(err, unix.EACCES):
		return m.readOnly(p, dir, Shape{Reason: fmt.Sprintf("The data disk %s can't be written to, so the box does no work.", p.Disk)})
	case damaged(err):
		return m.repair(ctx, p, dir, err)
	}
	return Shape{}, fmt.Errorf("mount the data disk %s: %w", p.Disk, err)
}

// damaged are the errors by which XFS says that its structure is wrong:
// EFSCORRUPTED and EFSBADCRC.
func damaged(err error) bool { return errors.Is(err, unix.EUCLEAN) || errors.Is(err, unix.EBADMSG) }

func (m *Mounter) mount(p disk.Part, dir string, extra uintptr, data string) error {
	return m.Mount(p.Path(), dir, "xfs", flags|extra, data)
}

func (m *Mounter) repair(ctx context.Context, p disk.Part, dir string, why error) (Shape, error) {
	m.Log.Printf("the data disk %s is damaged (%v), repairing", p.Disk, why)
	err := m.Run(ctx, "xfs_repair", p.Path())
	switch {
	case proc.ExitCode(err) == dirtyJournal:
		return m.readOnly(p, dir, Shape{Reason: fmt.Sprintf("The data disk %s is damaged and its journal can't be replayed. It is shown read-only and nothing on it was changed: copy it before anything else.", p.Disk)})
	case err != nil:
		return m.readOnly(p, dir, Shape{Reason: fmt.Sprintf("The data disk %s is damaged and could not be repaired: %v.", p.Disk, err)})
	}
	if err := m.mount(p, dir, 0, options); err != nil {
		return m.readOnly(p, dir, Shape{Repaired: true, Reason: fmt.Sprintf("The data disk %s is damaged, and still so after a repair: %v.", p.Disk, err)})
	}
	return Shape{Repaired: true, Reason: fmt.Sprintf("The data disk %s was damaged and has been repaired: files without a name any more are in lost+found.", p.Disk)}, nil
}

// readOnly mounts without replaying the journal, which would write.
func (m *Mounter) readOnly(p disk.Part, dir string, s Shape) (Shape, error) {
	s.ReadOnly = true
	if err := m.mount(p, dir, unix.MS_RDONLY, "norecovery"); err != nil {
		return s, fmt.Errorf("%s Nor can it be read: %w", s.Reason, err)
	}
	return s, nil
}

// Space is the size of the file system on dir and what is free, in bytes, and a
// sentence when that is little.
func Space(dir string) (size, free int64, reason string, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, "", fmt.Errorf("look at the space on %s: %w", dir, err)
	}
	size, free = int64(st.Blocks)*st.Bsize, int64(st.Bavail)*st.Bsize
	return size, free, low(size, free), nil
}

// low says nothing that changes while it stays as it is: screen and log tell a reason
// whenever it is another one.
func low(size, free int64) string {
	bound := min(lowSpace, size/20)
	switch {
	case free < 1<<20:
		return "The data disk is full: delete what is no longer needed."
	case free < bound:
		return fmt.Sprintf("The data disk is nearly full: less than %s of %s are free.", disk.Bytes(bound), disk.Bytes(size))
	}
	return ""
}

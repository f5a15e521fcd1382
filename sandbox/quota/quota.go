package quota

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/sandbox/layers"
)

// Margin is how far the hard limit lies above the mark at which a sandbox is
// to be ended, in bytes, so that it is ended by us with a sentence and not by an
// error in the middle of its work.
const Margin = 64 << 20

// bytesPerInode gives the limit of files: one for so many bytes of the cap.
const bytesPerInode = 4096

// Quota caps folders on one file system.
type Quota struct {
	root     *os.File
	path     string
	enforced bool
	weaker   string

	mu   sync.Mutex // guards the choice of a project id and what follows
	used map[uint32]bool
}

// Open looks what the file system of a folder can do.
func Open(dir string) (*Quota, error) {
	root, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("disk caps: %w", err)
	}
	q := &Quota{root: root, path: dir, used: map[uint32]bool{}}
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(root.Fd()), &st); err != nil {
		root.Close()
		return nil, fmt.Errorf("disk caps: %s: %w", dir, err)
	}
	why := "is not on XFS"
	if st.Type == unix.XFS_SUPER_MAGIC {
		on, err := enforcing(root)
		switch {
		case err != nil:
			why = fmt.Sprintf("is on an XFS whose quotas can't be asked for (%v)", err)
		case !on:
			why = "is on an XFS that is mounted without prjquota"
		default:
			q.enforced = true
		}
	}
	if !q.enforced {
		q.weaker = fmt.Sprintf("Disk caps are measured now and then and not held by the kernel, since %s %s: a task that writes fast can pass its cap before it is stopped.", dir, why)
	}
	return q, nil
}

// Close frees the Quota. Limits that were set stay until Release.
func (q *Quota) Close() error { return q.root.Close() }

// Enforced tells whether the kernel holds the caps.
func (q *Quota) Enforced() bool { return q.enforced }

// Weaker says in a sentence what can't be held here, "" if all is.
func (q *Quota) Weaker() string { return q.weaker }

// A Cap is the limit of one sandbox's folders.
type Cap struct {
	q       *Quota
	project uint32 // 0 when it is measured
	bytes   int64
	inodes  int64
	dirs    []string
}

// Limit caps the folders together: the mark at bytes, the hard limit Margin
// above it, and files in proportion. Folders that were capped before (a task
// that goes on after a restart) keep their project. Call it before anything is
// mounted from the folders; the slot only spreads the project ids.
func (q *Quota) Limit(slot int, bytes int64, dirs ...string) (*Cap, error) {
	if bytes <= 0 {
		return nil, fmt.Errorf("a disk cap of %d bytes", bytes)
	}
	c := &Cap{q: q, bytes: bytes, inodes: max(10_000, bytes/bytesPerInode), dirs: dirs}
	if !q.enforced {
		return c, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	id, err := q.choose(slot, dirs)
	if err != nil {
		return nil, fmt.Errorf("disk cap: %w", err)
	}
	q.used[id] = true
	c.project = id
	// The limits first: between the two the folders would be free.
	err = setLimits(q.root, id, limits{
		bytesSoft: bytes, bytesHard: bytes + Margin, inodesSoft: c.inodes, inodesHard: c.inodes + c.inodes/64,
	})
	for _, d := range dirs {
		if err == nil {
			err = assign(d, id)
		}
	}
	if err != nil {
		delete(q.used, id)
		return nil, fmt.Errorf("disk cap: %w", errors.Join(err, setLimits(q.root, id, limits{})))
	}
	return c, nil
}

// choose takes the project that the folders have, or else one without a file.
// Layers keep their project as long as they are on disk, since symlinks and
// whiteouts can't be given another: so an id is free when the kernel counts
// nothing in it, and no other record of ids can be wrong.
func (q *Quota) choose(slot int, dirs []string) (uint32, error) {
	for _, d := range dirs {
		id, err := projectOf(d)
		if err != nil {
			return 0, err
		}
		if id != 0 {
			return id, nil
		}
	}
	for id := uint32(layers.UID(slot)); id < 1<<31; id += layers.Slots {
		if q.used[id] {
			continue
		}
		u, err := usage(q.root, id)
		if err != nil {
			return 0, err
		}
		if u.inodes == 0 && u.bytes == 0 {
			return id, nil
		}
	}
	return 0, errors.New("all project ids are in use")
}

// Used gives what the folders take, in bytes and files.
func (c *Cap) Used() (bytes, inodes int64, err error) {
	if c.project != 0 {
		u, err := usage(c.q.root, c.project)
		return u.bytes, u.inodes, err
	}
	for _, d := range c.dirs {
		b, n, err := layers.Measure(d)
		if err != nil {
			return 0, 0, err
		}
		bytes, inodes = bytes+b, inodes+n
	}
	return bytes, inodes, nil
}

// Over tells whether the mark is reached. Folders that are nested too deep to be
// measured are over it.
func (c *Cap) Over() (bool, error) {
	bytes, inodes, err := c.Used()
	if errors.As(err, new(*layers.PathError)) {
		return true, nil
	}
	return bytes >= c.bytes || inodes >= c.inodes, err
}

// Watch returns true once the mark is reached, false when ctx ends first, with the
// error of the last look if it had one: one that fails, such as for want of
// descriptors, does not end the watch. The kernel's own notice (VFS_DQUOT over netlink) may be lost, and the margin above
// the mark holds a fast writer, so the count, which costs a system call, is
// looked at regularly.
func (c *Cap) Watch(ctx context.Context) (bool, error) {
	every := 250 * time.Millisecond
	for {
		start := time.Now()
		over, err := c.Over()
		if over {
			return true, nil
		}
		wait := every
		if c.project == 0 { // at most a tenth of the time goes into measuring
			wait = max(time.Second, 10*time.Since(start))
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return false, err
		case <-t.C:
		}
	}
}

// Release takes the limits away. The folders stay in their project; a Seal of
// their layers must come after, since XFS limits root too.
func (c *Cap) Release() error {
	if c.project == 0 {
		return nil
	}
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	delete(c.q.used, c.project)
	if err := setLimits(c.q.root, c.project, limits{}); err != nil {
		return fmt.Errorf("disk cap: %w", err)
	}
	return nil
}

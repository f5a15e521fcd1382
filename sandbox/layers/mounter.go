package layers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// MaxLowers is the most layers that a view may stack over its base. The kernel's
// own limit is 500 (OVL_MAX_STACK).
const MaxLowers = 400

// init keeps the main goroutine on the main thread, so that no goroutine that
// changes its thread's namespaces is ever there: that thread can't end, and
// /proc/self shows its namespaces to the whole process.
func init() { runtime.LockOSThread() }

// A Mounter makes overlay mounts out of views. It owns one OS thread in a mount
// namespace of its own that holds an empty tmpfs and, only while a view is being
// built, the view's layers at short paths. So no path of the host gets into
// mountinfo, and nothing that the Mounter did pins a file system of the host.
type Mounter struct {
	work chan func()
	done chan struct{}

	mu    sync.Mutex // guards what follows
	users map[int]*os.File
}

// redirectMax is where the kernel says how long the old path of a moved folder
// may be, in bytes; 256 by default, and a rename that passes it is EXDEV.
const redirectMax = "/sys/module/overlay/parameters/redirect_max"

// NewMounter starts the thread. Close ends it.
func NewMounter() (*Mounter, error) {
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC) // loads the module
	if err != nil {
		return nil, fmt.Errorf("this kernel has no overlayfs: %w", err)
	}
	unix.Close(fs)
	if f, err := os.OpenFile(redirectMax, os.O_WRONLY, 0); err == nil {
		// Where it can't be set, programs see EXDEV and copy, as between disks.
		fmt.Fprint(f, unix.PathMax-1)
		f.Close()
	}
	m := &Mounter{work: make(chan func()), done: make(chan struct{}), users: map[int]*os.File{}}
	up := make(chan error)
	go func() {
		defer close(m.done)
		runtime.LockOSThread() // never unlocked: the thread dies with the goroutine, and its namespace with it
		err := enterEmptyNamespace()
		up <- err
		if err != nil {
			return
		}
		for f := range m.work {
			f()
		}
	}()
	if err := <-up; err != nil {
		return nil, fmt.Errorf("making the namespace in which layers are mounted: %w", err)
	}
	return m, nil
}

// Close ends the thread and frees the cached namespaces. Mounts that were handed
// out stay.
func (m *Mounter) Close() error {
	close(m.work)
	<-m.done
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.users {
		f.Close()
	}
	m.users = map[int]*os.File{}
	return nil
}

// Userns gives the user namespace of a slot: it maps root to root and Canonical
// to UID(slot). The Mounter keeps and closes it.
func (m *Mounter) Userns(slot int) (*os.File, error) {
	if slot < 0 || slot >= Slots {
		return nil, fmt.Errorf("slot %d: slots are 0 to %d", slot, Slots-1)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.users[slot]; f != nil {
		return f, nil
	}
	f, err := NewUserns(IDMap{0, 0}, IDMap{Canonical, UID(slot)})
	if err != nil {
		return nil, fmt.Errorf("slot %d: %w", slot, err)
	}
	m.users[slot] = f
	return f, nil
}

// A Mount is a mounted view. As long as it is not closed, its upper layer is
// locked against a second user and its lower layers against removal.
type Mount struct {
	File *os.File // the detached mount, opened with O_PATH; to be put in place with move_mount

	upper *os.File // upper folder, nil for a read-only view
	holds []*hold
	once  sync.Once
}

// Mount builds the view's overlay with the nosuid and nodev flags. With a user
// namespace every layer is mapped through it; with nil the files show as they
// are on disk. The view is read-only when it has no Layer.
//
// The File may be closed as soon as it was moved. Close is for when nothing uses
// the mount any more.
func (m *Mounter) Mount(v View, userns *os.File) (*Mount, error) {
	mt := &Mount{}
	if err := m.mount(mt, v, userns); err != nil {
		mt.Close()
		return nil, err
	}
	return mt, nil
}

func (m *Mounter) mount(mt *Mount, v View, users *os.File) error {
	if len(v.Lowers) > MaxLowers {
		return tooMany(len(v.Lowers))
	}
	b := &builder{mt: mt, users: users}
	defer b.close()
	if v.Layer != "" {
		if err := b.top(v.Layer); err != nil {
			return err
		}
	}
	for _, l := range v.Lowers {
		if err := b.lower(l); err != nil {
			return err
		}
	}
	if err := b.bottom(v); err != nil {
		return err
	}
	if v.Layer == "" && len(b.clones) == 1 {
		// overlayfs wants two lower folders where there is no upper one; a base
		// holds no whiteouts, so it can be seen as it is.
		fd := b.clones[0]
		b.clones = nil
		mt.File = os.NewFile(uintptr(fd), "view")
		return unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH,
			&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV})
	}
	fd, err := m.overlay(b.clones, v.Layer != "")
	if err != nil {
		return fmt.Errorf("mounting a view of %d layers: %w", len(v.Lowers), err)
	}
	mt.File = os.NewFile(uintptr(fd), "view")
	return nil
}

// A builder gathers the mounts of a view's layers, newest first, and their locks.
type builder struct {
	mt     *Mount
	users  *os.File
	clones []int
	dev    uint64 // the file system that all of the view is on
}

func (b *builder) close() {
	for _, fd := range b.clones {
		unix.Close(fd)
	}
}

// top takes the layer that is written to: its whole folder, since overlayfs wants
// upper and work in one mount.
func (b *builder) top(layer string) error {
	h, err := holdLayer(layer, true)
	if err != nil {
		return err
	}
	b.mt.holds = append(b.mt.holds, h)
	if s := h.state(); s != StateOpen {
		return fmt.Errorf("layer %s is %s: %w", layer, s, ErrNotOpen)
	}
	if b.mt.upper, err = openDirAt(h.dir, "upper"); err != nil {
		return fmt.Errorf("layer %s: %w", layer, err)
	}
	return b.clone(h.dir, "layer "+layer)
}

func (b *builder) lower(layer string) error {
	h, err := holdLayer(layer, false)
	if err != nil {
		return err
	}
	b.mt.holds = append(b.mt.holds, h)
	if err := h.readable(); err != nil {
		return err
	}
	upper, err := openDirAt(h.dir, "upper")
	if err != nil {
		return fmt.Errorf("layer %s: %w", layer, err)
	}
	defer upper.Close()
	return b.clone(upper, "layer "+layer)
}

// bottom takes the base. Where there is none, an empty folder that every layer
// carries stands for it, so that all of the view is on one file system (overlayfs
// would else give files and folders different device numbers).
func (b *builder) bottom(v View) error {
	if v.Base != "" {
		h, err := holdBase(v.Base)
		if err != nil {
			return err
		}
		b.mt.holds = append(b.mt.holds, h)
		return b.clone(h.dir, "workspace "+filepath.Base(v.Base))
	}
	if len(b.mt.holds) == 0 {
		return errors.New("a view of nothing: neither base nor layers")
	}
	h := b.mt.holds[len(b.mt.holds)-1]
	empty, err := openDirAt(h.dir, "empty")
	if err != nil {
		return fmt.Errorf("layer %s: %w", h.path, err)
	}
	defer empty.Close()
	return b.clone(empty, "layer "+h.path)
}

func (b *builder) clone(dir *os.File, name string) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if b.dev != 0 && st.Dev != b.dev {
		return fmt.Errorf("%s is on another file system than the layers above it", name)
	}
	b.dev = st.Dev
	fd, err := cloneMount(dir, b.users)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	b.clones = append(b.clones, fd)
	return nil
}

// overlay merges the mounts, newest first. When writable is set the first one is
// a layer's folder with upper and work in it.
func (m *Mounter) overlay(clones []int, writable bool) (fd int, err error) {
	ready := make(chan struct{})
	m.work <- func() {
		defer close(ready)
		fd, err = buildOverlay(clones, writable)
	}
	<-ready
	return fd, err
}

// Sync writes what the layer holds to disk.
func (mt *Mount) Sync() error {
	if mt.upper == nil {
		return nil
	}
	return unix.Syncfs(int(mt.upper.Fd()))
}

// Close frees the locks of the layers and the mount, if it was not moved.
func (mt *Mount) Close() error {
	mt.once.Do(func() {
		if mt.File != nil {
			mt.File.Close()
		}
		if mt.upper != nil {
			mt.upper.Close()
		}
		for _, h := range mt.holds {
			h.release()
		}
	})
	return nil
}

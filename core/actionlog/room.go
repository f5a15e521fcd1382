package actionlog

import (
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"gurtos/core/durable"
)

const reserveName = "log.reserve"

// reserve is log.reserve: blocks of the disk that nobody else can take, given up
// when there are no others, so that answers and undos can still be logged.
type reserve struct {
	fs   durable.FS
	name string
	size int64

	mu   sync.Mutex
	file durable.File // nil when it is given up or there is none
}

func openReserve(fsys durable.FS, dir string, size int64) *reserve {
	r := &reserve{fs: fsys, name: filepath.Join(dir, reserveName), size: size}
	r.take()
	return r
}

// take sets the blocks aside, and says whether they are.
func (r *reserve) take() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file != nil || r.size <= 0 {
		return true
	}
	f, err := r.fs.Open(r.name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false
	}
	if err := f.Allocate(r.size); err != nil {
		// A part of it would be no reserve.
		f.Close()
		r.fs.Remove(r.name)
		return false
	}
	r.file = f
	return true
}

// release gives the blocks back to the disk, and says whether there were any.
func (r *reserve) release() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return false
	}
	r.file.Close()
	r.file = nil
	return r.fs.Remove(r.name) == nil
}

func (r *reserve) held() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.file != nil || r.size <= 0
}

func (r *reserve) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file != nil {
		r.file.Close()
		r.file = nil
	}
}

// Room is how much the log can still grow.
type Room struct {
	Free    int64 // bytes that the disk has left, without the reserve
	Reserve int64 // bytes that are set aside for the log, 0 once they are given up
	Full    bool  // no new work should be taken
}

// Room says whether the disk is full: before an append can fail, since the reserve
// is still there. The log gives the reserve up by itself when an append finds no
// other room. Once a disk was full it counts as full until twice as much is free
// and the reserve is back. Cheap enough to be asked at each task.
func (l *Log) Room() (Room, error) {
	free, err := l.opt.Free()
	if err != nil {
		return Room{}, err
	}
	l.fullMu.Lock()
	defer l.fullMu.Unlock()
	need := l.opt.Low
	if l.full || !l.reserve.held() {
		need *= 2
		if free >= need+max(l.reserve.size, 0) || l.reserve.held() && free >= need {
			l.full = !l.reserve.take()
		}
	} else if free < need {
		l.full = true
	}
	room := Room{Free: free, Full: l.full || !l.reserve.held()}
	if l.reserve.held() {
		room.Reserve = max(l.reserve.size, 0)
	}
	return room, nil
}

// ReleaseReserve gives the reserve back to the disk, for what must be written
// besides the log.
func (l *Log) ReleaseReserve() { l.reserve.release() }

// free is what statfs says root may still use in dir.
func free(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(st.Bavail) * st.Bsize, nil
}

package cli

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// When a save is told.
const (
	still   = 50 * time.Millisecond  // without a change, and it is over
	noticed = 200 * time.Millisecond // at the latest, after the first change
)

// watchFolder tells once after each save of files below a folder, until ctx ends. What
// editors do (a new file moved over the old one, several writes) is one save.
func watchFolder(ctx context.Context, folder string) (<-chan error, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", folder, err)
	}
	f := os.NewFile(uintptr(fd), "inotify")
	w := &folderWatch{fd: fd, dirs: map[int32]string{}}
	if err := w.add(folder); err != nil {
		f.Close()
		return nil, fmt.Errorf("watching %s: %w", folder, err)
	}
	context.AfterFunc(ctx, func() { f.Close() })
	changed, saved := make(chan error), make(chan error)
	go w.read(ctx, f, changed)
	go settle(ctx, changed, saved)
	return saved, nil
}

// read tells of each change until f is closed.
func (w *folderWatch) read(ctx context.Context, f *os.File, changed chan<- error) {
	buf := make([]byte, 64<<10)
	for {
		n, err := f.Read(buf)
		if err != nil {
			return // closed: ctx ended
		}
		if hit, err := w.take(buf[:n]); hit || err != nil {
			send(ctx, changed, err)
		}
	}
}

// settle tells of changes once, when they are over. After an error nothing is told.
func settle(ctx context.Context, changed <-chan error, saved chan<- error) {
	rest := time.NewTimer(time.Hour)
	defer rest.Stop()
	rest.Stop()
	var first time.Time
	for {
		select {
		case err := <-changed:
			if err != nil {
				send(ctx, saved, err)
				return
			}
			if first.IsZero() {
				first = time.Now()
			}
			rest.Reset(max(min(still, noticed-time.Since(first)), 0))
		case <-rest.C:
			first = time.Time{}
			send(ctx, saved, nil)
		case <-ctx.Done():
			return
		}
	}
}

func send(ctx context.Context, to chan<- error, err error) {
	select {
	case to <- err:
	case <-ctx.Done():
	}
}

// folderWatch is the folders below one, by inotify's numbers.
type folderWatch struct {
	fd   int
	dirs map[int32]string
}

const watched = unix.IN_CLOSE_WRITE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_CREATE | unix.IN_DELETE | unix.IN_ONLYDIR

// add watches a folder and those below it.
func (w *folderWatch) add(dir string) error {
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		switch {
		case errors.Is(err, os.ErrNotExist):
			return nil // gone again
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		case path != dir && ignored(d.Name()):
			return filepath.SkipDir
		}
		wd, err := unix.InotifyAddWatch(w.fd, path, watched)
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		if err != nil {
			return err
		}
		w.dirs[int32(wd)] = path
		return nil
	})
}

// ignored are files that are none of the app's: hidden ones, packages, what editors
// leave.
func ignored(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") || name == "node_modules" || name == "4913" // vim tries with it whether it may write
}

// take reads events and says whether a file of the app changed.
func (w *folderWatch) take(buf []byte) (hit bool, err error) {
	for len(buf) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(buf[0:]))
		mask, size := binary.NativeEndian.Uint32(buf[4:]), binary.NativeEndian.Uint32(buf[12:])
		name := strings.TrimRight(string(buf[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+size]), "\x00")
		buf = buf[unix.SizeofInotifyEvent+size:]
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			hit = true
		case mask&unix.IN_IGNORED != 0:
			delete(w.dirs, wd)
		case ignored(name):
		case mask&unix.IN_ISDIR != 0 && mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
			hit = true // files may be in it already
			err = errors.Join(err, w.add(filepath.Join(w.dirs[wd], name)))
		case mask&unix.IN_CREATE != 0 && mask&unix.IN_ISDIR == 0: // its end is told by CLOSE_WRITE
		default:
			hit = true
		}
	}
	return hit, err
}

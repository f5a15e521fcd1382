package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"gurtos/core/app/declare"
	"gurtos/sandbox/layers"
)

// Limits of a folder that becomes a workspace.
const (
	maxCopied     = 1 << 30 // bytes
	maxCopiedFile = 50_000
	maxCopiedDeep = 64 // folders in one another

	maxWorkspaces   = 100     // that an app makes until boxd starts anew
	maxAllCopied    = 4 << 30 // bytes in all of them
	maxAllCopiedOne = 200_000 // files and folders
)

func exists(p string) bool {
	_, err := os.Lstat(p)
	return err == nil
}

// folder finds a folder of the app's own, which from names as its process sees it: in
// its tree, of which the files are given as they were written, or in its store.
func (h *host) folder(from string) (root, below string, err error) {
	from = path.Clean(from)
	for _, place := range []struct{ inside, outside string }{
		{"/opt/app/tracks/" + h.a.name, filepath.Join(h.r.opt.Dir, h.a.name)},
		{"/work", filepath.Join(h.r.dir(), h.a.name, "store", "upper")},
	} {
		if from == place.inside {
			return place.outside, ".", nil
		}
		if rest, ok := strings.CutPrefix(from, place.inside+"/"); ok {
			return place.outside, rest, nil
		}
	}
	return "", "", fmt.Errorf("%s is no folder of the app's own: one beside its track.ts or in its store is needed", declare.Clip(from))
}

// made is what an app made workspaces of.
type made struct {
	mu     sync.Mutex
	spaces int
	bytes  int64
	files  int
}

// fill counts another workspace of what fn copies, unless there was too much already.
func (m *made) fill(fn func() (bytes int64, files int, err error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.spaces >= maxWorkspaces || m.bytes >= maxAllCopied || m.files >= maxAllCopiedOne {
		return fmt.Errorf("an app makes at most %d workspaces of at most %d GB and %d files together until boxd starts anew", maxWorkspaces, maxAllCopied>>30, maxAllCopiedOne)
	}
	bytes, files, err := fn()
	m.bytes += bytes // what failed was written too
	m.files += files
	if err == nil {
		m.spaces++
	}
	return err
}

// copyTree copies a folder beneath root into the workspace's folder. What is read may
// be written to meanwhile: nothing is followed out of root, and a link is copied as one.
// It gives what it wrote, whatever comes of it.
func copyTree(ctx context.Context, root, below, to string) (bytes int64, files int, err error) {
	in, err := os.OpenRoot(root)
	if err != nil {
		return 0, 0, fmt.Errorf("the app's folder: %w", err)
	}
	defer in.Close()
	out, err := os.OpenRoot(to)
	if err != nil {
		return 0, 0, err
	}
	defer out.Close()
	if info, err := in.Stat(below); err != nil || !info.IsDir() {
		return 0, 0, fmt.Errorf("there is no folder %s", declare.Clip(below))
	}
	c := copier{in: in, out: out}
	err = c.folder(ctx, below, ".", 1)
	return c.bytes, c.files, err
}

type copier struct {
	in, out *os.Root
	bytes   int64
	files   int
}

func (c *copier) folder(ctx context.Context, from, to string, depth int) error {
	if depth > maxCopiedDeep {
		return fmt.Errorf("the folder has more than %d folders in one another", maxCopiedDeep)
	}
	dir, err := c.in.Open(from)
	if err != nil {
		return err
	}
	list, err := dir.ReadDir(-1)
	dir.Close()
	if err != nil {
		return err
	}
	for _, d := range list {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if c.files++; c.files > maxCopiedFile {
			return fmt.Errorf("the folder has more than %d files", maxCopiedFile)
		}
		src, dst := path.Join(from, d.Name()), path.Join(to, d.Name())
		switch d.Type() {
		case fs.ModeDir:
			if to == "." && d.Name() == "node_modules" {
				continue
			}
			if err := c.out.Mkdir(dst, 0o755); err != nil {
				return err
			}
			if err := c.folder(ctx, src, dst, depth+1); err != nil {
				return err
			}
		case fs.ModeSymlink:
			target, err := c.in.Readlink(src)
			if err != nil {
				return err
			}
			if err := c.out.Symlink(target, dst); err != nil {
				return err
			}
		case 0:
			if err := c.file(src, dst); err != nil {
				return err
			}
		default:
			continue // a socket or pipe is nothing to work on
		}
		if err := c.out.Lchown(dst, layers.Canonical, layers.Canonical); err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) file(from, to string) error {
	in, err := c.in.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	out, err := c.out.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	n, err := io.Copy(out, io.LimitReader(in, maxCopied-c.bytes+1))
	if c.bytes += n; c.bytes > maxCopied {
		return fmt.Errorf("the folder holds more than %d MB", maxCopied>>20)
	}
	return errors.Join(err, out.Chmod(0o644|info.Mode()&0o111), out.Sync())
}

package layers

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Usage gives the disk space and the inodes that a layer takes, all of its
// folder counted. Blocks that a clone shares with another file count in full.
func Usage(dir string) (bytes, inodes int64, err error) {
	d, m, err := openLayer(dir)
	if err != nil {
		return 0, 0, err
	}
	defer d.Close()
	if m.Inodes > 0 {
		return m.Bytes, m.Inodes, nil
	}
	if bytes, inodes, err = measure(d); err != nil {
		return 0, 0, fmt.Errorf("layer %s: %w", dir, err)
	}
	return bytes, inodes, nil
}

// Measure adds up any folder as Usage does, also while a sandbox changes it. What
// is nested too deep to be sealed is a PathError.
func Measure(dir string) (bytes, inodes int64, err error) {
	d, err := openDir(dir)
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", dir, err)
	}
	defer d.Close()
	return measure(d)
}

func measure(dir *os.File) (bytes, inodes int64, err error) {
	top, err := openDirAt(dir, ".")
	if err != nil {
		return 0, 0, err
	}
	defer top.Close()
	seen := map[inode]bool{} // of files with several names
	var walk func(d *os.File, depth int) error
	walk = func(d *os.File, depth int) error {
		all, err := names(d)
		if err != nil {
			return err
		}
		fd := int(d.Fd())
		for _, n := range all {
			st, err := lstatAt(fd, n)
			if err == unix.ENOENT {
				continue // a running task removed it meanwhile
			}
			if err != nil {
				return err
			}
			if st.Nlink > 1 && !isDir(&st) {
				key := inode{st.Dev, st.Ino}
				if seen[key] {
					continue
				}
				seen[key] = true
			}
			inodes++
			bytes += st.Blocks * 512
			if !isDir(&st) {
				continue
			}
			if depth > maxDepth {
				return &PathError{n, fmt.Sprintf("is nested more than %d folders deep", maxDepth)}
			}
			sub, err := openFolder(fd, n)
			if err == unix.ENOENT || err == unix.ENOTDIR {
				continue
			}
			if err != nil {
				return err
			}
			err = walk(sub, depth+1)
			sub.Close()
			if err != nil {
				return err
			}
		}
		return nil
	}
	err = walk(top, 0)
	return bytes, inodes, err
}

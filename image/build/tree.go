package build

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gurtos/image"
)

// clean removes what a recipe drops and leaves no setuid bit, no device and no socket.
func clean(dir string, r image.Root) error {
	drop, keep := image.Match(r.Drop), image.Match(r.Keep)
	var empty []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path := strings.TrimPrefix(p, dir)
		switch {
		case path == "":
			return nil
		case drop.Has(path) && !keep.Has(path) && d.IsDir():
			empty = append(empty, p) // may hold something that is kept
			return nil
		case drop.Has(path) && !keep.Has(path):
			return os.Remove(p)
		case d.Type()&(fs.ModeDevice|fs.ModeCharDevice|fs.ModeSocket|fs.ModeNamedPipe) != 0:
			return os.Remove(p)
		case d.Type()&fs.ModeSymlink != 0:
			return nil
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		if m := st.Mode(); m&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
			return os.Chmod(p, m.Perm()|m&fs.ModeSticky)
		}
		return nil
	})
	for i := len(empty) - 1; i >= 0; i-- { // what still holds something stays
		os.Remove(empty[i])
	}
	return err
}

// lay puts a recipe's own folders, links and files in place.
func lay(dir string, r image.Root) error {
	for _, p := range r.Dirs {
		if err := os.MkdirAll(dir+p, 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	for p, to := range r.Links {
		if err := replace(dir+p, func(name string) error { return os.Symlink(to, name) }); err != nil {
			return err
		}
	}
	for p, text := range r.Files {
		if err := replace(dir+p, func(name string) error { return os.WriteFile(name, []byte(text), 0o644) }); err != nil {
			return err
		}
	}
	return nil
}

func replace(name string, with func(string) error) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(name); err != nil {
		return err
	}
	return with(name)
}

// copyFile copies a file with its mode.
func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, st.Mode().Perm())
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return fmt.Errorf("copying %s: %w", from, err)
	}
	return out.Close()
}

// copyTree copies a folder, but what skip names by its path in it.
func copyTree(to, from string, skip func(path string) bool) error {
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path := strings.TrimPrefix(strings.TrimPrefix(p, from), "/")
		switch {
		case path != "" && skip != nil && skip(path) && d.IsDir():
			return filepath.SkipDir
		case path != "" && skip != nil && skip(path):
			return nil
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, path), 0o755)
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return os.Symlink(target, filepath.Join(to, path))
		case d.Type().IsRegular():
			return copyFile(filepath.Join(to, path), p)
		}
		return fmt.Errorf("copying %s: neither file, folder nor link", p)
	})
}

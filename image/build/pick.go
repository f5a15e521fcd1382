package build

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gurtos/image"
)

// picker takes files out of an unpacked root into another, at the same paths, and remembers which.
type picker struct {
	from, to string
	taken    map[string]bool // by path in from, with no link in it
}

// libraries are where Debian's loader looks.
var libraries = []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"}

// program takes a program and the libraries that it needs.
func (p *picker) program(path string) error {
	real, err := p.file(path)
	if err != nil {
		return err
	}
	f, err := elf.Open(filepath.Join(p.from, real))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer f.Close()
	needs, err := f.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("%s: reading which libraries it needs: %w", path, err)
	}
	if s := f.Section(".interp"); s != nil {
		name, err := s.Data()
		if err != nil {
			return err
		}
		// The kernel opens the loader at this very place.
		if loader := "/usr" + strings.TrimRight(string(name), "\x00"); !p.taken[loader] {
			if err := p.program(loader); err != nil {
				return err
			}
		}
	}
	for _, lib := range needs {
		if err := p.library(lib, path); err != nil {
			return err
		}
	}
	return nil
}

func (p *picker) library(name, by string) error {
	for _, dir := range libraries {
		path := dir + "/" + name
		if p.taken[path] {
			return nil
		}
		if _, err := os.Stat(filepath.Join(p.from, path)); err == nil {
			return p.program(path)
		}
	}
	return fmt.Errorf("%s needs %s, which none of the recipe's packages has", by, name)
}

// file takes one file. A link is taken as what it leads to, under the link's own name.
func (p *picker) file(path string) (real string, err error) {
	real = path
	for range 8 {
		target, err := os.Readlink(filepath.Join(p.from, real))
		if err != nil {
			break
		}
		if !strings.HasPrefix(target, "/") {
			target = filepath.Join(filepath.Dir(real), target)
		}
		real = target
	}
	p.taken[path], p.taken[real] = true, true
	return real, copyFile(filepath.Join(p.to, path), filepath.Join(p.from, real))
}

// match takes all files that fit the patterns, links as links.
func (p *picker) match(patterns []string) error {
	want := image.Match(patterns)
	return filepath.WalkDir(p.from, func(name string, d fs.DirEntry, err error) error {
		path := strings.TrimPrefix(name, p.from)
		switch {
		case err != nil:
			return err
		case d.IsDir() || !want.Has(path):
			return nil
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			p.taken[path] = true
			return replace(filepath.Join(p.to, path), func(to string) error { return os.Symlink(target, to) })
		case !d.Type().IsRegular():
			return errors.New(path + ": neither a file nor a link")
		}
		p.taken[path] = true
		return copyFile(filepath.Join(p.to, path), name)
	})
}

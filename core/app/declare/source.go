package declare

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Limits of an app's folder and of the packages that it brings.
const (
	maxFiles    = 2000
	maxFolder   = 64 << 20 // bytes
	maxSource   = 2 << 20  // bytes of one .ts file
	maxPackages = 512 << 20
	maxPackaged = 50_000 // files of all packages
)

// Source is an app's folder as it was read, and where its packages lie.
type Source struct {
	App   string
	Dir   string
	Files []File // of the app, by path
	Packs []Pack // by their place in the tree
	Hash  string // of all that the built tree is made from
}

// File is one of an app's folder.
type File struct {
	Path string // beneath the folder, with / between folders
	Text []byte // of a .ts file; others are copied from where they lie
}

// Pack is a package that the app depends on, itself or by another one.
type Pack struct {
	Place string // beneath the tree, such as node_modules/left-pad
	Dir   string
}

// Script says whether a file has types to be taken out.
func (f File) Script() bool {
	switch path.Ext(f.Path) {
	case ".ts", ".mts", ".cts":
		return !strings.HasSuffix(f.Path, ".d.ts")
	}
	return false
}

// ReadSource reads an app's folder, dir. The hash takes in what stamp says besides.
func ReadSource(app, dir, stamp string) (*Source, error) {
	s := &Source{App: app, Dir: dir}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%s\n", app, stamp)
	var size int64
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && d.Name() == "node_modules", d.IsDir() && strings.HasPrefix(d.Name(), ".") && rel != ".":
			return fs.SkipDir
		case d.IsDir() || strings.HasPrefix(d.Name(), ".") || rel == "demo.ts" || strings.HasSuffix(rel, ".test.ts"):
			return nil // the demo and tests are for people who work on the app
		case d.Type()&fs.ModeSymlink != 0:
			return fmt.Errorf("%s is a link: an app's folder holds its files themselves", rel)
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is neither a file nor a folder", rel)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		f := File{Path: filepath.ToSlash(rel)}
		if size += info.Size(); size > maxFolder || len(s.Files) >= maxFiles {
			return fmt.Errorf("its folder holds more than %d files or %d MB", maxFiles, maxFolder>>20)
		}
		return s.add(f, p, info, sum)
	})
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(s.Files, func(f File) bool { return f.Path == "track.ts" }) {
		return nil, errors.New("there is no track.ts in its folder")
	}
	if err := s.findPackages(sum); err != nil {
		return nil, err
	}
	s.Hash = hex.EncodeToString(sum.Sum(nil))[:24]
	return s, nil
}

// add takes one file in.
func (s *Source) add(f File, at string, info fs.FileInfo, sum io.Writer) error {
	in, err := os.Open(at)
	if err != nil {
		return err
	}
	defer in.Close()
	own := sha256.New()
	to := io.Writer(own)
	var text strings.Builder
	if f.Script() {
		if info.Size() > maxSource {
			return fmt.Errorf("%s is larger than %d MB", f.Path, maxSource>>20)
		}
		to = io.MultiWriter(own, &text)
	}
	if _, err := io.Copy(to, io.LimitReader(in, maxFolder)); err != nil {
		return err
	}
	if f.Script() {
		f.Text = []byte(text.String())
	}
	fmt.Fprintf(sum, "%s %x\n", f.Path, own.Sum(nil))
	s.Files = append(s.Files, f)
	return nil
}

// manifestOf is what npm reads of a package.
type npmPackage struct {
	Name         string            `json:"name"`
	Version      string            `json:"version"`
	Dependencies map[string]string `json:"dependencies"`
	Optional     map[string]string `json:"optionalDependencies"`
	Peers        map[string]string `json:"peerDependencies"`
}

func readPackage(dir string) (p npmPackage, err error) {
	b, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return p, fmt.Errorf("package.json can't be read: %w", err)
	}
	return p, nil
}

// findPackages finds what the app's package.json names, and what that needs, the way
// Node would: in node_modules of the folder and of those above, up to the one that
// holds tracks/.
func (s *Source) findPackages(sum io.Writer) error {
	own, err := readPackage(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	home := path.Join("tracks", s.App)
	found := map[string]bool{}
	type want struct {
		place, name, by string
		must            bool
	}
	var open []want
	needs := func(place, by string, p npmPackage) {
		for i, list := range []map[string]string{p.Dependencies, p.Optional, p.Peers} {
			for name := range list {
				open = append(open, want{place, name, by, i == 0})
			}
		}
	}
	needs(home, "package.json", own)
	for len(open) > 0 {
		w := open[0]
		open = open[1:]
		place, dir := s.lookFor(w.place, w.name)
		if dir == "" {
			if w.must {
				return fmt.Errorf("the package %s, which %s names, is not installed: run npm install in the source tree", w.name, w.by)
			}
			continue
		}
		if found[place] {
			continue
		}
		found[place] = true
		p, err := readPackage(dir)
		if err != nil {
			return fmt.Errorf("the package %s: %w", w.name, err)
		}
		s.Packs = append(s.Packs, Pack{place, dir})
		needs(place, w.name, p)
	}
	slices.SortFunc(s.Packs, func(a, b Pack) int { return cmp.Compare(a.Place, b.Place) })
	files, size := 0, int64(0)
	for _, p := range s.Packs {
		err := p.Walk(func(rel string, info fs.FileInfo) error {
			files++
			if size += info.Size(); size > maxPackages || files > maxPackaged {
				return fmt.Errorf("its packages hold more than %d files or %d MB", maxPackaged, maxPackages>>20)
			}
			fmt.Fprintf(sum, "%s/%s %d %d\n", p.Place, rel, info.Size(), info.ModTime().UnixNano())
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// lookFor finds a package as seen from a place in the tree.
func (s *Source) lookFor(from, name string) (place, dir string) {
	if !filepath.IsLocal(name) || strings.HasPrefix(name, ".") {
		return "", ""
	}
	root := filepath.Dir(filepath.Dir(s.Dir))
	for at := from; ; at = path.Dir(at) {
		if path.Base(at) != "node_modules" {
			place = path.Join(at, "node_modules", name)
			dir = filepath.Join(root, filepath.FromSlash(place))
			if at == path.Join("tracks", s.App) || strings.HasPrefix(at, path.Join("tracks", s.App)+"/") {
				// The app's folder may lie elsewhere than tracks/<app> of its name.
				dir = filepath.Join(s.Dir, filepath.FromSlash(strings.TrimPrefix(place, path.Join("tracks", s.App))))
			}
			if real, err := filepath.EvalSymlinks(dir); err == nil {
				if _, err := os.Stat(filepath.Join(real, "package.json")); err == nil {
					return place, real
				}
			}
		}
		if at == "." {
			return "", ""
		}
	}
}

// Walk calls fn for each file of the package itself.
func (p Pack) Walk(fn func(rel string, info fs.FileInfo) error) error {
	return filepath.WalkDir(p.Dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "node_modules" {
			return fs.SkipDir // what lies there is a package of its own
		}
		if !d.Type().IsRegular() {
			return nil
		}
		rel, err := filepath.Rel(p.Dir, at)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return fn(filepath.ToSlash(rel), info)
	})
}

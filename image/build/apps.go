package build

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"gurtos/image/layout"
	"gurtos/image/sbom"
)

// sdk are the files that apps import of the box.
var sdk = []string{"core/contract.ts", "core/triggers.ts"}

// notShipped are apps that show how apps are made, and stay in the source tree.
var notShipped = []string{"example"}

// appTree is what the system image holds of apps: their folders in tracks/, the SDK in core/ beside it, and the npm packages that they need where Node
// finds them. The box never runs npm.
type appTree struct {
	files map[string]string // where it comes from, by its path beneath layout.Apps
	parts []sbom.Part       // the packages
	hash  string
}

// apps lists the files of apps. Their packages must be in node_modules.
func (b *Build) apps() (t appTree, err error) {
	t.files = map[string]string{}
	for _, f := range sdk {
		t.files[f] = filepath.Join(b.Root, f)
	}
	names, err := os.ReadDir(filepath.Join(b.Root, "tracks"))
	if err != nil {
		return t, err
	}
	for _, n := range names {
		if !n.IsDir() || n.Name() == "node_modules" || slices.Contains(notShipped, n.Name()) {
			continue
		}
		place := path.Join("tracks", n.Name())
		if err := t.add(b.Root, place, ownFile); err != nil {
			return t, err
		}
		if err := t.needs(b.Root, place); err != nil {
			return t, fmt.Errorf("the app %s: %w", n.Name(), err)
		}
	}
	t.hash, err = t.sum()
	return t, err
}

// ownFile leaves out what is for people who work on an app.
func ownFile(name string) bool { return name != "demo.ts" && !strings.HasSuffix(name, ".test.ts") }

// add takes in the files of a folder, but for packages that lie in it.
func (t *appTree) add(root, place string, want func(name string) bool) error {
	return filepath.WalkDir(filepath.Join(root, place), func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir() || !want(d.Name()) || strings.HasPrefix(d.Name(), "."):
			return nil
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is a link or no file: an app holds its files themselves", p)
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		t.files[filepath.ToSlash(rel)] = p
		return nil
	})
}

// npmPackage is what is read of a package.json.
type npmPackage struct {
	Name, Version string
	Dependencies  map[string]string
	Optional      map[string]string `json:"optionalDependencies"`
	Peers         map[string]string `json:"peerDependencies"`
}

// needs takes in the packages that the folder at place depends on, and those that they do.
func (t *appTree) needs(root, place string) error {
	var p npmPackage
	b, err := os.ReadFile(filepath.Join(root, place, "package.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil {
		return fmt.Errorf("%s/package.json: %w", place, err)
	}
	for i, list := range []map[string]string{p.Dependencies, p.Optional, p.Peers} {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			at := find(root, place, name)
			if at == "" && i == 0 {
				return fmt.Errorf("the package %s, which %s names, is not in node_modules: run npm install", name, path.Join(place, "package.json"))
			}
			if _, has := t.files[path.Join(at, "package.json")]; at == "" || has {
				continue
			}
			if err := t.add(root, at, func(string) bool { return true }); err != nil {
				return err
			}
			if err := t.needs(root, at); err != nil {
				return err
			}
			var dep npmPackage
			if b, err = os.ReadFile(filepath.Join(root, at, "package.json")); err == nil {
				err = json.Unmarshal(b, &dep)
			}
			if err != nil {
				return err
			}
			t.parts = append(t.parts, sbom.NPM(dep.Name, dep.Version))
		}
	}
	return nil
}

// find looks for a package as Node does: beside place, and in the folders above.
func find(root, place, name string) string {
	for at := place; ; at = path.Dir(at) {
		if path.Base(at) != "node_modules" {
			if _, err := os.Stat(filepath.Join(root, at, "node_modules", name, "package.json")); err == nil {
				return path.Join(at, "node_modules", name)
			}
		}
		if at == "." {
			return ""
		}
	}
}

func (t *appTree) sum() (string, error) {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(t.files)) {
		h, err := hashFile(t.files[name])
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %s\n", name, h)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// lay puts them into a system root.
func (t *appTree) lay(root string) error {
	for name, from := range t.files {
		to := root + layout.Apps + "/" + name
		if err := copyFile(to, from); err != nil {
			return err
		}
		if err := os.Chmod(to, 0o644); err != nil { // nothing in it is run but by Node
			return err
		}
	}
	return nil
}

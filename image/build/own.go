package build

import (
	"cmp"
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
)

// workspace is what package-lock.json and package.json both say of an app.
type workspace struct {
	Dependencies, DevDependencies, OptionalDependencies, PeerDependencies map[string]string
}

// sets are the packages that a workspace asks for, by name and range.
func (w workspace) sets() []map[string]string {
	return []map[string]string{w.Dependencies, w.DevDependencies, w.OptionalDependencies, w.PeerDependencies}
}

// workspaces are the apps that package-lock.json knows, as tracks/<name>. own says whether there are others in tracks/: npm ci refuses a tree with those,
// though an app that one makes needs no packages. One that asks for packages which are not pinned is an error that says what to run.
func (b *Build) workspaces() (known []string, own bool, err error) {
	text, err := os.ReadFile(filepath.Join(b.Root, "package-lock.json"))
	if err != nil {
		return nil, false, err
	}
	var lock struct{ Packages map[string]workspace }
	if err := json.Unmarshal(text, &lock); err != nil {
		return nil, false, fmt.Errorf("package-lock.json: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(b.Root, "tracks", "*", "package.json"))
	if err != nil {
		return nil, false, err
	}
	for _, file := range files {
		place := path.Join("tracks", filepath.Base(filepath.Dir(file)))
		have, ok := lock.Packages[place]
		if ok {
			known = append(known, place)
		}
		own = own || !ok
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, false, err
		}
		var app workspace
		if json.Unmarshal(text, &app) != nil {
			continue // `box app check` says what is wrong with it
		}
		pinned := have.sets()
		for i, set := range app.sets() {
			for _, name := range slices.Sorted(maps.Keys(set)) {
				if pinned[i][name] != set[name] {
					return nil, false, fmt.Errorf("package-lock.json doesn't pin %s %s, which the app %s asks for in %s/package.json: run `npm install` in the source tree, then build again",
						name, set[name], path.Base(place), place)
				}
			}
		}
	}
	return known, own, nil
}

// without makes a folder with what npm reads of the source tree, but for the apps that package-lock.json doesn't know.
func (b *Build) without(known []string) (dir string, err error) {
	dir = filepath.Join(b.Root, ".cache", "npm")
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	for _, file := range append([]string{"package.json", "package-lock.json", ".npmrc"}, known...) {
		if strings.HasPrefix(file, "tracks/") {
			file = path.Join(file, "package.json")
		}
		text, err := os.ReadFile(filepath.Join(b.Root, file))
		if errors.Is(err, fs.ErrNotExist) && file == ".npmrc" {
			continue
		}
		if err != nil {
			return "", err
		}
		to := filepath.Join(dir, file)
		if err := cmp.Or(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, 0o644)); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// bring moves what npm made in dir into the source tree.
func (b *Build) bring(dir string, known []string) error {
	for _, place := range append([]string{""}, known...) {
		from, to := filepath.Join(dir, place, "node_modules"), filepath.Join(b.Root, place, "node_modules")
		if err := os.RemoveAll(to); err != nil {
			return err
		}
		if err := os.Rename(from, to); err != nil && !(place != "" && errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	return os.RemoveAll(dir)
}

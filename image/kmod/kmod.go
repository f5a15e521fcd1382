package kmod

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gurtos/image"
)

// Module is what one module says of itself.
type Module struct {
	Name    string
	Path    string   // in the release's folder: kernel/…/name.ko
	Depends []string // names that must be loaded before
	Soft    []string // names that should be, where they exist
	After   []string // names that should be loaded after it
	Alias   []string // patterns of what the kernel asks for
}

// Name is a module's name by its file's.
func Name(file string) string {
	base := filepath.Base(file)
	if i := strings.Index(base, ".ko"); i >= 0 {
		base = base[:i]
	}
	return strings.ReplaceAll(base, "-", "_")
}

// Read reads the module in file.
func Read(file, path string) (Module, error) {
	m := Module{Name: Name(path), Path: path}
	f, err := elf.Open(file)
	if err != nil {
		return m, fmt.Errorf("reading module %s: %w", path, err)
	}
	defer f.Close()
	section := f.Section(".modinfo")
	if section == nil {
		return m, fmt.Errorf("reading module %s: no .modinfo section", path)
	}
	text, err := section.Data()
	if err != nil {
		return m, fmt.Errorf("reading module %s: %w", path, err)
	}
	m.parse(text)
	return m, nil
}

func (m *Module) parse(modinfo []byte) {
	for _, line := range bytes.Split(modinfo, []byte{0}) {
		key, value, _ := strings.Cut(string(line), "=")
		switch key {
		case "depends":
			for _, n := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' }) {
				m.Depends = append(m.Depends, strings.ReplaceAll(n, "-", "_"))
			}
		case "alias":
			m.Alias = append(m.Alias, value)
		case "softdep":
			to := &m.Soft
			for _, w := range strings.Fields(value) {
				switch w {
				case "pre:":
					to = &m.Soft
				case "post:":
					to = &m.After
				default:
					*to = append(*to, strings.ReplaceAll(w, "-", "_"))
				}
			}
		}
	}
}

// Tree is a release's module folder as Debian ships it: each module compressed with xz.
type Tree struct {
	dir     string
	files   map[string]string // name → kernel/…/name.ko.xz
	builtin map[string]bool
}

// OpenTree looks at the folder dir, /usr/lib/modules/RELEASE of a root.
func OpenTree(dir string) (*Tree, error) {
	t := &Tree{dir: dir, files: map[string]string{}}
	err := filepath.WalkDir(filepath.Join(dir, "kernel"), func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.Contains(d.Name(), ".ko") {
			rel, _ := filepath.Rel(dir, p)
			t.files[Name(p)] = rel
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("looking at the kernel's modules: %w", err)
	}
	t.builtin, err = Builtin(dir)
	return t, err
}

// Builtin reads the names of the modules that are part of the kernel itself.
func Builtin(dir string) (map[string]bool, error) {
	list, err := os.ReadFile(filepath.Join(dir, "modules.builtin"))
	if err != nil {
		return nil, fmt.Errorf("looking at what is built into the kernel: %w", err)
	}
	names := map[string]bool{}
	for line := range strings.Lines(string(list)) {
		names[Name(strings.TrimSpace(line))] = true
	}
	return names, nil
}

// Choose lists the names of the modules for which want holds. It gets the path under kernel/, without .xz.
func (t *Tree) Choose(want func(path string) bool) (names []string) {
	for name, file := range t.files {
		if want(strings.TrimPrefix(strings.TrimSuffix(file, ".xz"), "kernel/")) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Unpack puts the named modules and all they depend on under out, uncompressed and at their own paths, and returns what they say of themselves.
// Decompress gets a list of pairs of packed and unpacked file.
func (t *Tree) Unpack(out string, names []string, decompress func(pairs [][2]string) error) (Set, error) {
	set := Set{}
	for len(names) > 0 {
		var pairs [][2]string
		var fresh []Module
		for _, n := range names {
			if _, have := set[n]; have || t.builtin[n] {
				continue
			}
			file, ok := t.files[n]
			if !ok {
				return nil, fmt.Errorf("the kernel has no module %s", n)
			}
			path := strings.TrimSuffix(file, ".xz")
			pairs = append(pairs, [2]string{filepath.Join(t.dir, file), filepath.Join(out, path)})
			fresh = append(fresh, Module{Name: n, Path: path})
			set[n] = Module{}
		}
		if err := decompress(pairs); err != nil {
			return nil, err
		}
		names = nil
		for _, f := range fresh {
			m, err := Read(filepath.Join(out, f.Path), f.Path)
			if err != nil {
				return nil, err
			}
			set[f.Name] = m
			names = append(names, m.Depends...)
			for _, s := range slices.Concat(m.Soft, m.After) {
				if _, ok := t.files[s]; ok {
					names = append(names, s)
				}
			}
		}
	}
	return set, nil
}

// Set is a choice of modules by name, whole when all they depend on is in it or built in.
type Set map[string]Module

// Closure is the part of s that holds names and all they depend on. Names that s lacks are built in.
func (s Set) Closure(names []string) Set {
	part := Set{}
	var add func(n string)
	add = func(n string) {
		m, ok := s[n]
		if _, have := part[n]; have || !ok {
			return
		}
		part[n] = m
		for _, d := range slices.Concat(m.Depends, m.Soft, m.After) {
			add(d)
		}
	}
	for _, n := range names {
		add(n)
	}
	return part
}

// Names lists the modules in order.
func (s Set) Names() []string { return slices.Sorted(maps.Keys(s)) }

// order lists what m depends on, the nearest first, each before what it needs itself, as depmod does.
func (s Set) order(m Module) (list []string) {
	seen := map[string]bool{m.Name: true}
	queue := slices.Clone(m.Depends)
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		d, ok := s[n]
		if !ok {
			continue
		}
		if seen[n] { // wanted further down too: so load it earlier
			if i := slices.Index(list, d.Path); i >= 0 {
				list = append(slices.Delete(list, i, i+1), d.Path)
			}
		} else {
			list = append(list, d.Path)
		}
		seen[n] = true
		queue = append(queue, d.Depends...)
	}
	return list
}

// Tables are the files by which a loader finds modules, by name.
func (s Set) Tables() map[string][]byte {
	var dep, alias, soft bytes.Buffer
	soft.WriteString("# what to load before and after a module, where it exists\n")
	for _, n := range s.Names() {
		m := s[n]
		fmt.Fprintf(&dep, "%s:", m.Path)
		for _, d := range s.order(m) {
			fmt.Fprintf(&dep, " %s", d)
		}
		dep.WriteByte('\n')
		for _, a := range m.Alias {
			fmt.Fprintf(&alias, "alias %s %s\n", a, n)
		}
		if len(m.Soft)+len(m.After) > 0 {
			fmt.Fprintf(&soft, "softdep %s", n)
			if len(m.Soft) > 0 {
				fmt.Fprintf(&soft, " pre: %s", strings.Join(m.Soft, " "))
			}
			if len(m.After) > 0 {
				fmt.Fprintf(&soft, " post: %s", strings.Join(m.After, " "))
			}
			soft.WriteByte('\n')
		}
	}
	return map[string][]byte{"modules.dep": dep.Bytes(), "modules.alias": alias.Bytes(), "modules.softdep": soft.Bytes()}
}

// Len is how many modules the tree has.
func (t *Tree) Len() int { return len(t.files) }

// ReadAll reads all modules of an unpacked folder.
func ReadAll(dir string) (Set, error) {
	set := Set{}
	err := filepath.WalkDir(filepath.Join(dir, "kernel"), func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		m, err := Read(p, rel)
		set[m.Name] = m
		return err
	})
	return set, err
}

// Choose is the part of s that holds the modules whose name, or whose path under kernel/, fits a pattern, and all they depend on. A pattern
// that nothing fits and that isn't the name of a built-in one is an error: the driver was renamed or lost.
func (s Set) Choose(patterns []string, builtin map[string]bool) (Set, error) {
	var names []string
	for _, p := range patterns {
		want := image.Match([]string{p})
		n := len(names)
		for name, m := range s {
			if want.Has(name) || want.Has(strings.TrimPrefix(m.Path, "kernel/")) {
				names = append(names, name)
			}
		}
		if len(names) == n && !builtin[p] {
			return nil, fmt.Errorf("no module fits %q", p)
		}
	}
	return s.Closure(names), nil
}

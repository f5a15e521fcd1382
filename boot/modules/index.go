package modules

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// An Index is what depmod found out about a tree of modules.
type Index struct {
	dir     string
	modules map[string]*module // by name, with underscores
	aliases map[string][]alias // by what stands before the colon: pci, usb, virtio …; "" for patterns with a * even there, such as acpi*:
}

type module struct {
	name string
	file string // "" for one that is built in
	deps []string
	pre  []string // wanted before, but it does without
	load
}

type alias struct{ pattern, module string }

// Read reads the index of a folder such as /lib/modules/6.12.1. Only
// modules.dep has to be there.
func Read(dir string) (*Index, error) {
	x := &Index{dir: dir, modules: map[string]*module{}, aliases: map[string][]alias{}}
	for _, file := range []struct {
		name     string
		line     func(string)
		optional bool
	}{
		{"modules.dep", x.dep, false},
		{"modules.builtin", x.builtin, true},
		{"modules.alias", x.alias, true},
		{"modules.softdep", x.softdep, true},
	} {
		err := lines(filepath.Join(dir, file.name), file.line)
		if err != nil && !(file.optional && errors.Is(err, fs.ErrNotExist)) {
			return nil, fmt.Errorf("read the index of modules: %w", err)
		}
	}
	return x, nil
}

func lines(path string, fn func(string)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		if line := strings.TrimSpace(s.Text()); line != "" && line[0] != '#' {
			fn(line)
		}
	}
	return s.Err()
}

// Name is a module's name out of its file's: kernel/fs/erofs/erofs.ko.xz is
// erofs. Files may have dashes where the kernel says underscores.
func Name(file string) string {
	base, _, _ := strings.Cut(filepath.Base(file), ".ko")
	return strings.ReplaceAll(base, "-", "_")
}

func (x *Index) dep(line string) {
	file, deps, _ := strings.Cut(line, ":")
	m := &module{name: Name(file), file: file}
	for _, d := range strings.Fields(deps) {
		m.deps = append(m.deps, Name(d))
	}
	x.modules[m.name] = m
}

func (x *Index) builtin(line string) {
	if name := Name(line); x.modules[name] == nil {
		x.modules[name] = &module{name: name}
	}
}

func (x *Index) alias(line string) {
	words := strings.Fields(line)
	if len(words) != 3 || words[0] != "alias" {
		return
	}
	bus, _, _ := strings.Cut(words[1], ":")
	bus = strings.TrimSuffix(bus, "*") // alias acpi*:LNXPWRBN:* button
	x.aliases[bus] = append(x.aliases[bus], alias{pattern: words[1], module: Name(words[2])})
}

// softdep reads "softdep NAME pre: A B post: C". What should come after is
// left to its own devices' aliases.
func (x *Index) softdep(line string) {
	words := strings.Fields(line)
	if len(words) < 3 || words[0] != "softdep" {
		return
	}
	m := x.modules[Name(words[1])]
	if m == nil {
		return
	}
	pre := false
	for _, w := range words[2:] {
		switch {
		case strings.HasSuffix(w, ":"):
			pre = w == "pre:"
		case pre:
			m.pre = append(m.pre, Name(w))
		}
	}
}

// For returns the names of the modules that take a device of this modalias, or
// that carry the alias as another name (fs-xfs).
func (x *Index) For(modalias string) []string {
	bus, _, _ := strings.Cut(modalias, ":")
	var names []string
	for _, key := range []string{bus, ""} {
		for _, a := range x.aliases[key] {
			if match(a.pattern, modalias) && !slices.Contains(names, a.module) {
				names = append(names, a.module)
			}
		}
	}
	return names
}

// match is fnmatch(3) as far as modules.alias goes: *, ? and [a-b] or [abc].
func match(pattern, s string) bool {
	star, mark := -1, 0 // where to go on when what follows the last * fits not
	p, i := 0, 0
	for i < len(s) {
		if p < len(pattern) && pattern[p] == '*' {
			star, mark = p, i
			p++
			continue
		}
		if n := matchOne(pattern[p:], s[i]); n > 0 {
			p, i = p+n, i+1
			continue
		}
		if star < 0 {
			return false
		}
		mark++
		p, i = star+1, mark
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchOne matches one byte and returns how many bytes of the pattern it took,
// or 0.
func matchOne(pattern string, c byte) int {
	if pattern == "" {
		return 0
	}
	switch pattern[0] {
	case '?':
		return 1
	case '[':
		end := strings.IndexByte(pattern, ']')
		if end < 0 {
			break
		}
		set := pattern[1:end]
		for i := 0; i < len(set); i++ {
			lo, hi := set[i], set[i]
			if i+2 < len(set) && set[i+1] == '-' {
				hi = set[i+2]
				i += 2
			}
			if lo <= c && c <= hi {
				return end + 1
			}
		}
		return 0
	}
	if pattern[0] == c {
		return 1
	}
	return 0
}

package watch

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of a watch's globs.
const (
	maxGlobs = 100
	maxGlob  = 1000 // bytes
)

// glob is a pattern for paths, split at its slashes. In a name, * is any run of
// characters and ? one; ** in the place of a name is any number of folders, and at
// the end all that is beneath.
type glob []string

func parseGlob(s string) (glob, error) {
	switch {
	case s == "":
		return nil, fmt.Errorf("an empty path is no path inside a workspace")
	case len(s) > maxGlob:
		return nil, fmt.Errorf("a path of %d bytes is too long: %d are allowed", len(s), maxGlob)
	case strings.HasPrefix(s, "/"):
		return nil, fmt.Errorf("%q begins with /, and paths begin at the workspace", s)
	}
	g := glob(strings.Split(s, "/"))
	for _, part := range g {
		if part == "" || part == "." || part == ".." {
			return nil, fmt.Errorf("%q is no path inside a workspace: between two slashes there is a name, and not . or ..", s)
		}
	}
	return g, nil
}

// match says whether a clean path fits. It goes back to the last ** only: what fits
// behind an earlier one, fits behind it too.
func (g glob) match(path string) bool {
	names := strings.Split(path, "/")
	i, k := 0, 0        // next of g, next of names
	back, from := -1, 0 // behind the last **, and where what it stands for ends
	for k < len(names) {
		switch {
		case i < len(g) && g[i] == "**":
			if i == len(g)-1 {
				return true
			}
			i++
			back, from = i, k
		case i < len(g) && matchName(g[i], names[k]):
			i++
			k++
		case back >= 0:
			from++
			i, k = back, from
		default:
			return false
		}
	}
	return i == len(g)
}

// matchName is match of one name, by the same way back.
func matchName(pattern, name string) bool {
	i, k := 0, 0
	back, from := -1, 0
	for k < len(name) {
		_, n := utf8.DecodeRuneInString(name[k:])
		switch {
		case i < len(pattern) && pattern[i] == '*':
			i++
			back, from = i, k
		case i < len(pattern) && pattern[i] == '?':
			i++
			k += n
		case i < len(pattern) && pattern[i] == name[k]:
			i++
			k++
		case back >= 0:
			_, n := utf8.DecodeRuneInString(name[from:])
			from += n
			i, k = back, from
		default:
			return false
		}
	}
	for i < len(pattern) && pattern[i] == '*' {
		i++
	}
	return i == len(pattern)
}

// globs are all patterns of a watch; none fits every path.
type globs []glob

func parseGlobs(paths []string) (globs, error) {
	if len(paths) > maxGlobs {
		return nil, fmt.Errorf("%d paths are too many: %d are allowed", len(paths), maxGlobs)
	}
	var out globs
	for _, p := range paths {
		g, err := parseGlob(p)
		if err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	return out, nil
}

func (gs globs) match(path string) bool {
	for _, g := range gs {
		if g.match(path) {
			return true
		}
	}
	return len(gs) == 0
}

package image

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

// lockText is packages.lock: `as of DATE`, then `ROOT PACKAGE VERSION` a line, in order. It records what a build of that day took. A later
// build of the same recipe may find newer versions of the same packages; the full list of what is really in lies beside each file system.
//
//go:embed packages.lock
var lockText string

// Lock is what packages.lock holds.
type Lock struct {
	AsOf  string
	Roots map[string]map[string]string // root → package → version
}

// Recorded is the packages.lock of this source tree.
func Recorded() (Lock, error) { return ParseLock(lockText) }

// ParseLock reads one.
func ParseLock(text string) (Lock, error) {
	l := Lock{Roots: map[string]map[string]string{}}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) == 3 && f[0] == "as" && f[1] == "of":
			l.AsOf = f[2]
		case len(f) == 3:
			if l.Roots[f[0]] == nil {
				l.Roots[f[0]] = map[string]string{}
			}
			l.Roots[f[0]][f[1]] = f[2]
		case len(f) != 0:
			return l, fmt.Errorf("packages.lock: odd line %q", strings.TrimSpace(line))
		}
	}
	if l.AsOf == "" {
		return l, fmt.Errorf("packages.lock: no line `as of DATE`")
	}
	return l, nil
}

// String writes it.
func (l Lock) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "as of %s\n", l.AsOf)
	for _, root := range sorted(l.Roots) {
		for _, p := range sorted(l.Roots[root]) {
			fmt.Fprintf(&b, "%s %s %s\n", root, p, l.Roots[root][p])
		}
	}
	return b.String()
}

func sorted[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

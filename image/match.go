package image

import (
	"regexp"
	"strings"
)

// Matcher tells whether a path fits one of its patterns, in which * stands for any characters, / too, and ? for one.
type Matcher []*regexp.Regexp

// Match compiles patterns.
func Match(patterns []string) (m Matcher) {
	for _, p := range patterns {
		e := regexp.QuoteMeta(p)
		e = strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(e)
		m = append(m, regexp.MustCompile("^"+e+"$"))
	}
	return m
}

// Has reports whether path fits.
func (m Matcher) Has(path string) bool {
	for _, e := range m {
		if e.MatchString(path) {
			return true
		}
	}
	return false
}

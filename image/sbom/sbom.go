// Package sbom writes what a file system is made of as a CycloneDX 1.6 document: Debian packages, npm packages and the Go modules in our own
// programs. The same parts give the same bytes.
package sbom

import (
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
)

// Part is one component.
type Part struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
}

// Debian is a part that came as a Debian package.
func Debian(name, version, arch string) Part {
	return Part{"library", name, version, fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s", name, url.QueryEscape(version), arch)}
}

// NPM is a part that came as an npm package.
func NPM(name, version string) Part {
	return Part{"library", name, version, fmt.Sprintf("pkg:npm/%s@%s", strings.Replace(name, "@", "%40", 1), version)}
}

// Program lists the Go modules, and the Go release, that a program was linked from.
func Program(file string) ([]Part, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading what %s was built from: %w", file, err)
	}
	parts := []Part{{"library", "go", strings.TrimPrefix(info.GoVersion, "go"), "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, Part{"library", m.Path, m.Version, fmt.Sprintf("pkg:golang/%s@%s", m.Path, m.Version)})
	}
	return parts, nil
}

// Write writes the document about name.
func Write(w io.Writer, name string, parts []Part) error {
	parts = slices.Clone(parts)
	slices.SortFunc(parts, func(a, b Part) int { return cmp.Compare(a.PURL, b.PURL) })
	parts = slices.Compact(parts)
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	e.SetEscapeHTML(false)
	return e.Encode(struct {
		Format   string `json:"bomFormat"`
		Spec     string `json:"specVersion"`
		Version  int    `json:"version"`
		Metadata any    `json:"metadata"`
		Parts    []Part `json:"components"`
	}{"CycloneDX", "1.6", 1, map[string]any{"component": map[string]string{"type": "operating-system", "name": name}}, parts})
}

// Read reads the parts of a document that Write wrote.
func Read(name string) ([]Part, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Parts []Part `json:"components"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return doc.Parts, nil
}

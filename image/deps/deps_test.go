package deps

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestListSaysWhatFor(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Packages {
		if p.For == "" || len(p.Has) == 0 || seen[p.Name] {
			t.Errorf("%s: what for %q, told by %v, twice: %v", p.Name, p.For, p.Has, seen[p.Name])
		}
		seen[p.Name] = true
	}
}

func TestMissing(t *testing.T) {
	there := filepath.Join(t.TempDir(), "tool")
	if err := os.WriteFile(there, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	whole := Packages
	defer func() { Packages = whole }()
	Packages = []Package{
		{"has", "x", []string{"/nowhere/x", there}, Build}, {"lacks", "x", []string{"/nowhere/y"}, Build}, {"other", "x", []string{"/nowhere/z"}, Boot},
	}
	if m := Missing(Build); len(m) != 1 || m[0].Name != "lacks" {
		t.Errorf("missing for building: %v", m)
	}
	if m := Missing(Build, Boot); len(m) != 2 {
		t.Errorf("missing for building and booting: %v", m)
	}
	t.Setenv("PATH", t.TempDir())
	err := Ensure(t.Context(), &bytes.Buffer{}, &bytes.Buffer{}, Build)
	if err == nil || !strings.Contains(err.Error(), "this machine lacks lacks") {
		t.Errorf("without apt: %v", err)
	}
}

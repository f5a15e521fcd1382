package build

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gurtos/image/layout"
)

// What the system image has of apps: those that ship, what they run on, and the packages
// that they need, wherever npm put them.
func TestApps(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"core/contract.ts": "c", "core/triggers.ts": "t", "core/testbox.ts": "for tests",
		"tracks/README.md": "no app", "tracks/one/track.ts": "one", "tracks/one/parts/a.ts": "a", "tracks/one/demo.ts": "d", "tracks/one/track.test.ts": "t",
		"tracks/one/package.json":           `{"dependencies":{"far":"1.0.0","near":"2.0.0"},"optionalDependencies":{"gone":"1.0.0"},"devDependencies":{"tool":"1.0.0"}}`,
		"tracks/one/node_modules/near/x.js": "near", "tracks/one/node_modules/near/package.json": `{"name":"near","version":"2.0.0","dependencies":{"far":"1.0.0"}}`,
		"node_modules/far/package.json": `{"name":"far","version":"1.0.0","dependencies":{"@s/deep":"3.0.0"}}`, "node_modules/far/lib/y.js": "far",
		"node_modules/@s/deep/package.json": `{"name":"@s/deep","version":"3.0.0","dependencies":{"far":"1.0.0"}}`,
		"node_modules/tool/package.json":    `{"name":"tool","version":"1.0.0"}`,
		"tracks/example/track.ts":           "not shipped",
	} {
		at := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := &Build{Root: root}
	got, err := b.apps()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"core/contract.ts", "core/triggers.ts", "node_modules/@s/deep/package.json", "node_modules/far/lib/y.js", "node_modules/far/package.json",
		"tracks/one/node_modules/near/package.json", "tracks/one/node_modules/near/x.js", "tracks/one/package.json", "tracks/one/parts/a.ts", "tracks/one/track.ts",
	}
	if names := slices.Sorted(maps.Keys(got.files)); !slices.Equal(names, want) {
		t.Errorf("files: %q", names)
	}
	if len(got.parts) != 3 {
		t.Errorf("packages: %+v", got.parts)
	}
	to := t.TempDir()
	if err := got.lay(to); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(to + layout.Apps + "/tracks/one/track.ts"); err != nil || st.Mode().Perm() != 0o644 {
		t.Errorf("a file that was laid: %v, %v", st, err)
	}
	if err := os.WriteFile(filepath.Join(root, "tracks/one/parts/a.ts"), []byte("b"), 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := b.apps(); err != nil || again.hash == got.hash {
		t.Errorf("after a change: %v, %v", again.hash, err)
	}
	if err := os.Remove(filepath.Join(root, "node_modules/far/package.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.apps(); err == nil || !strings.Contains(err.Error(), "the package far, which tracks/one") {
		t.Errorf("without a package: %v", err)
	}
}

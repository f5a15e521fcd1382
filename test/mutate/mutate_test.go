package mutate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGuardsStand fails when the code under a guard moved, so that the list is kept.
func TestGuardsStand(t *testing.T) {
	if err := Check("../..", Guards); err != nil {
		t.Error(err)
	}
	seen := map[string]bool{}
	for _, g := range Guards {
		if seen[g.Name] {
			t.Errorf("two guards are named %q", g.Name)
		}
		seen[g.Name] = true
	}
}

// tiny is a module with one guarded function and a test that notices, one that doesn't, and one that can't compile when broken.
func tiny(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":     "module tiny\n\ngo 1.26\n",
		"a.go":       "package tiny\n\nfunc Even(n int) bool { return n%2 == 0 }\n",
		"a_test.go":  "package tiny\n\nimport \"testing\"\n\nfunc TestEven(t *testing.T) {\n\tif Even(3) {\n\t\tt.Error(3)\n\t}\n}\n\nfunc TestBlind(t *testing.T) { Even(3) }\n\nfunc TestSick(t *testing.T) { t.Fail() }\n",
		"sub/b.go":   "package sub\n",
		"sub/b.txt":  "x\n",
		".gitignore": "/ignored\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestSound(t *testing.T) {
	dir := tiny(t)
	for test, want := range map[string]string{"^TestEven$": "", "^TestSick$": "although nothing is broken"} {
		err := Sound(t.Context(), dir, Guard{Pkg: ".", Test: test})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", test, err)
		}
	}
}

func TestTry(t *testing.T) {
	dir := tiny(t)
	for _, c := range []struct {
		holds, change, test, want string
	}{
		{"a test that notices", "true", "^TestEven$", ""},
		{"a test that doesn't", "true", "^TestBlind$", "passes although"},
		{"no such test", "true", "^TestNone$", "no test"},
		{"code that doesn't compile", "n", "^TestEven$", "doesn't compile"},
	} {
		err := Try(t.Context(), dir, Guard{Name: c.holds, File: "a.go", Old: "n%2 == 0", New: c.change, Pkg: ".", Test: c.test})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.holds, err)
		}
		if b, _ := os.ReadFile(dir + "/a.go"); !strings.Contains(string(b), "n%2 == 0") {
			t.Fatalf("%s: the code stayed broken", c.holds)
		}
	}
}

func TestCheck(t *testing.T) {
	dir := tiny(t)
	for _, g := range []Guard{
		{Name: "gone", File: "a.go", Old: "n%3", New: "x"},
		{Name: "twice", File: "a.go", Old: "n", New: "x"},
		{Name: "no file", File: "c.go", Old: "n", New: "x"},
		{Name: "no change", File: "a.go", Old: "n%2", New: "n%2"},
	} {
		if err := Check(dir, []Guard{g}); err == nil || !strings.Contains(err.Error(), g.Name) {
			t.Errorf("%s: %v", g.Name, err)
		}
	}
}

package suite

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"
	"time"
)

// Every target of the tree has a corpus that is kept.
func TestCorporaAreKept(t *testing.T) {
	root := filepath.Join("..", "..")
	all, err := targets(os.DirFS(root))
	if err != nil || len(all) < 10 {
		t.Fatal(all, err)
	}
	for _, f := range all {
		dir := filepath.Join(root, filepath.FromSlash(f.pkg[len("gurtos/"):]), "testdata", "fuzz", f.name)
		if kept, err := os.ReadDir(dir); err != nil || len(kept) == 0 {
			t.Errorf("%s %s: no corpus in %s (%v)", f.pkg, f.name, dir, err)
		}
	}
}

func TestFuzzTime(t *testing.T) {
	if got := (Options{}).fuzzTime(); got > 10*time.Second || got <= 0 {
		t.Errorf("each target is run for %v when all is tested", got)
	}
	if got := (Options{All: true}).fuzzTime(); got < time.Minute {
		t.Errorf("each target is run for %v by the long forms", got)
	}
}

func TestTargets(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	got, err := targets(fstest.MapFS{
		"core/a/a_test.go":           file("package a\n\nfunc FuzzA(f *testing.F) {\n}\n\nfunc FuzzB(f *testing.F) {}\nfunc FuzzHelp(t *testing.T) {}\n"),
		"core/a/a.go":                file("package a\n\nfunc FuzzNot(f *testing.F) {}\n"),
		"core/a/testdata/x_test.go":  file("func FuzzC(f *testing.F) {}\n"),
		"node_modules/x/x_test.go":   file("func FuzzD(f *testing.F) {}\n"),
		".cache/copy/core/b_test.go": file("func FuzzE(f *testing.F) {}\n"),
	})
	if want := []target{{"gurtos/core/a", "FuzzA"}, {"gurtos/core/a", "FuzzB"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

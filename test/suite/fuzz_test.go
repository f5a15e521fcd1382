package suite

import (
	"slices"
	"testing"
	"testing/fstest"
)

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

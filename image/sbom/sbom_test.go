package sbom

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestReadBack(t *testing.T) {
	parts := []Part{NPM("@scope/x", "1.0.0"), Debian("git", "1:2.47.3-0+deb13u1", "amd64"), Debian("git", "1:2.47.3-0+deb13u1", "amd64")}
	var one, two bytes.Buffer
	if err := Write(&one, "gurtos-tasks", parts); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(parts)
	if err := Write(&two, "gurtos-tasks", parts); err != nil {
		t.Fatal(err)
	}
	if one.String() != two.String() {
		t.Error("the same parts in another order gave other bytes")
	}
	name := filepath.Join(t.TempDir(), "x.cdx.json")
	if err := os.WriteFile(name, one.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := Read(name)
	want := []Part{
		{"library", "git", "1:2.47.3-0+deb13u1", "pkg:deb/debian/git@1%3A2.47.3-0%2Bdeb13u1?arch=amd64"},
		{"library", "@scope/x", "1.0.0", "pkg:npm/%40scope/x@1.0.0"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v\nwant %v", got, err, want)
	}
}

// TestProgram reads what this very test was linked from.
func TestProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parts, err := Program(self)
	if err != nil || len(parts) == 0 || parts[0].Name != "go" || parts[0].Version == "" {
		t.Errorf("%v, %v", parts, err)
	}
}

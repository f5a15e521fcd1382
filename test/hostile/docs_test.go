package hostile

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const repository = "../.."

// The tests that docs/security.md names exist, down to the attempt and to those in a browser.
func TestSecurityNames(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join(repository, "docs/security.md"))
	if err != nil {
		t.Fatal(err)
	}
	where := map[string][]string{} // files' text by the test that they define
	defines := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err = filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != repository {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range defines.FindAllStringSubmatch(string(b), -1) {
			where[m[1]] = append(where[m[1]], string(b))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("`(Test\\w+)(?:/([^`]+))?`").FindAllStringSubmatch(string(doc), -1)
	if len(names) < 50 {
		t.Fatalf("only %d names", len(names))
	}
	for _, n := range names {
		test, sub := n[1], n[2]
		switch {
		case where[test] == nil:
			t.Errorf("there is no %s", test)
		case test == "TestAttempts" && sources[sub] == "":
			t.Errorf("there is no attempt %s", sub)
		case test != "TestAttempts" && sub != "" && !strings.Contains(strings.Join(where[test], ""), `"`+sub+`"`):
			t.Errorf("%s has no %q", test, sub)
		}
	}
	pages, err := os.ReadFile(filepath.Join(repository, "test/pages/pages.test.ts"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range regexp.MustCompile("`pages: ([^`]+)`").FindAllStringSubmatch(string(doc), -1) {
		if !strings.Contains(string(pages), "test('"+n[1]+"', ") {
			t.Errorf("test/pages has no test %q", n[1])
		}
	}
}

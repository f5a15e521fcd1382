package imports

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// starts are the ways in which a test comes to a box: each makes the home of one, or gives a broker or an API a vault.
var starts = regexp.MustCompile(`"BOX_HOME="\+|box\.Open\(ctx, box\.Options|broker\.New\(broker\.Options|BOX_HOME: this\.home`)

// programs and parts that tests are given with a home that another has planted values in.
var given = map[string]string{
	"test/fixtures":      "programs that a daemon.Home starts",
	"test/ends":          "starts a boxd that refuses to, in the home of package daemon",
	"core/broker":        "a box to be killed: its till reads no vault; box_test.go plants for all others",
	"cmd/box/cli/dev":    "what ships",
	"cmd/box/cli/app_":   "box app dev, which makes a vault of its own",
	"core/config":        "reads variables and opens nothing",
	"core/task":          "files alone, no vault",
	"core/box":           "what ships",
	"test/bench":         "measures, and holds no vault",
	"cmd/boxd":           "what ships",
	"cmd/box/cli/dev.go": "what ships",
}

// Every suite that runs a box plants random values in its vault and searches for them at its end: it uses package planted, or a home of package daemon, which
// does.
func TestSuitesPlantValues(t *testing.T) {
	root, planting := filepath.Join("..", ".."), 0
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(filepath.ToSlash(p), "../../")
		if d.IsDir() {
			if n := d.Name(); p != root && (strings.HasPrefix(n, ".") || n == "node_modules" || n == "bin" || n == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if ext := path.Ext(name); ext != ".go" && ext != ".ts" || !strings.HasPrefix(name, "test/") && !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil || !starts.Match(text) || name == "test/imports/planted_test.go" {
			return err
		}
		if bytes.Contains(text, []byte("planted")) {
			planting++
			return nil
		}
		for begin := range given {
			if strings.HasPrefix(name, begin) {
				return nil
			}
		}
		t.Errorf("%s starts a box and plants nothing in its vault: use daemon.New, or package planted", name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if planting < 5 {
		t.Errorf("only %d suites plant values: the pattern of this test is out of date", planting)
	}
}

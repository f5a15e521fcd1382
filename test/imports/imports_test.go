// Package imports holds the direction in which the folders of the tree may use each other.
package imports

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "gurtos/"

// rule says what a folder must not use. Tests of its packages count too, where it says so.
type rule struct {
	folder string
	not    []string
	tests  bool
	why    string
}

var rules = []rule{
	{"core", []string{"worker", "tracks", "portal", "cmd"}, false, "the core never imports what runs on the untrusted side"},
	{"sandbox", []string{"core", "netpolicy", "worker"}, true, "the sandbox knows nothing of tasks"},
	{"netpolicy", []string{"core", "sandbox", "worker"}, true, "the network policy knows nothing of tasks"},
	{"worker", []string{"core", "sandbox", "netpolicy", "image", "boot"}, false, "a worker reaches the box through its socket alone"},
	{"boot", []string{"core/task", "core/broker", "core/api", "sandbox", "netpolicy"}, false, "init speaks to boxd over its socket"},
	{"image", []string{"core", "sandbox", "netpolicy"}, false, "what builds the box runs nothing of it"},
}

// shipped are the folders whose programs are in the box; none may use test/.
var shipped = []string{"core", "sandbox", "netpolicy", "worker", "boot", "firstboot", "initramfs", "image", "cmd/boxd", "cmd/box", "cmd/init", "cmd/worker"}

func TestDirection(t *testing.T) {
	all := imports(t, "../..")
	for _, folder := range shipped {
		rules = append(rules, rule{folder, []string{"test"}, false, "what ships uses no test code"})
	}
	for _, r := range rules {
		files := 0
		for file, used := range all {
			if !below(file, r.folder) || strings.HasSuffix(file, "_test.go") && !r.tests {
				continue
			}
			files++
			for _, u := range used {
				if slices.ContainsFunc(r.not, func(not string) bool { return below(u, not) }) {
					t.Errorf("%s imports %s: %s", file, u, r.why)
				}
			}
		}
		if files == 0 {
			t.Errorf("there is no Go in %s: take it out of the rules", r.folder)
		}
	}
}

func TestBelow(t *testing.T) {
	for _, c := range []struct {
		name, folder string
		want         bool
	}{{"core/task/run.go", "core", true}, {"core", "core", true}, {"corner/x.go", "core", false}, {"test/core/x.go", "core", false}} {
		if below(c.name, c.folder) != c.want {
			t.Errorf("%s below %s: %v", c.name, c.folder, !c.want)
		}
	}
}

func below(name, folder string) bool { return name == folder || strings.HasPrefix(name, folder+"/") }

// imports lists what each Go file uses of this module.
func imports(t *testing.T, root string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); name != root && (n[0] == '.' || n == "node_modules" || n == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		all[rel] = nil
		for _, spec := range f.Imports {
			used, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if ours, ok := strings.CutPrefix(used, module); ok {
				all[rel] = append(all[rel], ours)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

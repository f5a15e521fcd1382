package guard

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestGo(t *testing.T) {
	t.Cleanup(func() { show.Store(nil) })
	shown := make(chan string, 1)
	On(func(what string, p any, stack []byte) {
		shown <- what + ": " + p.(string) + map[bool]string{true: ", with its stack"}[strings.Contains(string(stack), "guard_test.go")]
	})
	Go("trying", func() { panic("no memory") })
	select {
	case got := <-shown:
		if got != "trying: no memory, with its stack" {
			t.Errorf("shown %q", got)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("nothing was shown")
	}
}

// No goroutine of the init is started in another way: a panic in one would end
// in the kernel's own (a DHCP answer once did).
func TestEveryGoroutineIsGuarded(t *testing.T) {
	found := 0
	for _, dir := range []string{"../../boot", "../../initramfs/stage1", "../../cmd/init"} {
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "guard/guard.go") {
				return err
			}
			files := token.NewFileSet()
			f, err := parser.ParseFile(files, name, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					t.Errorf("%s: a goroutine without a guard", files.Position(n.Pos()))
				case *ast.SelectorExpr:
					if pkg, ok := n.X.(*ast.Ident); n.Sel.Name == "Go" && ok && pkg.Name == "guard" {
						found++
					} else if n.Sel.Name == "Go" {
						t.Errorf("%s: a goroutine without a guard", files.Position(n.Pos()))
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 10 {
		t.Errorf("%d goroutines found: this test looks in the wrong place", found)
	}
}

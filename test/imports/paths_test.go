package imports

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Files that a task made are reached beneath the root of their view alone, by openat2 or by one name at a time in an open folder (sandbox/layers/beneath.go).
// A function that takes a whole path may follow a link that a task planted. Of the packages that see such files, each function that calls one stands here,
// with what its path is instead.
var wholePaths = map[string]string{
	"core/api/box.go:memory":                        "/proc/meminfo",
	"core/api/peer.go:ownSocket":                    "boxd's own descriptors",
	"core/broker/broker.go:Listen":                  "the socket in the task's folder, which is root's alone",
	"core/task/compact.go:recoverBases":             "the folder of workspaces, root's alone",
	"core/task/mend.go:layerless":                   "the folder of a task's layer, in one that is root's alone",
	"core/task/orphans.go:stays":                    "the folder of a task, in one that is root's alone",
	"core/task/context.go:Context":                  "a file of the box's own in the folder of the task, root's alone",
	"core/task/context.go:addContext":               "the same",
	"core/task/end.go:drop":                         "which layer it is, by Lstat",
	"core/task/end.go:dropAll":                      "the task's folder once its layers are gone; RemoveAll follows no link",
	"core/task/limits.go:hasWorkspace":              "whether a workspace is there, by Lstat: a link is refused",
	"core/task/keptcalls.go:keptCalls":              "the folder of the model calls that are out, root's alone",
	"core/task/load.go:listDisk":                    "the folder of tasks, root's alone",
	"core/task/put.go:write":                        "the task's folder, root's alone",
	"core/task/run.go:folders":                      "the same, and whether a layer is in it",
	"core/task/sight.go:sightView":                  "whether a workspace is there",
	"core/task/tasks.go:New":                        "the folders of tasks and workspaces, root's alone",
	"core/workspace/workspace.go:Get":               "the folder of workspaces; the workspace itself by openat2",
	"core/workspace/workspace.go:Fill":              "a workspace that is being made, before a task sees it",
	"core/workspace/workspace.go:List":              "the folder of workspaces, root's alone",
	"core/workspace/workspace.go:Open":              "workspaces that were being made; RemoveAll follows no link",
	"sandbox/layers/drop.go:deleteLayer":            "a layer by its name; what is in it goes name by name",
	"sandbox/layers/drop.go:reader":                 "which layer it is, by Lstat",
	"sandbox/layers/hold.go:openDir":                "a layer or a base by its name, which may be no link",
	"sandbox/layers/layer.go:Create":                "a layer that is being made, before a task sees it",
	"sandbox/layers/layer.go:fill":                  "the same",
	"sandbox/layers/layer.go:syncPath":              "the folder that layers are in, root's alone",
	"sandbox/layers/mounter.go:NewMounter":          "a setting of the kernel",
	"sandbox/layers/probe.go:probe":                 "a folder of the probe's own",
	"sandbox/layers/userns.go:NewUserns":            "/proc",
	"sandbox/layers/beneath.go:xattr":               "an attribute of one name in an open folder, by /proc/self/fd; a link's own",
	"sandbox/layers/fold.go:foldedIDs":              "the same",
	"sandbox/layers/overlay.go:buildOverlay":        "the clones of layers, by /proc/self/fd in an empty namespace",
	"sandbox/layers/overlay.go:enterEmptyNamespace": "that namespace's own root",
	"sandbox/quota/projects.go:Projects":            "BOX_HOME",
	"sandbox/quota/quota.go:Open":                   "BOX_HOME",
}

var osCalls = []string{"Open", "OpenFile", "Create", "ReadFile", "WriteFile", "ReadDir", "Stat", "Lstat", "Mkdir", "MkdirAll", "Remove", "RemoveAll", "Rename", "Link",
	"Symlink", "Readlink", "Chmod", "Chown", "Lchown", "Chtimes", "Truncate", "CopyFS", "DirFS"}
var unixCalls = []string{"Open", "Creat", "Stat", "Lstat", "Mkdir", "Mknod", "Mkfifo", "Rmdir", "Unlink", "Rename", "Link", "Symlink", "Readlink", "Chmod", "Chown", "Lchown",
	"Truncate", "Getxattr", "Setxattr", "Lgetxattr", "Listxattr", "Removexattr", "Utimes"}

func TestFilesOfTasksAreReachedBeneath(t *testing.T) {
	found := map[string]bool{}
	for _, dir := range []string{"core/api", "core/broker", "core/task", "core/workspace", "sandbox/layers", "sandbox/quota"} {
		names, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				ast.Inspect(f, func(n ast.Node) bool {
					s, ok := n.(*ast.SelectorExpr)
					if !ok {
						return true
					}
					if x, ok := s.X.(*ast.Ident); ok && (x.Name == "os" && slices.Contains(osCalls, s.Sel.Name) || x.Name == "unix" && slices.Contains(unixCalls, s.Sel.Name) ||
						x.Name == "filepath" && (s.Sel.Name == "Walk" || s.Sel.Name == "WalkDir" || s.Sel.Name == "EvalSymlinks")) {
						found[dir+"/"+filepath.Base(name)+":"+f.Name.Name] = true
					}
					return true
				})
			}
		}
	}
	for at := range found {
		if wholePaths[at] == "" {
			t.Errorf("%s takes a whole path: reach what a task made beneath its root, or say here what the path is", at)
		}
	}
	for at := range wholePaths {
		if !found[at] {
			t.Errorf("%s takes no whole path any more", at)
		}
	}
}

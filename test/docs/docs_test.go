// Package docs runs the commands that README.md and docs/ tell people to type, against a box of its own, and holds what README.md shows of their output to
// what they print.
package docs

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gurtos/test/daemon"
)

// session is somebody who types what a document says.
type session struct {
	t    *testing.T
	box  *daemon.Home
	dir  string
	env  map[string]string
	last map[string]string // what later commands name: the id of a task, a code, a token

	quiet bool // what goes to standard error is not read
}

func newSession(t *testing.T) *session {
	if testing.Short() {
		t.Skip("starts boxd for every document: `make test` runs it")
	}
	root := daemon.Root(t)
	home := daemon.New(t)
	d := home.Start()
	t.Cleanup(d.Stop)
	s := &session{t: t, box: home, dir: t.TempDir(), last: map[string]string{}, env: map[string]string{
		"PATH": filepath.Join(root, "bin") + ":" + os.Getenv("PATH"), "BOX_HOME": home.Dir, "HOME": t.TempDir(), "TZ": "UTC",
	}}
	for _, name := range []string{"project", "my-project"} {
		dir := filepath.Join(s.dir, "there", name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "Makefile"), []byte("all:\n\techo '# built' >> Makefile\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(s.dir, "prompt.txt"), []byte("step Nothing to do\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return s
}

// stands are what documents write for what differs from box to box.
func (s *session) stands(command string) string {
	host := strings.TrimPrefix(s.box.URL(), "http://")
	return strings.NewReplacer(
		"192.168.1.20", host, "<box>", host, "127.0.0.1:7700", host, "<id>", s.last["task"], "fix-the-build", s.last["task"],
		"12345678", s.last["code"], "<what it printed>", s.last["token"], "<token>", s.last["token"],
		"git clone https://example.com/project", "cp -r there/project project", "-C my-project", "-C there/my-project",
	).Replace(command)
}

var (
	taskID    = regexp.MustCompile(`\bt[a-z2-7]{12}\b`)
	code      = regexp.MustCompile(`\b(\d{4}) ?(\d{4})\b`)
	token     = regexp.MustCompile(`\bd[A-Za-z0-9_-]{43}\b`)
	exportVar = regexp.MustCompile(`^export (\w+)=(.*)$`)
)

// run types one command and keeps what later ones need of its output.
func (s *session) run(command string) (out string, err error) {
	s.t.Helper()
	command = s.stands(command)
	if m := exportVar.FindStringSubmatch(strings.TrimSpace(strings.SplitN(command, " #", 2)[0])); m != nil {
		s.env[m[1]] = m[2]
		return "", nil
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.Dir = s.dir
	for k, v := range s.env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	text := &heard{}
	if strings.HasSuffix(command, " -f") { // it never ends by itself
		text.then = cancel
	}
	cmd.Stdout, cmd.Stderr = text, text
	if s.quiet {
		cmd.Stderr = nil
	}
	cmd.WaitDelay = 10 * time.Second
	err = cmd.Run()
	if text.then != nil && len(text.Bytes()) > 0 {
		err = nil
	}
	out = text.String()
	if ids := taskID.FindAllString(out, -1); ids != nil {
		s.last["task"] = ids[len(ids)-1]
	}
	if m := token.FindString(out); m != "" {
		s.last["token"] = m
	} else if m := code.FindStringSubmatch(out); m != nil && strings.Contains(command, "pair") {
		s.last["code"] = m[1] + m[2]
	}
	return out, err
}

// heard keeps what a command prints, and does something at the first word.
type heard struct {
	bytes.Buffer
	then func()
}

// Write keeps p.
func (h *heard) Write(p []byte) (int, error) {
	if h.then != nil {
		defer h.then()
	}
	return h.Buffer.Write(p)
}

// commands are those of a block, a line each but where quotes go on over lines. Where some stand behind a $, the others are what they print.
func commands(block string) (out []string) {
	shown := regexp.MustCompile(`(?m)^\$ .*`).FindAllString(block, -1)
	for _, line := range shown {
		out = append(out, strings.TrimPrefix(line, "$ "))
	}
	if shown != nil {
		return out
	}
	for line := range strings.Lines(block) {
		line = strings.TrimSuffix(line, "\n")
		if n := len(out); n > 0 && (strings.Count(out[n-1], "'")%2 == 1 || strings.HasSuffix(out[n-1], "\\")) {
			out[n-1] += "\n" + line
			continue
		}
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}

var shBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// indented are the blocks of a document that are indented by four columns and are commands.
func indented(text string) (out []string) {
	for _, m := range regexp.MustCompile(`(?m)(?:^    \S.*\n)+`).FindAllString(text, -1) {
		out = append(out, regexp.MustCompile(`(?m)^    `).ReplaceAllString(m, ""))
	}
	return out
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(daemon.Root(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every command of the documents goes well as it stands there.
func TestCommands(t *testing.T) {
	for _, doc := range []struct {
		name   string
		before []string // what the document takes for granted
		change func(command string) string
		fails  string // part of commands that may end badly: what they look for isn't here
	}{
		{"docs/cli.md", nil, nil, ""},
		{"docs/api.md", []string{"box app on hello"}, nil, ""},
		{"docs/network.md", []string{"box task new --wait --worker fake --host packages.example.org --prompt 'step x' 'Fix the build'"},
			nil, "box net test"},
		{"docs/script.md", nil, nil, ""},
		{"docs/permissions.md", []string{"box app on hello"}, func(c string) string { return strings.ReplaceAll(c, "weather", "hello") }, ""},
		{"docs/broker.md", nil, func(c string) string {
			return fmt.Sprintf("box task new --wait --worker fake --prompt 'run %s | grep -q steps' 'In a task'", c)
		}, ""},
	} {
		t.Run(doc.name, func(t *testing.T) {
			s := newSession(t)
			text := read(t, doc.name)
			var blocks []string
			for _, m := range shBlock.FindAllStringSubmatch(text, -1) {
				blocks = append(blocks, m[1])
			}
			for _, b := range indented(regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(text, "")) {
				blocks = append(blocks, b)
			}
			if len(blocks) == 0 {
				t.Fatal("no command is found in it")
			}
			for _, c := range doc.before {
				if out, err := s.run(c); err != nil {
					t.Fatalf("%s: %v\n%s", c, err, out)
				}
			}
			for _, b := range blocks {
				for _, c := range commands(b) {
					run := c
					if doc.change != nil {
						run = doc.change(c)
					}
					out, err := s.run(run)
					bad := err != nil && (doc.fails == "" || !strings.Contains(c, doc.fails))
					if bad || strings.HasPrefix(out, `{"error"`) || strings.Contains(out, "usage:") {
						t.Errorf("%s: %v\n%s", c, err, out)
					}
				}
			}
		})
	}
}

// Every other document that shows commands is run by a test that is named here.
func TestDocsWithCommandsAreRun(t *testing.T) {
	elsewhere := map[string]string{
		"docs/apps.md": "test/tracks", "docs/cli.md": "here", "docs/api.md": "here", "docs/network.md": "here", "docs/permissions.md": "here", "docs/broker.md": "here", "docs/script.md": "here",
	}
	files, err := filepath.Glob(filepath.Join(daemon.Root(t), "docs", "*.md"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		name := "docs/" + filepath.Base(f)
		text := read(t, name)
		shows := strings.Contains(text, "```sh") || regexp.MustCompile(`(?m)^    (?:\$ )?(?:box|curl|bin/|make|go) `).MatchString(text)
		if shows && elsewhere[name] == "" {
			t.Errorf("%s shows commands, and no test runs them", name)
		}
	}
}

// What README.md shows is what its commands print, but for ids, times, hashes and how the columns are laid out.
func TestReadme(t *testing.T) {
	s := newSession(t)
	s.quiet = true
	var story string
	for _, b := range indented(read(t, "README.md")) {
		if strings.HasPrefix(b, "$ ") {
			story = b
			break
		}
	}
	if story == "" {
		t.Fatal("README.md has no block that begins with $")
	}
	ids := map[string]string{} // of the document, and what they are here
	for _, part := range regexp.MustCompile(`(?m)^\$ `).Split(story, -1)[1:] {
		lines := strings.SplitAfter(part, "\n")
		n := 1
		for strings.Count(strings.Join(lines[:n], ""), "'")%2 == 1 {
			n++
		}
		command, shown := strings.TrimSpace(strings.Join(lines[:n], "")), strings.Join(lines[n:], "")
		for doc, here := range ids {
			command = strings.ReplaceAll(command, doc, here)
		}
		out, err := s.run(command)
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		for i, id := range taskID.FindAllString(shown, -1) {
			if here := taskID.FindAllString(out, -1); i < len(here) && ids[id] == "" {
				ids[id] = here[i]
			}
		}
		if got, want := plain(out, nil), plain(shown, ids); got != want {
			t.Errorf("%s prints\n%s\nand README.md shows\n%s", command, got, want)
		}
	}
}

// plain is an output without what differs from run to run.
func plain(text string, ids map[string]string) string {
	for doc, here := range ids {
		text = strings.ReplaceAll(text, doc, here)
	}
	for _, r := range []struct{ from, to string }{
		{` +`, " "}, {`(?m)^ | $`, ""}, {`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`, "TIME"}, {`\b[0-9a-f]{64}\b`, "HASH"}, {`(?m)^(\d+ B )\d+s`, "${1}AGE"},
		{`(?m)^\d+ TIME`, "N TIME"}, {`\d+ lines`, "N lines"},
	} {
		text = regexp.MustCompile(r.from).ReplaceAllString(text, r.to)
	}
	var out []string
	for line := range strings.Lines(strings.TrimSpace(text)) {
		// The same try again and again is one line, however often a program makes it.
		if line = strings.TrimSpace(line); !strings.Contains(line, " blocked ") || !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

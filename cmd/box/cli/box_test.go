package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gurtos/cmd/box/cli"
	"gurtos/core/box"
	"gurtos/core/config"
	"gurtos/sandbox/sandboxtest"
	"gurtos/test/planted"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

// daemon is a whole box with real sandboxes in a home of its own.
type daemon struct {
	t    *testing.T
	home string
	conf config.Config
	end  func()
}

func start(t *testing.T, home string) *daemon {
	t.Helper()
	if home == "" {
		var err error
		if home, err = os.MkdirTemp("/tmp", "box"); err != nil { // short: a socket's path has 107 bytes
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(home) })
	}
	values := planted.New()
	if _, err := os.Lstat(filepath.Join(home, planted.Vault)); err != nil {
		values.Write(t, home)
	}
	conf := config.Config{
		Home: home, Port: freePort(t), LANPlain: freePort(t), Vault: filepath.Join(home, "vault.env"),
		TasksRoot: sandboxtest.TasksRoot(t), Tools: sandboxtest.Tools(t), ApprovalWait: time.Minute,
	}
	logger := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	ctx, stop := context.WithCancel(context.Background())
	b, err := box.Open(ctx, box.Options{Config: conf, Log: logger})
	if err != nil {
		stop()
		t.Fatal(err)
	}
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- b.Serve(ctx, func() { close(ready) }) }()
	<-ready
	d := &daemon{t: t, home: home, conf: conf}
	over := false
	d.end = func() {
		if over {
			return
		}
		over = true
		values.API(t, unixClient(filepath.Join(home, "box.sock")), "http://box")
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		values.Files(t, home)
	}
	t.Cleanup(d.end)
	t.Setenv("BOX_HOME", home)
	t.Setenv("BOX_URL", "")
	t.Setenv("BOX_TOKEN", "")
	return d
}

func unixClient(socket string) *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// box runs a command that has to go well and gives its output.
func (d *daemon) box(args ...string) string { d.t.Helper(); return d.boxWith("", args...) }

func (d *daemon) boxWith(in string, args ...string) string {
	d.t.Helper()
	out, errs, code := try(d.t, in, args...)
	if code != 0 {
		d.t.Fatalf("box %s: exit code %d: %s", strings.Join(args, " "), code, errs)
	}
	return out
}

func try(t *testing.T, in string, args ...string) (out, errs string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	code = cli.Main(ctx, cli.Env{In: strings.NewReader(in), Out: &o, Err: &e, Get: os.Getenv}, args)
	return o.String(), e.String(), code
}

// json runs a command with --json and reads what it prints.
func (d *daemon) json(v any, args ...string) {
	d.t.Helper()
	out := d.box(append([]string{"--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), v); err != nil {
		d.t.Fatalf("box --json %s: %v in %s", strings.Join(args, " "), err, out)
	}
}

// task runs a fake task to its end and gives its id.
func (d *daemon) task(title, prompt string) string {
	d.t.Helper()
	var t struct{ ID, State string }
	d.json(&t, "task", "new", "--worker", "fake", "--prompt", prompt, "--wait", title)
	if t.State != "done" {
		d.t.Fatalf("%s is %s", title, t.State)
	}
	return t.ID
}

// untilAsked follows the log until a task asks, and gives the question's id.
func (d *daemon) untilAsked(id string) string {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	r, w := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cli.Main(ctx, cli.Env{In: strings.NewReader(""), Out: w, Err: io.Discard, Get: os.Getenv}, []string{"--json", "log", "-f", "--task", id})
		w.Close()
	}()
	question := ""
	for lines := json.NewDecoder(r); question == ""; {
		var ev struct {
			Type     string
			Approval struct{ ID string }
		}
		if err := lines.Decode(&ev); err != nil {
			d.t.Fatalf("%s never asked: %v", id, err)
		}
		if ev.Type == "approval.asked" {
			question = ev.Approval.ID
		}
	}
	cancel()
	r.Close()
	<-ended
	return question
}

// clone is a git clone of this project's own repository.
func clone(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "clone")
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "git", "clone", "-q", "--no-hardlinks", root, dir).CombinedOutput(); err != nil {
		t.Fatalf("git clone: %v\n%s", err, out)
	}
	return dir
}

// The story of the box on real input: a project is put in, task A builds and
// commits, task B goes on from there, A is undone, and the log tells it all.
func TestProject(t *testing.T) {
	d := start(t, "")
	out := d.box("workspace", "put", "home", clone(t))
	if !strings.Contains(out, "files, ") || !strings.Contains(out, "box task undo t") {
		t.Errorf("put: %q", out)
	}
	if got := d.box("workspace", "cat", "home", "go.mod"); !strings.HasPrefix(got, "module gurtos") {
		t.Errorf("go.mod: %q", got)
	}
	a := d.task("A", `run printf '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n' > hello.c && gcc -O1 -o hello hello.c && ./hello > said.txt
run git add hello.c && git -c user.name=A -c user.email=a@example.com commit -qm "hello"
run git log --format=%s -1 > last.txt`)
	b := d.task("B", `run grep -q hello said.txt && cat hello.c > /dev/null
append said.txt and B
write b.txt from B`)
	var shown struct{ Layers []string }
	d.json(&shown, "task", "show", b)
	if len(shown.Layers) != 2 || shown.Layers[0] != a {
		t.Errorf("B saw %v, not A first", shown.Layers)
	}
	if got := d.box("task", "diff", b, "said.txt"); !strings.Contains(got, "+and B") || strings.Contains(got, "+hello") {
		t.Errorf("B's diff: %s", got)
	}
	if got := d.box("task", "undo", "--preview", a); !strings.Contains(got, "hello.c") || !strings.Contains(got, "said.txt") || !strings.Contains(got, b) {
		t.Errorf("preview: %s", got)
	}
	d.box("task", "undo", a)
	for _, gone := range []string{"hello.c", "hello", "last.txt"} {
		if _, _, code := try(t, "", "workspace", "cat", "home", gone); code == 0 {
			t.Errorf("A's %s is still there", gone)
		}
	}
	if got := d.box("workspace", "cat", "home", "b.txt"); !strings.Contains(got, "from B") {
		t.Errorf("B's file: %q", got)
	}
	if got := d.box("workspace", "cat", "home", "said.txt"); got != "hello\nand B\n" {
		t.Errorf("the file that B edited: %q", got)
	}
	story := d.box("task", "log", a)
	for _, part := range []string{"created: A", "running", "step: ", "done", "undone"} {
		if !strings.Contains(story, part) {
			t.Errorf("A's story lacks %q:\n%s", part, story)
		}
	}
	if got := d.box("log", "verify"); !strings.Contains(got, "whole") {
		t.Errorf("verify: %s", got)
	}
	d.end()
	if got := d.box("log", "verify"); !strings.Contains(got, "whole") {
		t.Errorf("verify without boxd: %s", got)
	}
}

// A computer away from the box pairs itself and does the same over HTTP, until
// it is removed.
func TestAwayFromTheBox(t *testing.T) {
	d := start(t, "")
	var code struct{ Code, URL string }
	d.json(&code, "pair", "--role", "device")
	if !strings.HasSuffix(code.URL, "/#pair="+code.Code) {
		t.Errorf("url %q", code.URL)
	}
	t.Setenv("BOX_URL", fmt.Sprintf("http://127.0.0.1:%d", d.conf.LANPlain))
	if _, errs, exit := try(t, "", "task", "list"); exit == 0 || !strings.Contains(errs, "set BOX_TOKEN") {
		t.Errorf("without a token: %q", errs)
	}
	token := strings.TrimPrefix(strings.TrimSpace(d.box("pair", "--with", code.Code, "--name", "Laptop")), "export BOX_TOKEN=")
	t.Setenv("BOX_TOKEN", token)
	id := d.task("Away", "write away.txt x")
	if got := d.box("task", "list"); !strings.Contains(got, id) || !strings.Contains(got, "Away") {
		t.Errorf("list: %s", got)
	}
	if _, errs, exit := try(t, "", "vault", "list"); exit == 0 || !strings.Contains(errs, "Laptop is not paired as the owner") {
		t.Errorf("vault: %q", errs)
	}
	t.Setenv("BOX_URL", "")
	var list []struct{ ID, Name string }
	d.json(&list, "devices")
	if len(list) != 1 || list[0].Name != "Laptop" {
		t.Fatalf("devices %v", list)
	}
	d.box("devices", "remove", list[0].ID)
	t.Setenv("BOX_URL", fmt.Sprintf("http://127.0.0.1:%d", d.conf.LANPlain))
	if _, errs, exit := try(t, "", "task", "list"); exit == 0 || !strings.Contains(errs, "BOX_TOKEN was refused") {
		t.Errorf("after the removal: %q", errs)
	}
}

// Every command gives what its help says, with and without --json.
func TestCommandsOnABox(t *testing.T) {
	d := start(t, "")
	dir := t.TempDir()
	for name, text := range map[string]string{"one.txt": "one\n", "sub/two.txt": "two\n", "sub/run.sh": "#!/bin/sh\n"} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("one.txt", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	d.box("workspace", "new", "site")
	three := filepath.Join(t.TempDir(), "three.txt")
	if err := os.WriteFile(three, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	d.box("workspace", "put", "--to", "deep/er", "site", dir, three)
	if got := d.box("workspace", "ls", "site", "deep/er"); !strings.Contains(got, "link@") || !strings.Contains(got, "sub/") || !strings.Contains(got, "one.txt") || !strings.Contains(got, "three.txt") {
		t.Errorf("ls: %s", got)
	}
	d.box("task", "new", "--worker", "fake", "--workspace", "site", "--wait", "--prompt", "run test -x deep/er/sub/run.sh -a -L deep/er/link", "Modes")
	d.box("workspace", "rm", "site", "deep/er/sub")
	if _, errs, code := try(t, "", "workspace", "ls", "site", "deep/er/sub"); code == 0 || !strings.Contains(errs, "deep/er/sub") {
		t.Errorf("ls of what was deleted: %q", errs)
	}
	if got := d.box("workspace", "list"); !strings.Contains(got, "site") {
		t.Errorf("workspaces: %s", got)
	}

	if got := d.box("settings", "theme=dark", "keepDays=7"); !strings.Contains(got, `"dark"`) {
		t.Errorf("settings: %s", got)
	}
	if _, errs, code := try(t, "", "settings", "theme=blue"); code == 0 || !strings.Contains(errs, "theme: one of system") {
		t.Errorf("settings: %q", errs)
	}
	d.boxWith("planted-value-1\n", "vault", "set", "SOME_KEY")
	if got := d.box("vault", "list"); !strings.Contains(got, "SOME_KEY") || strings.Contains(got, "planted") {
		t.Errorf("vault: %s", got)
	}
	d.box("vault", "delete", "SOME_KEY")

	var asks struct{ ID string }
	d.json(&asks, "task", "new", "--worker", "fake", "--prompt", "ask May I?\nwrite ok.txt yes", "Asks")
	question := d.untilAsked(asks.ID)
	if got := d.box("approve", "--reason", "why not", question); !strings.Contains(got, "approved by box screen") {
		t.Errorf("approve: %s", got)
	}
	for _, json := range [][]string{nil, {"--json"}} {
		if out, errs, code := try(t, "", append(json, "deny", question)...); code != 3 || !strings.Contains(errs, "does not stand: box screen had answered before") || !strings.Contains(out, "approved") {
			t.Errorf("a later answer that is the opposite: %d %q %q", code, out, errs)
		}
		if out, errs, code := try(t, "", append(json, "approve", question)...); code != 0 || errs != "" || !strings.Contains(out, "approved") {
			t.Errorf("a later answer that is the same: %d %q %q", code, out, errs)
		}
	}
	if got := d.box("task", "log", "-f", asks.ID); !strings.Contains(got, "asks: May I?") || !strings.Contains(got, "says yes: why not") || !strings.Contains(got, "done") {
		t.Errorf("task log -f: %s", got)
	}

	printed := d.task("Prints", "write said.txt Said\nread said.txt\nrun echo ran\ntry echo tried; exit 7\ntrycall none.such {}\ntryfetch http://nowhere.invalid/")
	for _, follow := range [][]string{{"task", "log"}, {"task", "log", "-f"}} {
		got := d.box(append(follow, printed)...)
		for _, want := range []string{"step: read said.txt\n        Said\n", "step: run echo ran\n        ran\n",
			"step: try echo tried; exit 7\n        exit code 7\n        tried\n", "step: trycall none.such {}\n        failed: ", "step: tryfetch http://nowhere.invalid/\n        failed: "} {
			if !strings.Contains(got, want) {
				t.Errorf("%s has not %q: %s", follow, want, got)
			}
		}
	}
	if got := d.box("log"); strings.Contains(got, "        exit code 7") {
		t.Errorf("the log has more than a line an event: %s", got)
	}
	var undone struct{ ID string }
	d.json(&undone, "task", "new", "--worker", "fake", "--prompt", "ask May I?", "Undone")
	question = d.untilAsked(undone.ID)
	d.box("task", "undo", undone.ID)
	if _, errs, code := try(t, "", "approve", question); code != 3 || !strings.Contains(errs, "does not stand: ") {
		t.Errorf("a yes to what an undo denied: %d %q", code, errs)
	}
	if _, errs, code := try(t, "", "deny", question); code != 0 {
		t.Errorf("a no to what an undo denied: %d %q", code, errs)
	}

	d.box("pause")
	if got := d.box("status"); !strings.Contains(got, "paused") {
		t.Errorf("status: %s", got)
	}
	var waits struct{ ID string }
	d.json(&waits, "task", "new", "--worker", "fake", "--prompt", "step x", "Waits")
	if got := d.box("task", "stop", waits.ID); !strings.Contains(got, "failed") {
		t.Errorf("stop: %s", got)
	}
	d.box("resume")
	_, errs, code := try(t, "", "task", "new", "--worker", "fake", "--wait", "--prompt", "fail because", "Fails")
	if code != 1 || !strings.Contains(errs, "because") {
		t.Errorf("a task that fails: %d %q", code, errs)
	}
	if got := d.box("log", "--limit", "3"); strings.Count(got, "\n") != 3 {
		t.Errorf("log: %s", got)
	}
	if got := d.box("spend"); !strings.Contains(got, "COST") {
		t.Errorf("spend: %s", got)
	}

	// What the box can tell to be a mistake is no empty answer.
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"log", "--task", "nosuch"}, "there is no task nosuch"},
		{[]string{"log", "-f", "--task", "nosuch"}, "there is no task nosuch"},
		{[]string{"task", "list", "--workspace", "nope"}, "there is no workspace nope"},
		{[]string{"spend", "--from", "2026-12-02", "--to", "2026-12-01"}, "from: 2026-12-02 is after to, 2026-12-01"},
	} {
		if out, errs, code := try(t, "", c.args...); code != 1 || out != "" || !strings.Contains(errs, c.says) {
			t.Errorf("%q: %d %q %q, want %q", c.args, code, out, errs, c.says)
		}
	}
	d.box("workspace", "new", "fresh")
	d.box("task", "list", "--workspace", "fresh")

	var any any
	for _, args := range [][]string{{"status"}, {"task", "list"}, {"task", "show", asks.ID}, {"task", "log", asks.ID}, {"task", "diff", asks.ID, "ok.txt"},
		{"task", "undo", "--preview", asks.ID}, {"approvals", "--all"}, {"log"}, {"log", "verify"}, {"workspace", "list"}, {"workspace", "ls", "site"},
		{"pair"}, {"devices"}, {"vault", "list"}, {"settings"}, {"pause"}, {"resume"}, {"spend"}} {
		d.json(&any, args...)
	}
}

// What boxd refuses to start with, in a sentence that says what to do.
func TestStartRefusals(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, c *config.Config)
		says  string
	}{
		{"vault that others may read", func(t *testing.T, c *config.Config) { vault(t, c, "A=12345678\n", 0o644) }, "has mode 0644"},
		{"vault with a line that is none", func(t *testing.T, c *config.Config) { vault(t, c, "A=12345678\nsecret text\n", 0o600) }, "line 2 is no KEY=value"},
		{"vault that is not there", func(t *testing.T, c *config.Config) { c.VaultNamed = true }, "install -m 600"},
		{"no tasks root", func(t *testing.T, c *config.Config) { c.TasksRoot = filepath.Join(c.Home, "none") }, "make build"},
		{"port in use", func(t *testing.T, c *config.Config) {
			l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", c.Port))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
		}, "in use by another program"},
	} {
		t.Run(c.name, func(t *testing.T) {
			home, err := os.MkdirTemp("/tmp", "box")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(home) })
			conf := config.Config{
				Home: home, Port: freePort(t), Vault: filepath.Join(home, "vault.env"), TasksRoot: sandboxtest.TasksRoot(t), Tools: sandboxtest.Tools(t),
			}
			c.spoil(t, &conf)
			_, err = box.Open(t.Context(), box.Options{Config: conf, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret text") {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

func vault(t *testing.T, c *config.Config, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(c.Vault, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(c.Vault, mode); err != nil {
		t.Fatal(err)
	}
}

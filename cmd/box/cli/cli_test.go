package cli

import (
	"bytes"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"gurtos/core/actionlog"
)

var update = flag.Bool("update", false, "write the generated part of docs/cli.md")

// A command that helps poorly fails here.
func TestEveryCommandHelps(t *testing.T) {
	names := map[string]bool{}
	for _, c := range Commands {
		if names[c.Name] {
			t.Errorf("%s is there twice", c.Name)
		}
		names[c.Name] = true
		if c.Run == nil {
			t.Errorf("%s does nothing", c.Name)
		}
		if c.Short == "" || !unicode.IsUpper(rune(c.Short[0])) || strings.HasSuffix(c.Short, ".") || len(c.Short) > 50 {
			t.Errorf("%s: short help %q: a capital first, no full stop, at most 50 characters", c.Name, c.Short)
		}
		if len(c.Long) < len(c.Short)+10 || !strings.ContainsAny(c.Long, ".:") {
			t.Errorf("%s: long help %q says too little", c.Name, c.Long)
		}
		for _, line := range strings.Split(c.help(), "\n") {
			if len([]rune(line)) > 100 {
				t.Errorf("%s: help has a line of %d characters: %s", c.Name, len([]rune(line)), line)
			}
		}
		if c.Least > 0 && c.Args == "" || c.Most >= 0 && c.Least > c.Most {
			t.Errorf("%s: takes %d to %d arguments, says %q", c.Name, c.Least, c.Most, c.Args)
		}
		if c.Flags != nil {
			set := flag.NewFlagSet("", flag.ContinueOnError)
			c.Flags(set)
			set.VisitAll(func(f *flag.Flag) {
				if len(f.Usage) < 8 {
					t.Errorf("%s --%s: %q says too little", c.Name, f.Name, f.Usage)
				}
			})
		}
		for _, args := range [][]string{append(strings.Fields(c.Name), "-h"), append([]string{"help"}, strings.Fields(c.Name)...)} {
			out, errs, code := call(t, args...)
			if code != 0 || !strings.HasPrefix(out, "Usage: box "+c.Name) || errs != "" {
				t.Errorf("%q: %d %q %q", args, code, out, errs)
			}
		}
	}
	// What people's scripts rely on.
	for _, name := range []string{"task new", "task list", "task show", "task undo", "task stop", "task log", "log", "log verify",
		"workspace new", "workspace put", "workspace cat", "workspace ls", "pair", "devices", "approve", "deny",
		"vault set", "vault list", "vault delete", "settings", "pause", "resume", "status"} {
		if !names[name] {
			t.Errorf("there is no box %s", name)
		}
	}
}

func call(t testing.TB, args ...string) (out, errs string, code int) {
	t.Helper()
	return callWith(t, "", args...)
}

func callWith(t testing.TB, in string, args ...string) (out, errs string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	code = Main(t.Context(), Env{In: strings.NewReader(in), Out: &o, Err: &e, Get: os.Getenv}, args)
	return o.String(), e.String(), code
}

func TestMistakes(t *testing.T) {
	t.Setenv("BOX_URL", "")
	t.Setenv("BOX_HOME", t.TempDir())
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"nope"}, 2, "there is no `box nope`"},
		{[]string{"task", "nope"}, 2, "there is no `box task nope`. There are `box task new`"},
		{[]string{"help", "nope"}, 2, "there is no `box nope`"},
		{[]string{"task", "show"}, 2, "usage: box task show ID"},
		{[]string{"task", "show", "a", "b"}, 2, "usage: box task show ID"},
		{[]string{"workspace", "put"}, 2, "NAME FOLDER|FILE... (`box help workspace put` tells more)"},
		{[]string{"task", "list", "--bogus"}, 2, "bogus"},
		{[]string{"task", "new", "--prompt", "x", "--file", "y", "T"}, 2, "--prompt and --file"},
		{[]string{"task", "new", "--prompt", "x", "--title", "y", "T"}, 2, "title is given twice"},
		{[]string{"task", "new", "--budget", "x", "--prompt", "x", "T"}, 2, "whole number"},
		{[]string{"settings", "theme"}, 2, "NAME=VALUE"},
		{[]string{"settings", "theme=dark", "theme=light"}, 2, "theme is there twice"},
		{[]string{"app", "permissions", "hello", "money=on", "money=off"}, 2, "money is there twice"},
		{[]string{"pair", "--name", "x"}, 2, "--name is the new device's own"},
		{[]string{"pair", "--with", "12345678", "--role", "owner"}, 2, "--role belongs to the box"},
		{[]string{"task", "new", "--prompt", "x"}, 2, "a title is needed"},
		{[]string{"task", "new", "--prompt", "x", " "}, 2, "a title is needed"},
		{[]string{"task", "new", "--prompt", "x", "--title", ""}, 2, "a title is needed"},
		{[]string{"workspace", "cat", "--json", "home", "a"}, 2, "have no JSON form"},
		{[]string{"--json", "workspace", "cat", "home", "a"}, 2, "have no JSON form"},
		{[]string{"workspace", "put", "home", "/dev/null"}, 1, "/dev/null is no file and no folder"},
		{[]string{"workspace", "put", "home", "/no/such/folder"}, 1, "/no/such/folder"},
		{[]string{"status"}, 1, "no box runs on this machine with BOX_HOME"},
		{[]string{"log", "verify"}, 1, "log"},
	} {
		out, errs, code := call(t, c.args...)
		if code != c.code || !strings.Contains(errs, c.says) || !strings.HasPrefix(errs, "box: ") || strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: %d %q %q, want %d with %q", c.args, code, out, errs, c.code, c.says)
		}
	}
}

func TestUnreached(t *testing.T) {
	for _, c := range []struct{ url, says string }{
		{"ftp://x", "an address such as"},
		{"192.168.1.20", "an address such as"},
		{"http://127.0.0.1:1", "nothing answers at http://127.0.0.1:1"},
		{"http://box.invalid", "no machine named box.invalid"},
	} {
		t.Setenv("BOX_URL", c.url)
		if _, errs, code := call(t, "status"); code == 0 || !strings.Contains(errs, c.says) {
			t.Errorf("%s: %d %q, want %q", c.url, code, errs, c.says)
		}
	}
}

func TestWrongEnvironment(t *testing.T) {
	t.Run("a token of two lines", func(t *testing.T) {
		t.Setenv("BOX_URL", "http://127.0.0.1:1")
		t.Setenv("BOX_TOKEN", "da\nb")
		if _, errs, code := call(t, "status"); code != 2 || !strings.Contains(errs, "BOX_TOKEN holds") {
			t.Errorf("%d %q", code, errs)
		}
	})
	t.Run("https", func(t *testing.T) {
		plain := httptest.NewServer(http.NotFoundHandler())
		defer plain.Close()
		t.Setenv("BOX_URL", strings.Replace(plain.URL, "http:", "https:", 1))
		if _, errs, code := call(t, "status"); code != 1 || !strings.Contains(errs, "set BOX_URL to "+plain.URL) {
			t.Errorf("%d %q", code, errs)
		}
	})
	t.Run("a log with nothing in it", func(t *testing.T) {
		home := t.TempDir()
		t.Setenv("BOX_HOME", home)
		if err := os.WriteFile(filepath.Join(home, "log.jsonl"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, _, code := call(t, "log", "verify"); code != 0 || !strings.HasPrefix(out, "There is nothing in the log") {
			t.Errorf("%d %q", code, out)
		}
		if out, errs, code := call(t, "log", "verify", "--head", "2:"+strings.Repeat("ab", 32)); code != 1 || !strings.Contains(out, "cut off the end") {
			t.Errorf("%d %q %q", code, out, errs)
		}
	})
	t.Run("a BOX_HOME without a log", func(t *testing.T) {
		t.Setenv("BOX_HOME", t.TempDir())
		if _, errs, code := call(t, "log", "verify"); code != 1 || !strings.Contains(errs, "there is no action log in") {
			t.Errorf("%d %q", code, errs)
		}
	})
}

// What is wrong with an app stands below the list, and makes no column wider.
func TestAppListWithErrors(t *testing.T) {
	long := strings.Repeat("very wrong, ", 20)
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `[{"name":"one","title":"One","on":true,"error":%q},{"name":"two","title":"Two","error":"gone"},{"name":"three","title":"Three","on":true}]`, long)
	}))
	defer plain.Close()
	t.Setenv("BOX_URL", plain.URL)
	out, errs, code := call(t, "app", "list")
	table, below, _ := strings.Cut(out, "\n\n")
	for _, line := range strings.Split(table, "\n") {
		if len(line) > 60 {
			t.Errorf("%d characters: %s", len(line), line)
		}
	}
	if code != 0 || errs != "" || !strings.Contains(table, "on, with an error ") || !strings.Contains(table, "off, with an error ") ||
		!strings.Contains(below, "one: "+long) || !strings.Contains(below, "two: gone") || strings.Contains(below, "three") {
		t.Errorf("%d %q %s", code, errs, out)
	}
}

func TestFlagsStandAnywhere(t *testing.T) {
	s := &session{cmd: &Command{Name: "x"}, set: flag.NewFlagSet("x", flag.ContinueOnError)}
	s.set.Bool("f", false, "")
	s.set.String("n", "", "")
	if err := s.parse([]string{"a", "-f", "b", "--n", "1", "--", "-c", "--d"}); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(s.args) != "[a b -c --d]" || !s.on("f") || s.value("n") != "1" {
		t.Errorf("%q %v %q", s.args, s.on("f"), s.value("n"))
	}
}

func TestTextOfTasksSteersNoTerminal(t *testing.T) {
	if got := visible("a\x1b[2Jb\x07\u009bc\nd\u202ee\u2066"); strings.ContainsAny(got, "\x1b\x07\u009b\n\u202e\u2066") {
		t.Errorf("%q", got)
	}
	for text, want := range map[string]string{
		"a\x1b[31mred\x1b[0m b":                                         "ared b",
		"\x1b[38;2;1;2;3mx\x1b[?25ly\u009b1mz":                          "xyz",
		"\x1b]0;title\x07a \x1b]8;;http://x/\x1b\\link\x1b]8;;\x1b\\ b": "a link b",
		"\x1b(Ba\x1bMb\x1b7c\x1bPq#0\x1b\\d":                            "abcd",
		"an unfinished \x1b":                                            "an unfinished  ",
		"an unfinished \x1b[3":                                          "an unfinished  [3",
		"none \x1bworker":                                               "none  worker",
		"[31m and ]0; that nothing begins":                              "[31m and ]0; that nothing begins",
	} {
		if got := visible(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func TestEventsInWords(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{`{"seq":1,"at":"2026-12-01T05:00:00.000Z","type":"note","track":"box","data":{"what":"settings","by":"Ada","set":{"keepDays":7}},"prev":""}`, `box notes settings: by Ada, set {"keepDays":7}`},
		{`{"seq":1,"at":"2026-12-01T05:00:00.000Z","type":"note","track":"wallet","data":[1],"prev":""}`, `wallet notes [1]`},
		{`{"seq":1,"at":"2026-12-01T05:00:00.000Z","type":"task.state","task":"t1","state":"failed","error":"Stopped.","prev":""}`, `failed: Stopped.`},
		{`{"seq":1,"at":"2026-12-01T05:00:00.000Z","type":"approval.answered","task":"t1","id":"a","approved":false,"by":"undo","prev":""}`, `undo says no`},
		{`{"seq":1,"at":"2026-12-01T05:00:00.000Z","type":"cost","cents":0.1,"what":"model","prev":""}`, `cost 0.1¢ for model`},
		{`{"seq":1,"at":"2026-12-01T05:00:00.000Z","type":"net.blocked","task":"t1","host":"x:1","prev":""}`, `blocked x:1`},
	} {
		ev, err := actionlog.Decode([]byte(c.line))
		if err != nil {
			t.Fatal(err)
		}
		if got := what(ev); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

const docsPath = "../../../docs/cli.md"

// docs/cli.md holds every command's help.
func TestDocsAreCurrent(t *testing.T) {
	have, err := os.ReadFile(docsPath)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- begin commands: made by go generate ./cmd/box/cli -->\n", "<!-- end commands -->\n"
	before, rest, ok1 := strings.Cut(string(have), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatal("docs/cli.md has no marks for the commands")
	}
	var b strings.Builder
	for _, c := range Commands {
		fmt.Fprintf(&b, "### box %s\n\n```text\n%s```\n\n", c.Name, c.help())
	}
	want := before + begin + b.String() + end + after
	if want == string(have) {
		return
	}
	if !*update {
		t.Fatal("docs/cli.md is not what the code says: run go generate ./cmd/box/cli")
	}
	if err := os.WriteFile(docsPath, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The commands that docs/cli.md shows outside of the generated part exist.
func TestDocsNameRealCommands(t *testing.T) {
	text, err := os.ReadFile(docsPath)
	if err != nil {
		t.Fatal(err)
	}
	hand, _, _ := strings.Cut(string(text), "<!-- begin")
	for _, m := range regexp.MustCompile(`(?m)^\s*(?:sudo )?box ([a-z]+(?: [a-z]+)?)`).FindAllStringSubmatch(hand, -1) {
		if cmd, _ := find(strings.Fields(m[1])); cmd == nil {
			t.Errorf("docs/cli.md names box %s, which is none", m[1])
		}
	}
}

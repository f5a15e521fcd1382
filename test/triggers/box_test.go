package triggers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gurtos/core/box"
	"gurtos/core/config"
	"gurtos/core/task"
	"gurtos/portal/kit"
	"gurtos/sandbox/sandboxtest"
	"gurtos/test/clock"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

// generous is how long a test waits for what must come, on a machine with much to do.
const generous = 3 * time.Minute

// repo is the source tree.
const repo = "../.."

// world is a box whose clock the test drives.
type world struct {
	t     *testing.T
	root  string // with core/ and tracks/
	home  string
	clock *clock.Virtual
	http  *http.Client
	stop  func()
}

// newWorld starts a box at a time, in UTC, with apps: their track.ts by name.
func newWorld(t *testing.T, now string, apps map[string]string) *world {
	t.Helper()
	at, err := time.Parse("2006-01-02 15:04", now)
	must(t, err)
	home, err := os.MkdirTemp("/tmp", "trig") // short: a socket's path has 107 bytes
	must(t, err)
	w := &world{t: t, root: t.TempDir(), home: home, clock: clock.At(at)}
	for _, dir := range []string{w.home, w.root} {
		must(t, os.Chmod(dir, 0o711))
	}
	for _, f := range []string{"contract.ts", "triggers.ts"} {
		b, err := os.ReadFile(filepath.Join(repo, "core", f))
		must(t, err)
		w.write("core/"+f, string(b))
	}
	must(t, os.MkdirAll(filepath.Join(w.root, "tracks"), 0o755))
	for name, text := range apps {
		w.write("tracks/"+name+"/track.ts", text)
	}
	sock := filepath.Join(home, "box.sock")
	w.http = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", sock)
	}}}
	w.start()
	t.Cleanup(func() {
		w.stop()
		os.RemoveAll(home)
	})
	for name := range apps {
		w.do("PUT", "/api/apps/"+name, `{"on":true}`, 200)
	}
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.root, name)
	must(w.t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(w.t, os.WriteFile(path, []byte(text), 0o644))
}

// logs is what the box prints, into the test's own log.
type logs struct{ t *testing.T }

func (l logs) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}

func (w *world) start() {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(w.t, err)
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	root, err := filepath.Abs(filepath.Join(repo, ".cache", "tasks"))
	must(w.t, err)
	b, err := box.Open(w.t.Context(), box.Options{
		Config: config.Config{
			Home: w.home, Port: port, Vault: filepath.Join(w.home, "vault.env"), Tracks: filepath.Join(w.root, "tracks"), SDK: filepath.Join(w.root, "core"),
			TasksRoot: root, Tools: sandboxtest.Tools(w.t), ApprovalWait: time.Second,
		},
		// A Droid that does what it is told as worker fake does.
		Workers: map[string]task.Worker{"droid": {Args: []string{"/usr/lib/gurtos/worker", "fake"}}},
		Clock:   w.clock, Kit: kit.Files, Log: slog.New(slog.NewTextHandler(logs{w.t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	must(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := b.Serve(ctx, func() { close(ready) }); err != nil {
			w.t.Error(err)
		}
	})
	<-ready
	w.stop = func() { cancel(); wg.Wait() }
}

// off is the box off for a time.
func (w *world) off(d time.Duration) {
	w.t.Helper()
	w.stop()
	w.clock = clock.At(w.clock.Now().Add(d))
	w.start()
}

// do makes a request as the box's own screen.
func (w *world) do(method, path, body string, status int, headers ...string) string {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, "http://box"+path, strings.NewReader(body))
	must(w.t, err)
	if strings.HasPrefix(body, "{") {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := w.http.Do(req)
	must(w.t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	must(w.t, err)
	if res.StatusCode != status {
		w.t.Fatalf("%s %s: %d %s", method, path, res.StatusCode, b)
	}
	return string(b)
}

func get[T any](w *world, path string) T {
	w.t.Helper()
	var v T
	must(w.t, json.Unmarshal([]byte(w.do("GET", path, "", 200)), &v))
	return v
}

// line is one of the log, as far as tests look at it.
type line struct {
	Type  string
	Task  string
	Track string
	State string
	App   string
	Spec  task.Spec
	Data  json.RawMessage
}

// data is a field of a note of the box.
func (l line) data(name string) any {
	var d map[string]any
	if l.Track != "box" || json.Unmarshal(l.Data, &d) != nil {
		return nil
	}
	return d[name]
}

func (l line) what() string { return fmt.Sprint(l.data("what")) }

// until follows the action log from its start until ok takes a line.
func (w *world) until(what string, ok func(line) bool) line {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), generous)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", "http://box/api/events?after=0", nil)
	must(w.t, err)
	res, err := w.http.Do(req)
	must(w.t, err)
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	for {
		b, err := lines.ReadBytes('\n')
		if err != nil {
			w.t.Fatalf("waiting for %s: %v", what, err)
		}
		b, isData := bytes.CutPrefix(b, []byte("data: "))
		var l line
		if isData && json.Unmarshal(b, &l) == nil && ok(l) {
			return l
		}
	}
}

// nth takes the nth line that ok takes.
func nth(n int, ok func(line) bool) func(line) bool {
	return func(l line) bool {
		if ok(l) {
			n--
		}
		return n == 0
	}
}

// all are the lines of the log that ok takes, so far.
func (w *world) all(ok func(line) bool) (out []line) {
	w.t.Helper()
	for _, l := range get[[]line](w, "/api/log") {
		if ok(l) {
			out = append(out, l)
		}
	}
	return out
}

// noted waits for a note of the box.
func (w *world) noted(what string, more ...func(line) bool) line {
	w.t.Helper()
	return w.until(what, func(l line) bool {
		for _, m := range more {
			if !m(l) {
				return false
			}
		}
		return l.Type == "note" && l.Track == "box" && l.what() == what
	})
}

// created are the tasks that an app started.
func (w *world) created(app string) []line {
	w.t.Helper()
	return w.all(func(l line) bool { return l.Type == "task.created" && l.App == app })
}

func (w *world) state(id, state string) {
	w.t.Helper()
	w.until(id+" is "+state, func(l line) bool { return l.Type == "task.state" && l.Task == id && l.State == state })
}

// wake lets time pass that somebody waits for.
func (w *world) wake(d time.Duration) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), generous)
	defer cancel()
	if err := w.clock.Due(ctx, d); err != nil {
		w.t.Fatalf("nobody waits for %v: %v", d, err)
	}
	w.clock.Advance(d)
}

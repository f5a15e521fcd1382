package model

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gurtos/test/daemon"
	"gurtos/test/fixtures/messages"
	"gurtos/test/internet"
)

func TestMain(m *testing.M) { internet.Main(m) }

const trueKey = "fk-true/key+0123456789abcdef"

// spelled puts the key, as its service may know it, into what the service is to say. A task can't ask for it otherwise: it has no key.
var spelled = strings.NewReplacer("@plain@", trueKey, "@base64@", base64.StdEncoding.EncodeToString([]byte(trueKey)), "@begin@", trueKey[:9], "@end@", trueKey[9:])

// factory is Droid's service: the model's part of it, with a record of all that came.
type factory struct {
	api messages.API

	mu   sync.Mutex
	seen []string      // "HOST METHOD PATH AUTHORIZATION"
	hold chan struct{} // not nil: model calls wait until it is closed
	held chan struct{} // is told of each that waits
}

func (f *factory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.seen = append(f.seen, fmt.Sprintf("%s %s %s %s", r.Host, r.Method, r.URL.RequestURI(), r.Header.Get("Authorization")))
	hold := f.hold
	f.mu.Unlock()
	if r.URL.Path != "/api/llm/a/v1/messages" {
		fmt.Fprintf(w, `{"you":%q}`, r.Header.Get("Authorization"))
		return
	}
	if hold != nil {
		f.held <- struct{}{}
		select {
		case <-hold:
		case <-r.Context().Done():
			return
		}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(strings.NewReader(spelled.Replace(string(body))))
	r.Header.Set("X-Api-Key", strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	f.api.ServeHTTP(w, r)
}

func (f *factory) record() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.seen)
}

// holdCalls lets model calls wait; the result lets them go.
func (f *factory) holdCalls() (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	hold := make(chan struct{})
	f.hold = hold
	return sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.hold = nil
		close(hold)
	})
}

// world is a box with Droid's service outside.
type world struct {
	t    testing.TB
	home *daemon.Home
	box  *daemon.Daemon
	net  *internet.Net
	f    *factory
}

var modelbox = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "modelbox")
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "modelbox")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags=netgo,osusergo", "-ldflags=-s -w -linkmode=external -extldflags=-static", "-o", program, "../fixtures/modelbox")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building modelbox: %w\n%s", err, out)
	}
	return program, nil
})

func newWorld(t testing.TB) *world {
	w := &world{t: t, net: internet.Connect(t), f: &factory{held: make(chan struct{}, 100)}}
	w.f.api.Key = trueKey
	for i, name := range []string{"api.factory.ai", "api.eu.factory.ai", "telemetry.factory.ai", "example.com"} {
		w.net.Name(name, internet.Addr(10+i))
		w.net.Secure(t, internet.Addr(10+i)+":443", w.f)
	}
	program, err := modelbox()
	if err != nil {
		t.Fatal(err)
	}
	w.home = daemon.New(t)
	w.home.Program, w.home.Args = program, []string{filepath.Join(daemon.Root(t), "bin")}
	w.box = w.home.Start()
	w.api("PUT", "/api/vault/FACTORY_API_KEY", map[string]string{"value": trueKey}, nil)
	return w
}

// api calls the box's API, which must take it.
func (w *world) api(method, path string, body, out any) {
	w.t.Helper()
	var raw []byte
	var err error
	if body != nil {
		if raw, err = json.Marshal(body); err != nil {
			w.t.Fatal(err)
		}
	}
	r, err := http.NewRequest(method, w.home.URL()+path, bytes.NewReader(raw))
	if err != nil {
		w.t.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 {
		w.t.Fatalf("%s %s: %s, %s, %v", method, path, res.Status, text, err)
	}
	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			w.t.Fatalf("%s %s: %v in %s", method, path, err, text)
		}
	}
}

// event is a line of the log.
type event struct {
	Type   string         `json:"type"`
	Task   string         `json:"task"`
	State  string         `json:"state"`
	Text   string         `json:"text"`
	Data   map[string]any `json:"data"`
	Cents  json.Number    `json:"cents"`
	What   string         `json:"what"`
	Model  string         `json:"model"`
	Host   string         `json:"host"`
	Error  string         `json:"error"`
	Tokens struct{ Input, Output, CacheWrite, CacheRead int64 }
}

func (w *world) log(id string) (all []event) {
	w.t.Helper()
	w.api("GET", "/api/log?task="+id, nil, &all)
	return all
}

// until waits for what is to be seen in a task's log.
func (w *world) until(id, what string, f func([]event) bool) []event {
	w.t.Helper()
	late := time.NewTimer(2 * time.Minute)
	defer late.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		all := w.log(id)
		if f(all) {
			return all
		}
		select {
		case <-late.C:
			w.t.Fatalf("not within two minutes: %s. The log: %+v", what, all)
		case <-tick.C:
		}
	}
}

// pending says whether a question is open.
func (w *world) pending(question string) bool {
	w.t.Helper()
	var all []struct{ ID, State string }
	w.api("GET", "/api/approvals", nil, &all)
	return slices.ContainsFunc(all, func(a struct{ ID, State string }) bool { return a.ID == question && a.State == "pending" })
}

// asked waits until a question of a task is open.
func (w *world) asked(id, question string) {
	w.t.Helper()
	w.until(id, "the question "+question, func([]event) bool { return w.pending(question) })
}

// ended waits for a task's end and gives its log.
func (w *world) ended(id, state string) []event {
	w.t.Helper()
	all := w.until(id, "the task ends", func(all []event) bool {
		return slices.ContainsFunc(all, func(e event) bool {
			return e.Type == "task.state" && slices.Contains([]string{"done", "failed", "undone"}, e.State)
		})
	})
	for _, e := range all {
		if e.Type == "task.state" && e.State != "running" && e.State != "waiting" && e.State != "queued" && e.State != state {
			w.t.Fatalf("the task became %s: %s. The log: %+v", e.State, e.Error, all)
		}
	}
	return all
}

type spec map[string]any

// start starts a task whose worker is droid, unless s says another.
func (w *world) start(s spec, lines ...string) (id string) {
	w.t.Helper()
	all := spec{"title": "t", "worker": "droid", "prompt": strings.Join(lines, "\n")}
	for k, v := range s {
		all[k] = v
	}
	var task struct{ ID string }
	w.api("POST", "/api/tasks", all, &task)
	return task.ID
}

// outputs are what the lines of a task's worker printed, by their number.
func outputs(all []event) map[int]string {
	out := map[int]string{}
	for _, e := range all {
		if n, ok := e.Data["line"].(float64); ok {
			out[int(n)] = strings.TrimSpace(fmt.Sprint(e.Data["output"]))
		}
	}
	return out
}

func costs(all []event) (list []event) {
	for _, e := range all {
		if e.Type == "cost" {
			list = append(list, e)
		}
	}
	return list
}

func steps(all []event, text string) (n int) {
	for _, e := range all {
		if e.Type == "task.step" && e.Text == text {
			n++
		}
	}
	return n
}

// request is the body of a model call.
func request(stream, abort bool, say ...string) string {
	var q messages.Request
	q.Model, q.Stream, q.Metadata.Say, q.Metadata.Abort = "claude-sonnet-5-5", stream, say, abort
	b, err := json.Marshal(q)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// curl is a line of the shell that calls the model; it prints the answer and its status.
func curl(body string) string {
	return `curl -sS -m 100 -w ' %{http_code}' https://api.factory.ai/api/llm/a/v1/messages -H "Authorization: Bearer $FACTORY_API_KEY" -H 'Content-Type: application/json' -d '` + body + `'`
}

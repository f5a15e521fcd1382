package fake

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gurtos/worker"
)

// broker speaks the real protocol and answers as the test says.
type broker struct {
	client *worker.Broker

	mu     sync.Mutex
	task   worker.Task
	steps  []worker.Step
	asked  []string // "path body" of each request but GET /task and POST /step
	answer func(path string, body map[string]any, before int) (int, string)
}

func newBroker(t *testing.T, prompt string) *broker {
	dir, err := os.MkdirTemp("", "fake") // short: a socket's path has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{client: worker.New(l.Addr().String()), task: worker.Task{ID: "t1", Prompt: prompt}}
	b.client.Again = time.Millisecond
	s := &http.Server{Handler: b}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return b
}

func (b *broker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	text, _ := io.ReadAll(r.Body)
	var body map[string]any
	json.Unmarshal(text, &body)
	switch r.Method + " " + r.URL.Path {
	case "GET /task":
		json.NewEncoder(w).Encode(map[string]any{"task": b.task, "steps": b.steps})
	case "POST /step":
		var s worker.Step
		json.Unmarshal(text, &s)
		b.steps = append(b.steps, s)
		fmt.Fprint(w, "{}")
	default:
		before := 0
		for _, a := range b.asked {
			if a == r.URL.Path+" "+string(text) {
				before++
			}
		}
		b.asked = append(b.asked, r.URL.Path+" "+string(text))
		status, answer := 200, "{}"
		if b.answer != nil {
			status, answer = b.answer(r.URL.Path, body, before)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}
}

// data is that of the step of a line; nil when it posted none.
func (b *broker) data(line int) map[string]any {
	for _, s := range b.steps {
		var d map[string]any
		if json.Unmarshal(s.Data, &d) == nil && d["line"] == float64(line) {
			return d
		}
	}
	return nil
}

func TestLines(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(418)
		io.WriteString(w, strings.Repeat("x", 2000))
	}))
	defer page.Close()
	answers := func(path string, body map[string]any, before int) (int, string) {
		switch {
		case path == "/call" && body["tool"] == "app.waits" && before < 2:
			return 200, `{"ok":false,"pending":true,"error":"Waiting"}`
		case path == "/call" && body["tool"] == "app.no":
			return 200, `{"ok":false,"error":"not approved"}`
		case path == "/call" && body["tool"] == "app.odd":
			return 400, `{"error":"this task may not use app.odd"}`
		case path == "/call":
			return 200, `{"ok":true,"output":{"n":42}}`
		case path == "/ask" && before < 2:
			return 200, `{"pending":true}`
		case path == "/ask":
			return 200, fmt.Sprintf(`{"approved":%v}`, body["question"] == "May I?")
		}
		return 200, "{}"
	}
	for _, c := range []struct {
		name, prompt string
		line         int            // whose step is looked at
		data         map[string]any // some of its data
		files        map[string]string
		err          string // part of the task's error
	}{
		{"write, append", "write a/b.txt one two\nappend a/b.txt three", 2, map[string]any{"line": 2.}, map[string]string{"a/b.txt": "one two\nthree\n"}, ""},
		{"comments and empty lines count", "# hello\n\n   write a x", 3, map[string]any{}, map[string]string{"a": "x\n"}, ""},
		{"path of the workspace", "write /work/a x", 0, nil, nil, "line 1"},
		{"delete, also what is gone", "write a x\ndelete a\ndelete a", 3, map[string]any{}, map[string]string{"a": ""}, ""},
		{"mkdir, move", "mkdir d\nwrite d/f x\nmove d e", 3, map[string]any{}, map[string]string{"e/f": "x\n", "d": ""}, ""},
		{"move of what has moved", "write e x\nmove d e", 2, map[string]any{}, nil, ""},
		{"move of nothing", "move d e", 0, nil, nil, "line 1: "},
		{"read", "write a " + strings.Repeat("y", 1500) + "\nread a", 2, map[string]any{"text": strings.Repeat("y", 1000)}, nil, ""},
		{"read of nothing", "read a", 0, nil, nil, "line 1: "},
		{"outside the workspace", "write ../a x", 0, nil, nil, "line 1: "},
		{"through a link", "run ln -s /etc l\nread l/passwd", 0, nil, nil, "line 2: "},
		{"run", "run echo hi; echo you >&2", 1, map[string]any{"exit": 0., "output": "hi\nyou\n"}, nil, ""},
		{"run fails", "run echo hi; exit 3\nwrite a x", 1, map[string]any{"exit": 3., "output": "hi\n", "failed": true}, map[string]string{"a": ""}, "line 1: echo hi; exit 3: exit code 3: hi"},
		{"run fails and says why", "run echo first; echo the last line >&2; echo; exit 1", 1, map[string]any{"exit": 1., "output": "first\nthe last line\n\n", "failed": true}, nil, "line 1: echo first; echo the last line >&2; echo; exit 1: exit code 1: the last line"},
		{"run fails without a word", "run exit 4", 1, map[string]any{"exit": 4., "output": "", "failed": true}, nil, "line 1: exit 4: exit code 4"},
		{"try goes on", "try exit 3\nwrite a x", 1, map[string]any{"exit": 3.}, map[string]string{"a": "x\n"}, ""},
		{"try by signal", "try kill -9 $$", 1, map[string]any{"exit": 137.}, nil, ""},
		{"output's end", "run head -c 20000 /dev/zero | tr '\\0' x; echo end", 1, map[string]any{"output": strings.Repeat("x", mostOutput-4) + "end\n"}, nil, ""},
		{"a background process does not hold the line", "run sleep 600 & echo hi", 1, map[string]any{"exit": 0., "output": "hi\n"}, nil, ""},
		{"nor one that left the group", "run setsid sleep 2 & echo hi", 1, map[string]any{"output": "hi\n"}, nil, ""},
		{"step", "step Made a plan", 1, map[string]any{"line": 1.}, nil, ""},
		{"summary", "summary All done", 1, map[string]any{"summary": true}, nil, ""},
		{"sleep", "sleep 1ms", 1, map[string]any{}, nil, ""},
		{"sleep wrongly", "sleep long", 0, nil, nil, "line 1: sleep wants a DURATION"},
		{"fail", "fail the sky fell", 0, nil, nil, "the sky fell"},
		{"unknown", "step a\nwrtie a x", 0, nil, nil, `line 2: "wrtie" is no command. There are append, ask, call, `},
		{"wrong", "step a\nwrite a", 0, nil, nil, "line 2: write wants FILE and TEXT"},
		{"no word", "run", 0, nil, nil, "line 1: run wants a COMMAND"},
		{"call", `call app.do {"a": 1}`, 1, map[string]any{"answer": map[string]any{"ok": true, "output": map[string]any{"n": 42.}}}, nil, ""},
		{"call waits", `call app.waits {}`, 1, map[string]any{"answer": map[string]any{"ok": true, "output": map[string]any{"n": 42.}}}, nil, ""},
		{"call refused", `call app.no {}`, 1, map[string]any{"failed": true, "answer": map[string]any{"ok": false, "error": "not approved"}}, nil, "line 1: app.no: not approved"},
		{"trycall refused", `trycall app.no {}`, 1, map[string]any{"answer": map[string]any{"ok": false, "error": "not approved"}}, nil, ""},
		{"trycall of a tool that is not the task's", `trycall app.odd {}`, 1, map[string]any{"answer": map[string]any{"ok": false, "error": "this task may not use app.odd"}}, nil, ""},
		{"call without JSON", `call app.do {`, 0, nil, nil, "line 1: call wants"},
		{"ask", "ask May I?", 1, map[string]any{"approved": true}, nil, ""},
		{"ask refused", "ask Must I?", 1, map[string]any{"approved": false, "failed": true}, nil, `line 1: the answer to "Must I?" is no`},
		{"tryask refused", "tryask Must I?", 1, map[string]any{"approved": false}, nil, ""},
		{"cost", "cost 1.5 a stamp", 1, map[string]any{"line": 1.}, nil, ""},
		{"cost wrongly", "cost much stamps", 0, nil, nil, "line 1: cost wants CENTS and WHAT"},
		{"fetch", "fetch " + page.URL, 1, map[string]any{"status": 418., "body": strings.Repeat("x", 1000)}, nil, ""},
		{"fetch of nothing", "fetch http://127.0.0.1:1/", 1, map[string]any{"failed": true}, nil, "line 1: "},
		{"tryfetch of nothing", "tryfetch http://127.0.0.1:1/", 1, map[string]any{"line": 1.}, nil, ""},
		{"fetch of no page", "fetch ftp://a/", 0, nil, nil, "line 1: fetch wants"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, dir := newBroker(t, c.prompt), t.TempDir()
			b.answer = answers
			err := Run(t.Context(), b.client, dir)
			if (err == nil) != (c.err == "") || err != nil && (!strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("error %v, want one line with %q", err, c.err)
			}
			got := b.data(c.line)
			if (got == nil) != (c.data == nil) {
				t.Fatalf("step of line %d: %v", c.line, got)
			}
			for k, want := range c.data {
				if fmt.Sprint(got[k]) != fmt.Sprint(want) {
					t.Errorf("step's %s is %v, want %v", k, got[k], want)
				}
			}
			for name, want := range c.files {
				have, err := os.ReadFile(filepath.Join(dir, name))
				if string(have) != want || (err != nil) != (want == "") {
					t.Errorf("%s: %q, %v; want %q", name, have, err, want)
				}
			}
		})
	}
}

// A resumed task goes on after its last line; one that failed fails again.
func TestResume(t *testing.T) {
	b, dir := newBroker(t, "write a x\nwrite b x\nwrite c x"), t.TempDir()
	b.steps = []worker.Step{{Text: "", Data: json.RawMessage(`{"line":1}`)}, {Text: "", Data: json.RawMessage(`null`)}, {Data: json.RawMessage(`{"line":2,"failed":true}`)}}
	if err := Run(context.Background(), b.client, dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"a": false, "b": true, "c": true} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s there: %v, want %v", name, err == nil, want)
		}
	}
}

// The key of a call is its line's number, the same each time it is made.
func TestKeys(t *testing.T) {
	b, dir := newBroker(t, "step a\nask Why?\ntrycall app.do {\"a\":1}"), t.TempDir()
	b.answer = func(path string, _ map[string]any, before int) (int, string) {
		if before == 0 {
			return 200, `{"pending":true}`
		}
		return 200, `{"approved":true,"ok":true}`
	}
	if err := Run(t.Context(), b.client, dir); err != nil {
		t.Fatal(err)
	}
	want := []string{`/ask {"key":"2","question":"Why?"}`, `/ask {"key":"2","question":"Why?"}`, `/call {"input":{"a":1},"key":"3","tool":"app.do"}`, `/call {"input":{"a":1},"key":"3","tool":"app.do"}`}
	if fmt.Sprint(b.asked) != fmt.Sprint(want) {
		t.Errorf("asked %q, want %q", b.asked, want)
	}
}

// A step never passes what the broker takes, however long the answer is.
func TestLongAnswer(t *testing.T) {
	b, dir := newBroker(t, "call app.do {}"), t.TempDir()
	b.answer = func(string, map[string]any, int) (int, string) {
		return 200, `{"ok":true,"output":"` + strings.Repeat(`\u0001`, 100_000) + `"}`
	}
	if err := Run(t.Context(), b.client, dir); err != nil {
		t.Fatal(err)
	}
	if n := len(b.steps[0].Data); n > 60<<10 {
		t.Errorf("a step of %d bytes", n)
	}
}

package kill

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"gurtos/core/actionlog"
	"gurtos/test/daemon"
)

// workers is how many tasks step and call at once.
const workers = 8

// Eight tasks step and call while boxd is killed. Each line that was shown is there afterwards, to the byte. Each line of a task is told once, in order, so
// what was answered was not done again; and each call has one result.
func TestKilled(t *testing.T) {
	kills := daemon.Rounds(200, 5, 2)
	luck := daemon.Seed(t)

	home := daemon.New(t)
	till := home.Shop()
	boxd := home.Start()
	post(t, home, "PUT", "/api/settings", map[string]any{"maxRunning": workers}, nil)
	var prompt strings.Builder
	for n := range 400 + 3*kills {
		fmt.Fprintf(&prompt, "step %d\ncall shop.look {\"n\":%d}\n", n, n)
	}
	for range workers {
		post(t, home, "POST", "/api/tasks", map[string]any{"title": "Works", "worker": "fake", "prompt": prompt.String(), "tools": []string{"shop.look"}}, nil)
	}

	var seen [][]byte // lines as they were shown, from the first
	for range kills {
		more := workers + luck.IntN(40)
		seen = watch(t, home, seen, func(line []byte) bool {
			if works(line) {
				more--
			}
			return more == 0
		})
		boxd.Kill()
		boxd = home.Start()
	}
	// On a quick machine a few tasks can fill what was watched so far. The last boxd is stopped once every task has told of a line and each kill has its call.
	telling, calls := map[string]bool{}, 0
	count := func(line []byte) bool {
		ev, err := actionlog.Decode(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		switch ev.Type {
		case actionlog.TypeTaskStep:
			telling[ev.Task] = true
		case actionlog.TypeToolResult:
			calls++
		}
		return len(telling) == workers && calls >= kills
	}
	enough := false
	for _, line := range seen {
		enough = count(line)
	}
	if !enough {
		seen = watch(t, home, seen, count)
	}
	boxd.Stop()

	report, err := actionlog.Verify(home.Dir)
	if err != nil || !report.OK() {
		t.Fatalf("%s %v", report, err)
	}
	told, results := map[string]int{}, map[string]int{}
	lines, err := os.ReadFile(home.Dir + "/log.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range bytes.Split(bytes.TrimSuffix(lines, []byte("\n")), []byte("\n")) {
		if i < len(seen) && !bytes.Equal(line, seen[i]) {
			t.Fatalf("line %d was shown as\n%s\nand is\n%s", i+1, seen[i], line)
		}
		ev, err := actionlog.Decode(line)
		if err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		switch ev.Type {
		case actionlog.TypeTaskStep:
			var data struct{ Line int }
			if err := json.Unmarshal(ev.Data, &data); err != nil || data.Line != told[ev.Task]+1 {
				t.Fatalf("line %d: task %s tells of its line %d behind %d (%v)", i+1, ev.Task, data.Line, told[ev.Task], err)
			}
			told[ev.Task]++
		case actionlog.TypeToolResult:
			results[ev.Task+"."+ev.Key]++
			if !*ev.OK {
				t.Errorf("line %d: %s", i+1, line)
			}
		case actionlog.TypeTaskState:
			if ev.State == "failed" {
				t.Errorf("line %d: %s", i+1, line)
			}
		}
	}
	for key, n := range results {
		if n != 1 {
			t.Errorf("call %s has %d results", key, n)
		}
	}
	runs := map[string]int{}
	keys, err := os.ReadFile(till)
	if err != nil {
		t.Fatal(err)
	}
	again := 0
	for key := range strings.Lines(string(keys)) {
		if runs[strings.TrimSpace(key)]++; runs[strings.TrimSpace(key)] > 1 {
			again++
		}
	}
	for key := range results {
		if runs[key] == 0 {
			t.Errorf("call %s has a result and never ran", key)
		}
	}
	// Only a call that was cut off runs again, and a kill cuts at most one of each task.
	if again > kills*workers {
		t.Errorf("%d calls ran again after %d kills", again, kills)
	}
	what := fmt.Sprintf("kill -9 of boxd %d times while %d tasks step and call: %d lines, %d calls, %d of them run again under their key", kills, workers, len(seen), len(results), again)
	t.Log(what)
	t.Attr("reliability", what)
}

// works tells whether a line of the log is a step or a call's result.
func works(line []byte) bool {
	return bytes.Contains(line, []byte(`"type":"task.step"`)) || bytes.Contains(line, []byte(`"type":"tool.result"`))
}

// watch follows the log behind what was seen, up to the line that is the last.
func watch(t *testing.T, home *daemon.Home, seen [][]byte, last func(line []byte) bool) [][]byte {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("%s/api/events?after=%d", home.URL(), len(seen)), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewReader(resp.Body); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			t.Fatalf("following the log behind line %d: %v", len(seen), errors.Join(err, ctx.Err()))
		}
		data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: "))
		if !ok {
			continue
		}
		seen = append(seen, data)
		if last(data) {
			return seen
		}
	}
}

// post sends a request from the box's own screen, which has to go well.
func post(t *testing.T, home *daemon.Home, method, path string, in, out any) {
	t.Helper()
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, home.URL()+path, body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %s %s %v", method, path, resp.Status, text, err)
	}
	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			t.Fatal(err)
		}
	}
}

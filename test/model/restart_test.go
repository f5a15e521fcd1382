package model

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gurtos/core/budget"
)

// A boxd that is killed in the middle of a model call, or told to end: the next one swaps and books as before, for the same task. The call that was out, which
// the service may have worked on, is booked as an estimate, once however many starts follow.
func TestRestart(t *testing.T) {
	for _, how := range []string{"killed", "told to end"} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t)
			release := w.f.holdCalls()
			defer release()
			hello := strings.Replace(request(true, false, "hello"), "{", `{"max_tokens":500,`, 1)
			id := w.start(nil, "step begin", "run "+curl(hello), "run "+curl(request(false, false, "again")), `run curl -sS --unix-socket $BOX_SOCKET http://box/usage -d '{"model":"claude-sonnet-5-5","tokens":{"input":50,"output":24,"cacheWrite":14,"cacheRead":201}}'`)
			<-w.f.held
			dir := filepath.Join(w.home.Dir, "model-calls")
			names := files(t, dir)
			if len(names) != 1 || !strings.HasPrefix(names[0], id+".") {
				t.Fatalf("kept while the call is out: %q", names)
			}
			kept := read(t, filepath.Join(dir, names[0]))
			if how == "killed" {
				w.box.Kill()
				// A newer boxd's is not for this one, and half a one is of a call that was never made.
				write(t, filepath.Join(dir, id+".NEWER"), strings.Replace(kept, `"version":1`, `"version":2`, 1))
				write(t, filepath.Join(dir, id+".HALF.new"), kept[:9])
			} else if w.box.Stop(); len(files(t, dir)) > 0 {
				t.Errorf("kept though it is booked: %q", files(t, dir))
			}
			release()
			w.box = w.home.Start()
			all := w.ended(id, "done")
			out := outputs(all)
			if !strings.Contains(out[2], "message_stop") || !strings.Contains(out[3], `"type":"message"`) {
				t.Errorf("%v", out)
			}
			for _, s := range w.f.record() {
				if !strings.HasSuffix(s, " Bearer "+trueKey) {
					t.Errorf("outside was seen %q", s)
				}
			}
			c := costs(all)
			if len(c) != 4 || c[0].What != "model (estimate)" || c[0].Model != "claude-sonnet-5-5" || c[0].Tokens.Input != int64(len(hello)/4) || c[0].Tokens.Output > 500 {
				t.Fatalf("booked %+v", c)
			}
			if c[1].What != "model" || c[1].Tokens != c[2].Tokens || c[2].Tokens.Output != 12 || c[3].Tokens.Input != 0 || c[3].Tokens.CacheRead != 1 {
				t.Errorf("booked %+v", c)
			}

			// A power cut can bring back what was taken away after it was booked.
			w.box.Kill()
			write(t, filepath.Join(dir, names[0]), kept)
			w.box = w.home.Start()
			want := []string{id + ".NEWER"}
			if how != "killed" {
				want = nil
			}
			w.until(id, "what was booked is kept no more", func([]event) bool { return slices.Equal(files(t, dir), want) })
			if again := costs(w.log(id)); len(again) != len(c) {
				t.Errorf("booked twice: %+v", again)
			}
		})
	}
}

// A boxd that is killed after a service refused a call books nothing for it.
func TestRestartAfterRefusal(t *testing.T) {
	w := newWorld(t)
	w.f.api.Key = "another"
	id := w.start(nil, "run "+curl(request(false, false, "hello")), "ask go on?")
	w.until(id, "the call is refused", func(all []event) bool { return strings.Contains(outputs(all)[1], " 401") })
	dir := filepath.Join(w.home.Dir, "model-calls")
	w.until(id, "nothing is kept of it", func([]event) bool { return len(files(t, dir)) == 0 })
	w.box.Kill()
	w.box = w.home.Start()
	w.asked(id, id+".task.2") // boxd may have been killed before it was
	w.api("POST", "/api/approvals/"+id+".task.2", map[string]any{"approved": true}, nil)
	if c := costs(w.ended(id, "done")); len(c) != 0 {
		t.Errorf("booked %+v", c)
	}
}

// files are the names in a folder, which may not be there.
func files(t testing.TB, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}

func read(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A task that is stopped in the middle of an answer pays for what it used.
func TestStopped(t *testing.T) {
	w := newWorld(t)
	stay, came := make(chan struct{}), make(chan struct{}, 1)
	defer close(stay)
	w.f.api.Before = func() { came <- struct{}{}; <-stay }
	id := w.start(nil, "run "+curl(request(true, false, "hello")))
	<-came // it has told what its input was
	w.api("POST", "/api/tasks/"+id+"/stop", nil, nil)
	all := w.until(id, "the cost of the answer is booked", func(all []event) bool { return len(costs(all)) > 0 })
	if c := costs(all); len(c) != 1 || c[0].Tokens.Input != 25 || c[0].Tokens.Output != 1 || c[0].What != "model (estimate)" {
		t.Errorf("booked %+v", c)
	}
}

// A task that is stopped before its answer began pays for what it asked: as much is booked as the call is taken to have used, and said to be an
// estimate. One that hangs up on a stream once its model has thought, unseen, pays for what it thought.
func TestGivenUp(t *testing.T) {
	w := newWorld(t)
	release := w.f.holdCalls()
	defer release()
	body := strings.Replace(request(false, false, "hello"), "{", `{"max_tokens":500,`, 1)
	id := w.start(nil, "run "+curl(body))
	<-w.f.held
	w.api("POST", "/api/tasks/"+id+"/stop", nil, nil)
	all := w.until(id, "the cost of the call is booked", func(all []event) bool { return len(costs(all)) > 0 })
	c := costs(all)
	if n := c[0].Tokens; len(c) != 1 || c[0].What != "model (estimate)" || c[0].Model != "claude-sonnet-5-5" || n.Input != int64(len(body)/4) || n.Output > 500 || n.CacheRead != 0 {
		t.Errorf("booked %+v for %d bytes", c, len(body))
	}
	var task struct {
		State     string
		CostCents budget.Cents
	}
	w.api("GET", "/api/tasks/"+id, nil, &task)
	if task.State != "failed" || task.CostCents.Sign() <= 0 || task.CostCents.String() != c[0].Cents.String() {
		t.Errorf("the task is %s and cost %s, want %s", task.State, task.CostCents, c[0].Cents)
	}
	release()

	gone := make(chan struct{})
	w.f.api.Before = func() { <-gone }
	call := curl(strings.Replace(request(true, false, "hello"), `"abort"`, `"think":true,"abort"`, 1))
	id = w.start(nil, "run "+call+" -N >out & while ! grep -q message_start out; do sleep 0.05; done; kill $!; wait", "step gone", "ask go on?") // an end of the task would break the stream off
	w.until(id, "the program has gone", func(all []event) bool { return steps(all, "gone") > 0 })
	if c := costs(w.log(id)); len(c) > 0 {
		t.Errorf("booked %+v before the end of the stream", c)
	}
	close(gone)
	all = w.until(id, "the cost of the stream is booked", func(all []event) bool { return len(costs(all)) > 0 })
	c = costs(all)
	if len(c) != 1 || c[0].What != "model" || c[0].Tokens.Input != 25 || c[0].Tokens.Output != 12 {
		t.Errorf("booked %+v", c)
	}
}

// The vault's key is changed, refused and taken away while a task runs.
func TestKeyChanges(t *testing.T) {
	w := newWorld(t)
	const second = "fk-second/key+0123456789abcdef"
	id := w.start(nil,
		"run "+curl(request(false, false, "one")), "ask go on?",
		"run "+curl(request(false, false, "two")), "ask go on?",
		"run "+curl(request(false, false, "three")), "run "+curl(request(false, false, "three")), "ask go on?",
		"run "+curl(request(false, false, "four")), "run "+curl(request(false, false, "four")),
	)
	yes := func(n string) {
		w.api("POST", "/api/approvals/"+id+".task."+n, map[string]any{"approved": true}, nil)
	}
	w.asked(id, id+".task.2")
	w.api("PUT", "/api/vault/FACTORY_API_KEY", map[string]string{"value": second}, nil)
	w.f.api.Key = second
	yes("2")
	w.asked(id, id+".task.4")
	w.f.api.Key = "another"
	yes("4")
	w.asked(id, id+".task.7")
	w.api("DELETE", "/api/vault/FACTORY_API_KEY", nil, nil)
	yes("7")
	all := w.ended(id, "done")
	out := outputs(all)
	for line, want := range map[int]string{1: " 200", 3: " 200", 5: "invalid x-api-key", 6: " 401", 8: "Your Factory key is not set. Put it in as FACTORY_API_KEY in Settings, Accounts \\u0026 Keys.", 9: " 401"} {
		if !strings.Contains(out[line], want) {
			t.Errorf("line %d: %q, want %q in it", line, out[line], want)
		}
	}
	for _, s := range []string{"Your Factory key was not accepted. Change it in Settings, Accounts & Keys.", "Your Factory key is not set. Put it in as FACTORY_API_KEY in Settings, Accounts & Keys."} {
		if n := steps(all, s); n != 1 {
			t.Errorf("%d steps say %q", n, s)
		}
	}
	if seen := w.f.record(); len(seen) != 4 || !strings.HasSuffix(seen[0], trueKey) || !strings.HasSuffix(seen[1], second) || !strings.HasSuffix(seen[3], second) {
		t.Errorf("outside were seen %q", seen)
	}
}

// What a model costs may pass the budget once; the next call waits for the owner, however often it is asked, and over a restart of boxd.
func TestBudget(t *testing.T) {
	w := newWorld(t)
	call := "try " + curl(request(false, false, "hello"))
	id := w.start(spec{"budgetCents": 0}, call, call, "step after", call)
	question := id + ".budget.model.1"
	state := func() (s string) {
		var task struct{ State string }
		w.api("GET", "/api/tasks/"+id, nil, &task)
		return task.State
	}
	w.until(id, "the question", func([]event) bool { return w.pending(question) && state() == "waiting" })
	if n := len(w.f.record()); n != 1 {
		t.Errorf("the model was asked %d times before the OK", n)
	}
	w.box.Kill()
	w.box = w.home.Start()
	w.until(id, "the question again", func([]event) bool { return w.pending(question) })
	w.api("POST", "/api/approvals/"+question, map[string]any{"approved": true}, nil)
	out := outputs(w.ended(id, "done"))
	for _, line := range []int{1, 2, 4} {
		if !strings.Contains(out[line], " 200") {
			t.Errorf("line %d: %q", line, out[line])
		}
	}

	id = w.start(spec{"budgetCents": 0}, call, call, call)
	w.until(id, "the question", func([]event) bool { return w.pending(id + ".budget.model.1") })
	w.api("POST", "/api/approvals/"+id+".budget.model.1", map[string]any{"approved": false}, nil)
	out = outputs(w.ended(id, "done"))
	for line, want := range map[int][]string{1: {" 200"}, 2: {"The owner did not approve", "billing_error", " 402"}, 3: {" 402"}} {
		for _, part := range want {
			if !strings.Contains(out[line], part) {
				t.Errorf("line %d: %q, want %q in it", line, out[line], part)
			}
		}
	}
	if n := len(w.f.record()); n != 4 {
		t.Errorf("the model was asked %d times", n)
	}
}

// While agents are paused no model call goes out, one that was allowed meanwhile neither.
func TestPaused(t *testing.T) {
	w := newWorld(t)
	call := "try " + curl(request(false, false, "hello"))
	id := w.start(spec{"budgetCents": 0}, call, call)
	question := id + ".budget.model.1"
	w.until(id, "the question", func([]event) bool {
		var open []struct{ ID string }
		w.api("GET", "/api/approvals", nil, &open)
		return slices.ContainsFunc(open, func(a struct{ ID string }) bool { return a.ID == question })
	})
	w.api("POST", "/api/pause", map[string]any{"paused": true}, nil)
	w.api("POST", "/api/approvals/"+question, map[string]any{"approved": true}, nil)
	// The key that goes out is the one of the time after the pause.
	const second = "fk-second/key+0123456789abcdef"
	w.f.mu.Lock()
	w.f.api.Key = second
	w.f.mu.Unlock()
	w.api("PUT", "/api/vault/FACTORY_API_KEY", map[string]string{"value": second}, nil)
	if n := len(w.f.record()); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
	w.api("POST", "/api/pause", map[string]any{"paused": false}, nil)
	w.ended(id, "done")
	if seen := w.f.record(); len(seen) != 2 || !strings.HasSuffix(seen[1], second) {
		t.Errorf("outside were seen %q", seen)
	}
}

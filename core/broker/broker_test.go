package broker_test

import (
	"strings"
	"testing"

	"gurtos/core/actionlog"
	"gurtos/core/task"
	"gurtos/sandbox"
)

func TestStepsSurviveARestart(t *testing.T) {
	b := newBox(t, boxOptions{})
	id := b.begin("")
	a := b.post(id, "/step", `{"text":"one","data":{"line":1}}`)
	if a.status != 200 || a.body["type"] != "task.step" || a.body["text"] != "one" {
		t.Fatal(a)
	}
	if n := b.runner.get(id).syncs; n != 1 {
		t.Fatalf("%d syncs before the step", n)
	}
	b.restart()
	b.runner.wait(t, id)
	got := b.get(id, "/task")
	steps := got.body["steps"].([]any)
	if len(steps) != 1 || steps[0].(map[string]any)["text"] != "one" || got.body["task"].(map[string]any)["step"] != "one" {
		t.Fatal(got)
	}
	b.post(id, "/step", `{"text":"two `+strings.Repeat("ü", 300)+`","data":{"summary":true}}`)
	done := b.finish(id)
	if len([]rune(done.Step)) != 200 || len([]rune(done.Summary)) != 304 {
		t.Fatalf("step %q summary %q", done.Step, done.Summary)
	}
	var states []string
	for _, ev := range b.events(actionlog.TypeTaskState, id) {
		states = append(states, ev.State)
	}
	if got := strings.Join(states, " "); got != "running done" {
		t.Fatal(got)
	}
}

func TestAskFirstAnswerWins(t *testing.T) {
	b := newBox(t, boxOptions{})
	id := b.begin("")
	got := make(chan answered, 1)
	go func() { got <- b.post(id, "/ask", `{"question":"May I?","key":"k"}`) }()
	a := b.pending(id)
	if a.ID != id+".task.k" {
		t.Fatal(a.ID)
	}
	b.until(id, task.Waiting)
	b.answer(a.ID, false)
	if x := b.answer(a.ID, true); x.State != "denied" || x.By != "bar" {
		t.Fatal(x)
	}
	if x := <-got; x.raw != "{\"approved\":false}\n" {
		t.Fatal(x)
	}
	b.until(id, task.Running)
	if x := b.post(id, "/ask", `{"question":"May I?","key":"k"}`); x.raw != "{\"approved\":false}\n" {
		t.Fatal(x)
	}
}

func TestWorkerThatFails(t *testing.T) {
	b := newBox(t, boxOptions{})
	id := b.begin("")
	b.runner.get(id).end(sandbox.Exit{Code: 1, Output: "noise\nline 3: it broke\n"})
	if got := b.until(id, task.Failed); got.Error != "line 3: it broke" {
		t.Fatal(got.Error)
	}
}

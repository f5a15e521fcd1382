package task

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"gurtos/core/actionlog"
	"gurtos/core/approval"
)

// What is kept of a task that ended and of a question that was answered doesn't grow
// with what they were about.
func TestWhatIsKeptOfOldTasksIsSmall(t *testing.T) {
	size := func(n int) int {
		f := newFold()
		text := strings.Repeat("x", n)
		spec, err := json.Marshal(map[string]any{
			"title": strings.Repeat("t", min(n, MaxTitle)), "prompt": text, "workspace": "home", "worker": "fake",
			"tools": strings.Split(strings.Repeat("a.b ", n/4), " "), "hosts": strings.Split(strings.Repeat("example.com ", min(n, 50)), " "), "budgetCents": 100, "source": "api",
		})
		if err != nil {
			t.Fatal(err)
		}
		input := json.RawMessage(fmt.Sprintf(`{"text":%q}`, text))
		ask, err := approval.Plain(approval.Approval{
			ID: "t1.budget.k", Task: "t1", Question: text, Payee: text, Purpose: text, State: approval.Pending, Key: "k", Tool: "a.b", Input: input,
		})
		if err != nil {
			t.Fatal(err)
		}
		yes := true
		for i, ev := range []actionlog.Event{
			{Type: actionlog.TypeTaskCreated, Spec: spec, User: "box-t1"},
			{Type: actionlog.TypeTaskState, State: "running", Layers: strings.Split(strings.Repeat("t0 ", n/3), " ")},
			{Type: actionlog.TypeApprovalAsked, Approval: ask},
			{Type: actionlog.TypeTaskState, State: "waiting"},
			{Type: actionlog.TypeApprovalAnswered, ID: "t1.budget.k", Approved: &yes, By: "bar"},
			{Type: actionlog.TypeTaskState, State: "running"},
			{Type: actionlog.TypeToolCall, Key: "k", Tool: "a.b", Input: input},
			{Type: actionlog.TypeToolResult, Key: "k", OK: &yes, Output: input},
			{Type: actionlog.TypeTaskStep, Text: text, Data: input},
			{Type: actionlog.TypeTaskState, State: "failed", Error: text, Summary: text},
		} {
			ev.Seq, ev.Task, ev.At = int64(i+1), "t1", "2026-12-01T05:00:00.000Z"
			if err := f.apply(&ev); err != nil {
				t.Fatal(err)
			}
		}
		if e := f.Tasks["t1"]; len(e.Step) != min(n, stepLength) || e.Long == (long{}) && n > keepText {
			t.Errorf("%+v", e)
		}
		b, err := approval.Plain(f.snapshot())
		if err != nil {
			t.Fatal(err)
		}
		return len(b)
	}
	if small, large := size(keepText+1), size(100_000); large > small+20 {
		t.Errorf("%d bytes are kept of a large task, %d of a small one", large, small)
	}
}

// A snapshot is what the fold was, whatever comes after.
func TestSnapshotStays(t *testing.T) {
	f := newFold()
	n := int64(0)
	yes := true
	apply := func(evs ...actionlog.Event) {
		t.Helper()
		for _, ev := range evs {
			n++
			ev.Seq, ev.At = n, "2026-12-01T05:00:00.000Z"
			if err := f.apply(&ev); err != nil {
				t.Fatal(err)
			}
		}
	}
	spec := json.RawMessage(`{"title":"t","prompt":"p","workspace":"home","worker":"fake","tools":["a.b"],"hosts":[],"budgetCents":100,"source":"api"}`)
	ask := func(id string) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"id":"%s.task.q","task":%q,"question":"?","costCents":0,"state":"pending"}`, id, id))
	}
	for _, id := range []string{"tqueued", "tlive", "tdone", "tgone"} {
		apply(actionlog.Event{Type: actionlog.TypeTaskCreated, Task: id, Spec: spec, User: "box-" + id})
	}
	for _, id := range []string{"tlive", "tdone", "tgone"} {
		apply(actionlog.Event{Type: actionlog.TypeTaskState, Task: id, State: "running", Layers: []string{}},
			actionlog.Event{Type: actionlog.TypeTaskStep, Task: id, Text: "one"},
			actionlog.Event{Type: actionlog.TypeToolCall, Task: id, Key: "k", Tool: "a.b", Input: json.RawMessage(`{}`)})
	}
	apply(actionlog.Event{Type: actionlog.TypeApprovalAsked, Task: "tlive", Approval: ask("tlive")},
		actionlog.Event{Type: actionlog.TypeTaskState, Task: "tdone", State: "done"},
		actionlog.Event{Type: actionlog.TypeTaskState, Task: "tgone", State: "done"})
	snap := f.snapshot()
	before, err := approval.Plain(snap)
	if err != nil {
		t.Fatal(err)
	}
	apply(
		actionlog.Event{Type: actionlog.TypeTaskState, Task: "tqueued", State: "running", Layers: []string{"tdone"}},
		actionlog.Event{Type: actionlog.TypeTaskStep, Task: "tlive", Text: "two"},
		actionlog.Event{Type: actionlog.TypeToolResult, Task: "tlive", Key: "k", OK: &yes, Cents: "30"},
		actionlog.Event{Type: actionlog.TypeApprovalAnswered, Task: "tlive", ID: "tlive.task.q", Approved: &yes, By: "bar"},
		actionlog.Event{Type: actionlog.TypeNote, Task: "tlive", Track: "box", Data: json.RawMessage(`{"what":"call merged","key":"x","with":"k"}`)},
		actionlog.Event{Type: actionlog.TypeToolResult, Task: "tdone", Key: "k", OK: &yes, Cents: "30"},
		actionlog.Event{Type: actionlog.TypeTaskState, Task: "tgone", State: "undone"},
		actionlog.Event{Type: actionlog.TypeNote, Track: "box", Data: json.RawMessage(`{"what":"layers folded","workspace":"home","tasks":["tdone"]}`)},
		actionlog.Event{Type: actionlog.TypeNote, Track: "box", Data: json.RawMessage(`{"what":"permission","app":"a","set":{"money":false}}`)},
		actionlog.Event{Type: actionlog.TypeNote, Track: "box", Data: json.RawMessage(`{"what":"pause","paused":true}`)},
		actionlog.Event{Type: actionlog.TypeTaskCreated, Task: "tnew", Spec: spec, User: "box-tnew"},
	)
	after, err := approval.Plain(snap)
	if err != nil {
		t.Fatal(err)
	}
	if string(after) != string(before) {
		t.Errorf("the snapshot was\n%s and is\n%s", before, after)
	}
	// And what is read of it goes on as the fold itself did.
	again, err := decodeFold(n-11, before)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := approval.Plain(again.snapshot()); err != nil || string(b) != string(before) {
		t.Errorf("%v: read again it is\n%s, not\n%s", err, b, before)
	}
}

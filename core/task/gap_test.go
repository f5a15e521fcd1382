package task

import (
	"encoding/json"
	"fmt"
	"testing"

	"gurtos/core/actionlog"
	"gurtos/core/budget"
)

// Whichever line a damaged log lost, the rest can be folded once a note stands in its
// place; without that note a line of an unknown task is refused.
func TestFoldGoesOnWithoutALine(t *testing.T) {
	yes := true
	lines := []actionlog.Event{
		{Type: actionlog.TypeTaskCreated, User: "box-t1", Spec: json.RawMessage(`{"title":"t","prompt":"p","workspace":"home","worker":"fake","tools":["a.b"],"hosts":[],"budgetCents":100,"source":"api"}`)},
		{Type: actionlog.TypeTaskState, State: "running", Layers: []string{}},
		{Type: actionlog.TypeTaskStep, Text: "one"},
		{Type: actionlog.TypeToolCall, Key: "k", Tool: "a.b", Input: json.RawMessage(`{}`)},
		{Type: actionlog.TypeToolResult, Key: "k", OK: &yes, Cents: "30"},
		{Type: actionlog.TypeApprovalAsked, Approval: json.RawMessage(`{"id":"t1.task.q","task":"t1","question":"?","costCents":0,"state":"pending"}`)},
		{Type: actionlog.TypeTaskState, State: "waiting"},
		{Type: actionlog.TypeApprovalAnswered, ID: "t1.task.q", Approved: &yes, By: "bar"},
		{Type: actionlog.TypeTaskState, State: "running"},
		{Type: actionlog.TypeCost, Cents: "5", What: "x"},
		{Type: actionlog.TypeNetBlocked, Host: "example.com:443"},
		{Type: actionlog.TypeNote, Track: "box", Data: json.RawMessage(`{"what":"call merged","key":"x","with":"k"}`)},
		{Type: actionlog.TypeTaskState, State: "done"},
		{Type: actionlog.TypeNote, Track: "box", Data: json.RawMessage(`{"what":"layers folded","workspace":"home","tasks":["t1"]}`)},
		{Type: actionlog.TypeTaskState, State: "undone"},
	}
	stand := actionlog.Event{Type: actionlog.TypeNote, Track: "box", Data: json.RawMessage(fmt.Sprintf(`{"what":%q}`, actionlog.NoteQuarantined))}
	fold := func(without int, in actionlog.Event) (*fold, error) {
		f := newFold()
		for i, ev := range lines {
			ev.Task = "t1"
			if i == without {
				ev = in
			}
			ev.Seq, ev.At = int64(i+1), "2026-12-01T05:00:00.000Z"
			if err := f.apply(&ev); err != nil {
				return f, err
			}
		}
		return f, nil
	}
	for i := range lines {
		f, err := fold(i, stand)
		if err != nil {
			t.Errorf("without %s: %v", lines[i].Type, err)
			continue
		}
		b, err := json.Marshal(f.snapshot())
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeFold(f.Seq, b)
		if err != nil || !again.Gap || len(again.Tasks) != len(f.Tasks) {
			t.Errorf("without %s: kept and read again: %v %+v", lines[i].Type, err, again)
		}
		if spent := again.Ledger.Today("a"); i != 3 && i != 4 && spent.Cmp(budget.Whole(30)) != 0 {
			t.Errorf("without %s: the app spent %s", lines[i].Type, spent)
		}
		if has := f.Tasks["t1"] != nil; has == (i == 0) {
			t.Errorf("without %s: the task is there: %v", lines[i].Type, has)
		}
	}
	other := actionlog.Event{Type: actionlog.TypeNote, Track: "shop", Data: json.RawMessage(`{"what":"log.quarantined"}`)}
	if _, err := fold(0, other); err == nil {
		t.Error("a line of a task that was never created is taken")
	}
}

// Calls of two tasks whose first lines are cut out may have the same key. What is kept of
// them is read again as it was.
func TestOrphansPayForTheirOwnTools(t *testing.T) {
	yes := true
	f := newFold()
	for i, ev := range []actionlog.Event{
		{Type: actionlog.TypeNote, Track: "box", Data: json.RawMessage(fmt.Sprintf(`{"what":%q}`, actionlog.NoteQuarantined))},
		{Type: actionlog.TypeToolCall, Task: "t1", Key: "k", Tool: "a.b"},
		{Type: actionlog.TypeToolCall, Task: "t2", Key: "k", Tool: "c.d"},
		{Type: actionlog.TypeToolResult, Task: "t1", Key: "k", OK: &yes, Cents: "30"},
		{Type: actionlog.TypeToolResult, Task: "t2", Key: "k", OK: &yes, Cents: "7"},
		{Type: actionlog.TypeToolResult, Task: "t2", Key: "k2", OK: &yes},
	} {
		b, err := json.Marshal(f.snapshot())
		if err != nil {
			t.Fatal(err)
		}
		if f, err = decodeFold(int64(i), b); err != nil {
			t.Fatal(err)
		}
		ev.Seq, ev.At = int64(i+1), "2026-12-01T05:00:00.000Z"
		if err := f.apply(&ev); err != nil {
			t.Fatal(err)
		}
	}
	if a, c := f.Ledger.Today("a"), f.Ledger.Today("c"); a.Cmp(budget.Whole(30)) != 0 || c.Cmp(budget.Whole(7)) != 0 {
		t.Errorf("a spent %s, c %s", a, c)
	}
}

// A note that stands for a line that was cut out has the time at which that was done. It
// must not begin a day in the middle of the lines around it, nor make tasks older: the
// limit of the day could be spent again, and files would be deleted early.
func TestACutOutMovesNoTime(t *testing.T) {
	yes := true
	at := func(hour int) string { return fmt.Sprintf("2026-12-01T%02d:00:00.000Z", hour) }
	stand := func(what string) actionlog.Event {
		return actionlog.Event{Type: actionlog.TypeNote, Track: "box", At: "2026-12-20T18:00:00.000Z", Data: json.RawMessage(fmt.Sprintf(`{"what":%q}`, what))}
	}
	other := func(hour int, start bool) actionlog.Event {
		return actionlog.Event{Type: actionlog.TypeNote, Track: "shop", At: at(hour), Start: start, Data: json.RawMessage(`{}`)}
	}
	for _, c := range []struct {
		name  string
		lines []actionlog.Event // after the payment at 9
		hours int64             // that are proven
	}{
		{"whole", []actionlog.Event{other(10, false), other(23, false)}, 15},
		{"a line", []actionlog.Event{stand(actionlog.NoteQuarantined), other(11, false), other(23, false)}, 13},
		{"lines", []actionlog.Event{stand(actionlog.NoteQuarantined), stand(actionlog.NoteQuarantined), other(11, false), other(23, false)}, 13},
		{"what was cut out", []actionlog.Event{other(22, false), stand(noteCutOut), other(23, true)}, 14},
	} {
		f := newFold()
		for i, ev := range append([]actionlog.Event{
			{Type: actionlog.TypeTaskCreated, Task: "t1", At: at(8), Spec: json.RawMessage(`{"workspace":"home"}`)},
			{Type: actionlog.TypeToolCall, Task: "t1", Key: "k", Tool: "a.b", At: at(8)},
			{Type: actionlog.TypeToolResult, Task: "t1", Key: "k", OK: &yes, Cents: "30", At: at(9)},
		}, c.lines...) {
			ev.Seq = int64(i + 1)
			if err := f.apply(&ev); err != nil {
				t.Fatal(err)
			}
			b, err := json.Marshal(f.snapshot())
			if err != nil {
				t.Fatal(err)
			}
			if f, err = decodeFold(ev.Seq, b); err != nil {
				t.Fatal(err)
			}
		}
		if spent := f.Ledger.Today("a"); spent.Cmp(budget.Whole(30)) != 0 {
			t.Errorf("%s: of the day's limit %s are spent", c.name, spent)
		}
		if got := f.Passed.Age; got != c.hours*60*60*1000 {
			t.Errorf("%s: %d ms are proven, not %d hours", c.name, got, c.hours)
		}
		if even := f.Memory.Watches.Even; even > millis(at(23)) {
			t.Errorf("%s: watches think it is %d", c.name, even)
		}
	}
}

// What may have ended a task, or told what a call of it was paid, is in doubt behind a line
// that was cut out and behind an end that is lost, and not behind one that was only torn.
// A call is so too whose task is over.
func TestDoubt(t *testing.T) {
	no := false
	for _, c := range []struct {
		name, note string
		doubt      bool
	}{
		{"a line is cut out", `{"what":"log.quarantined"}`, true},
		{"the end is lost", `{"what":"log.cut","cut":{"line":9,"bytes":0,"lost":3}}`, true},
		{"the end is torn", `{"what":"log.cut","cut":{"line":9,"bytes":7}}`, false},
	} {
		f := newFold()
		for i, ev := range []actionlog.Event{
			{Type: actionlog.TypeTaskCreated, Task: "t1", Spec: json.RawMessage(`{"workspace":"home"}`)},
			{Type: actionlog.TypeTaskCreated, Task: "t2", Spec: json.RawMessage(`{"workspace":"home"}`)},
			{Type: actionlog.TypeTaskState, Task: "t1", State: "running"},
			{Type: actionlog.TypeTaskState, Task: "t2", State: "running"},
			{Type: actionlog.TypeToolCall, Task: "t1", Key: "ended", Tool: "a.b"},
			{Type: actionlog.TypeToolResult, Task: "t1", Key: "ended", OK: &no},
			{Type: actionlog.TypeToolCall, Task: "t1", Key: "k", Tool: "a.b"},
			{Type: actionlog.TypeToolCall, Task: "t2", Key: "k", Tool: "a.b"},
			{Type: actionlog.TypeTaskState, Task: "t2", State: "failed"},
			{Type: actionlog.TypeNote, Track: "box", Data: json.RawMessage(c.note)},
		} {
			if ev.Seq, ev.At = int64(i+1), "2026-12-01T05:00:00.000Z"; i == 9 {
				b, err := json.Marshal(f.snapshot())
				if err != nil {
					t.Fatal(err)
				}
				if f, err = decodeFold(int64(i), b); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.apply(&ev); err != nil {
				t.Fatal(err)
			}
		}
		one, two := f.Tasks["t1"], f.Tasks["t2"]
		if (one.Doubt == 10) != c.doubt || one.Calls["k"].Doubt != c.doubt || one.Calls["ended"].Doubt {
			t.Errorf("%s: the task that goes on: %d, its call %v", c.name, one.Doubt, one.Calls["k"].Doubt)
		}
		if two.Doubt != 0 || two.Calls["k"].Doubt != c.doubt {
			t.Errorf("%s: the task that is over: %d, its call %v", c.name, two.Doubt, two.Calls["k"].Doubt)
		}
		step := actionlog.Event{Type: actionlog.TypeTaskStep, Task: "t1", Seq: 11, At: "2026-12-01T05:00:00.000Z", Text: "on"}
		if err := f.apply(&step); err != nil || f.Tasks["t1"].Doubt != 0 {
			t.Errorf("%s: it went on: %d, %v", c.name, f.Tasks["t1"].Doubt, err)
		}
	}
}

// What a tool was paid is booked to its app though the line of its call is cut out, where
// the lines around it tell which that is; else it counts for every app's limit of the day,
// and once in what was spent.
func TestPaymentsOfACutOutCall(t *testing.T) {
	yes := true
	created := func(tools string) actionlog.Event {
		return actionlog.Event{Type: actionlog.TypeTaskCreated, Task: "t1", Spec: json.RawMessage(`{"workspace":"home","tools":[` + tools + `]}`)}
	}
	stand := actionlog.Event{Type: actionlog.TypeNote, Track: "box", Data: json.RawMessage(fmt.Sprintf(`{"what":%q}`, actionlog.NoteQuarantined))}
	asked := actionlog.Event{Type: actionlog.TypeApprovalAsked, Task: "t1", Approval: json.RawMessage(`{"id":"t1.budget.k","task":"t1","state":"pending","key":"k","tool":"a.b","input":{}}`)}
	paid := actionlog.Event{Type: actionlog.TypeToolResult, Task: "t1", Key: "k", OK: &yes, Cents: "30"}
	done := actionlog.Event{Type: actionlog.TypeTaskState, Task: "t1", State: "done"}
	for _, c := range []struct {
		name  string
		lines []actionlog.Event
		app   string
		other int64 // what counts for app c
	}{
		{"one app", []actionlog.Event{created(`"a.b","a.c"`), stand, paid}, "a", 0},
		{"two apps", []actionlog.Event{created(`"a.b","c.d"`), stand, paid}, "", 30},
		{"two apps, and it was asked", []actionlog.Event{created(`"a.b","c.d"`), asked, stand, paid}, "a", 0},
		{"the task is over", []actionlog.Event{created(`"a.b"`), stand, done, paid}, "", 30},
		{"no task", []actionlog.Event{stand, stand, paid}, "", 30},
		{"no task, and it was asked", []actionlog.Event{stand, asked, stand, paid}, "a", 0},
	} {
		f := newFold()
		for i, ev := range c.lines {
			if ev.Seq, ev.At = int64(i+1), "2026-12-01T05:00:00.000Z"; ev.Track == "box" {
				ev.At = "2026-12-02T05:00:00.000Z"
			}
			if err := f.apply(&ev); err != nil {
				t.Fatal(err)
			}
			b, err := json.Marshal(f.snapshot())
			if err != nil {
				t.Fatal(err)
			}
			if f, err = decodeFold(ev.Seq, b); err != nil {
				t.Fatal(err)
			}
		}
		if a, other := f.Ledger.Today("a"), f.Ledger.Today("c"); a.Cmp(budget.Whole(30)) != 0 || other.Cmp(budget.Whole(c.other)) != 0 {
			t.Errorf("%s: of a's limit %s are spent, of c's %s", c.name, a, other)
		}
		if sums := f.Ledger.Sums("", ""); len(sums) != 1 || sums[0].App != c.app || sums[0].Cents.Cmp(budget.Whole(30)) != 0 {
			t.Errorf("%s: %+v", c.name, sums)
		}
	}
}

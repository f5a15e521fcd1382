package approval

import (
	"encoding/json"
	"testing"

	"gurtos/core/budget"
)

func TestFirstAnswerHolds(t *testing.T) {
	var b Book
	q := Approval{ID: "t1.task.k", Task: "t1", Question: "?", CostCents: budget.Whole(5), State: Pending}
	if !b.Ask(q) || b.Open("t1") != 1 {
		t.Fatal(b)
	}
	again := q
	again.Question = "something else?"
	if b.Ask(again) || b.Open("t1") != 1 {
		t.Error("asked twice")
	}
	for i, row := range []struct {
		id    string
		yes   bool
		by    string
		moves bool
	}{
		{"t1.task.none", true, "a", false},
		{"t1.task.k", false, "bar", true},
		{"t1.task.k", true, "late", false},
		{"t1.task.k", false, "later", false},
	} {
		if got := b.Answer(row.id, row.yes, row.by, "why"); got != row.moves {
			t.Errorf("answer %d: %v", i, got)
		}
	}
	got, ok := b.Get("t1.task.k")
	if !ok || got.State != Denied || got.By != "bar" || got.Reason != "why" || got.Question != "?" || b.Open("t1") != 0 {
		t.Fatal(got, b.Open("t1"))
	}
	if again := q; b.Ask(again) {
		t.Error("asked anew after the answer")
	}
}

func TestBookIsKept(t *testing.T) {
	var b Book
	for _, id := range []string{"t1.task.b", "t1.task.a", "t2.task.a"} {
		b.Ask(Approval{ID: id, Task: id[:2], State: Pending})
	}
	b.Answer("t1.task.a", true, "bar", "")
	raw, err := json.Marshal(&b)
	if err != nil {
		t.Fatal(err)
	}
	var again Book
	if err := json.Unmarshal(raw, &again); err != nil {
		t.Fatal(err)
	}
	if raw2, _ := json.Marshal(&again); string(raw2) != string(raw) || again.Open("t1") != 1 || again.Open("t2") != 1 {
		t.Fatalf("%s\n%s", raw, raw2)
	}
	for _, row := range []struct {
		state State
		task  string
		want  int
	}{{"", "", 3}, {Pending, "", 2}, {Approved, "", 1}, {Denied, "", 0}, {"", "t1", 2}, {Pending, "t1", 1}, {"", "t9", 0}} {
		if got := again.List(row.state, row.task); len(got) != row.want || got == nil {
			t.Errorf("%+v: %v", row, got)
		}
	}
	if all := again.List("", ""); all[0].ID != "t1.task.b" {
		t.Error("not in the order in which they were asked")
	}
}

package approval

import (
	"encoding/json"
	"fmt"
	"testing"

	"gurtos/core/budget"
)

func TestFirstAnswerHolds(t *testing.T) {
	var b Book
	q := Approval{ID: "t1.task.k", Task: "t1", Question: "?", CostCents: budget.Whole(5), State: Pending}
	if !b.Ask(q, 7) || b.Open("t1") != 1 {
		t.Fatal(b)
	}
	again := q
	again.Question = "something else?"
	if b.Ask(again, 8) || b.Open("t1") != 1 {
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
	if !ok || got.State != Denied || got.By != "bar" || got.Reason != "why" || got.CostCents.Cmp(q.CostCents) != 0 || b.Open("t1") != 0 {
		t.Fatal(got, b.Open("t1"))
	}
	if again := q; b.Ask(again, 9) {
		t.Error("asked anew after the answer")
	}
}

func TestBookIsKept(t *testing.T) {
	var b Book
	for i, id := range []string{"t1.task.b", "t1.task.a", "t2.task.a"} {
		b.Ask(Approval{ID: id, Task: id[:2], State: Pending, Question: "May I?", Tool: "a.b", Input: json.RawMessage(`{"n":1}`)}, int64(7+i))
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
		want  int
	}{{"", 3}, {Pending, 2}, {Approved, 1}, {Denied, 0}} {
		if got, next := again.Part(row.state, 0, 10); len(got) != row.want || next != 0 {
			t.Errorf("%+v: %v %d", row, got, next)
		}
	}
	all, next := again.Part("", 0, 2)
	rest, end := again.Part("", next, 2)
	if all = append(all, rest...); len(all) != 3 || all[0].ID != "t1.task.b" || all[2].Line != 9 || end != 0 {
		t.Error("not in the order in which they were asked", all, end)
	}
	if p := again.Pending("t1"); len(p) != 1 || p[0].Question != "May I?" || string(p[0].Input) != `{"n":1}` {
		t.Error("what is pending is not kept whole", p)
	}
	if p := again.Pending("t9"); p == nil || len(p) != 0 {
		t.Error(p)
	}
}

// Of an answered question nothing stays that grows with what it was about, and a
// snapshot stays as it was.
func TestAnsweredQuestionsAreSmall(t *testing.T) {
	var b Book
	b.Ask(Approval{ID: "t1.task.k", Task: "t1", Question: "May I?", Payee: "Bar", Purpose: "beer", Key: "k", Tool: "a.b", Input: json.RawMessage(`{"n":1}`), State: Pending}, 7)
	before := b.Snapshot()
	b.Answer("t1.task.k", true, "bar", "")
	got, _ := b.Get("t1.task.k")
	if got.Question != "" || got.Payee != "" || got.Purpose != "" || got.Key != "" || got.Tool != "" || got.Input != nil || b.Line(got.ID) != 7 {
		t.Errorf("%+v in line %d", got, b.Line(got.ID))
	}
	if was, _ := before.Part("", 0, 9); len(was) != 1 || was[0].State != Pending || was[0].Question != "May I?" {
		t.Errorf("the snapshot changed: %+v", was)
	}
}

// Whatever order a task's many questions are answered in, those that wait are told in
// theirs.
func TestManyQuestionsOfATask(t *testing.T) {
	var b Book
	const n = 500
	for i := range n {
		b.Ask(Approval{ID: fmt.Sprint(i), Task: "t1", State: Pending}, int64(i+1))
	}
	left := n
	for i := 0; left > 0; i = (i + 7) % n { // 7 and 500 have no common factor
		if b.Answer(fmt.Sprint(i), i%2 == 0, "bar", "") {
			left--
		}
		all := b.Pending("t1")
		if len(all) != left || b.Open("t1") != left {
			t.Fatalf("%d wait, %d by count, not %d", len(all), b.Open("t1"), left)
		}
		for j := 1; j < len(all); j++ {
			if b.Line(all[j].ID) <= b.Line(all[j-1].ID) {
				t.Fatal("not in the order in which they were asked")
			}
		}
	}
}

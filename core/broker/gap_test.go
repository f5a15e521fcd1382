package broker_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gurtos/core/actionlog"
	"gurtos/core/approval"
	"gurtos/core/task"
)

// without ends the box, damages the newest line with each of the words, which end with a
// letter that may be any, cuts the lines out of the log, and starts the box again.
func (b *box) without(words ...string) {
	b.t.Helper()
	b.halt()
	dir := filepath.Join(b.home, "disk")
	name := filepath.Join(dir, "log.jsonl")
	log, err := os.ReadFile(name)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, word := range words {
		i := bytes.LastIndex(log, []byte(word))
		if i < 0 {
			b.t.Fatalf("no line has %s", word)
		}
		log[i+len(word)-1] ^= 1
	}
	// The journal would put the newest lines back, as after a power cut.
	if err := errors.Join(os.WriteFile(name, log, 0o600), os.Remove(filepath.Join(dir, "log.commit"))); err != nil {
		b.t.Fatal(err)
	}
	l, err := actionlog.Open(dir, actionlog.Options{Reserve: -1, Quarantine: true})
	if err != nil {
		b.t.Fatal(err)
	}
	if n := len(l.Recovered().Gaps); n == 0 {
		b.t.Fatal("nothing was cut out")
	}
	if err := l.Close(); err != nil {
		b.t.Fatal(err)
	}
	b.start()
}

// lose ends the box, takes the newest line with a word and all behind it off the log's end,
// and starts the box again.
func (b *box) lose(word string) {
	b.t.Helper()
	b.halt()
	name := filepath.Join(b.home, "disk", "log.jsonl")
	log, err := os.ReadFile(name)
	if err != nil {
		b.t.Fatal(err)
	}
	i := bytes.LastIndex(log, []byte(word))
	if i < 0 {
		b.t.Fatalf("no line has %s", word)
	}
	if err := os.WriteFile(name, log[:bytes.LastIndexByte(log[:i], '\n')+1], 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.start()
}

func (b *box) step(id, text string) {
	b.t.Helper()
	if a := b.post(id, "/step", `{"text":"`+text+`"}`); a.status != 200 {
		b.t.Fatal(a)
	}
}

// told counts the alerts about lines that were cut out.
func (b *box) told() (n int) {
	for _, ev := range b.events(actionlog.TypeNote, "") {
		if strings.Contains(string(ev.Data), `"cutOut":true`) {
			n++
		}
	}
	return n
}

// A task that was stopped, or caught, does not come back because the line that says so was
// cut out, or is lost off the end: nothing of it runs before the owner wants it carried on.
func TestStoppedTaskStaysStopped(t *testing.T) {
	for _, c := range []struct {
		yes  bool
		gone func(b *box)
	}{
		{false, func(b *box) { b.without(`"state":"failed`) }},
		{true, func(b *box) { b.without(`"state":"failed`) }},
		{false, func(b *box) { b.lose(`"state":"failed`) }},
	} {
		b := newBox(t, boxOptions{})
		id := b.begin("")
		b.step(id, "one")
		if _, err := b.tasks.Stop(t.Context(), id, "bar"); err != nil {
			t.Fatal(err)
		}
		c.gone(b)
		ask := b.pending(id)
		if !strings.HasPrefix(ask.ID, id+".resume.") || !strings.Contains(ask.Question, "was cut out of the log") {
			t.Fatalf("asked %+v", ask)
		}
		b.restart()
		if again := b.pending(id); again.ID != ask.ID || b.task(id).State != task.Waiting || b.runner.get(id) != nil {
			t.Fatalf("%+v, %s, with a sandbox: %v", again, b.task(id).State, b.runner.get(id) != nil)
		}
		b.answer(ask.ID, c.yes)
		if c.yes {
			b.runner.wait(t, id)
			if a := b.get(id, "/task"); a.status != 200 || !strings.Contains(a.raw, "one") {
				t.Error(a)
			}
			b.finish(id)
		} else if got := b.until(id, task.Failed); got.Error != "Stopped by bar." {
			t.Errorf("%+v", got)
		}
		b.restart()
		if got := b.task(id).State; got.Live() {
			t.Errorf("after another start it is %s", got)
		}
		if n := b.told(); n != 1 {
			t.Errorf("the owner is told %d times", n)
		}
	}
}

// What goes on behind a cut-out line was not ended by it, and is carried on as after any
// start; so is what had not begun, and what began with the line that is gone.
func TestTaskGoesOnBehindAGap(t *testing.T) {
	for _, word := range []string{`"text":"one`, `"state":"running`} {
		b := newBox(t, boxOptions{})
		id := b.begin("")
		b.step(id, "one")
		b.step(id, "two")
		b.without(word)
		b.runner.wait(t, id)
		if got := b.task(id); got.State != task.Running || len(b.events(actionlog.TypeApprovalAsked, id)) != 0 {
			t.Errorf("without %s: %+v", word, got)
		}
		if word == `"state":"running` && len(b.events(actionlog.TypeTaskState, id)) != 0 {
			t.Errorf("it was started once more: %v", b.kinds(id))
		}
		b.finish(id)
	}
}

// An undo whose line was cut out is known by its note.
func TestUndoneTaskStaysUndone(t *testing.T) {
	for _, done := range []bool{false, true} {
		b := newBox(t, boxOptions{})
		id := b.begin("")
		if done {
			b.finish(id)
		}
		if _, err := b.tasks.Undo(t.Context(), id, "bar"); err != nil {
			t.Fatal(err)
		}
		b.without(`"state":"undone`)
		b.until(id, task.Undone)
		b.restart()
		if got := b.task(id).State; got != task.Undone || b.runner.get(id) != nil {
			t.Errorf("done before: %v: after another start it is %s", done, got)
		}
	}
}

// A no holds though the line that asked was cut out; a yes, of which nobody knows any more
// what it was to, lets nothing run.
func TestAnswerWithoutItsQuestion(t *testing.T) {
	for _, yes := range []bool{false, true} {
		shop := &till{}
		f := &fault{box: shopBox(t, shop, boxOptions{}), shop: shop}
		f.id = f.begin(buys)
		f.goCall(big)
		ask := f.pending(f.id)
		f.pause(true) // a yes starts nothing yet
		f.answer(ask.ID, yes)
		f.without(`"type":"approval.asked`)
		f.pause(false)
		f.runner.wait(t, f.id)
		got := f.goCall(big)
		if yes {
			if again := f.pending(f.id); again.ID != ask.ID || shop.total() != 0 {
				t.Errorf("asked %+v, %d runs", again, shop.total())
			}
			f.answer(ask.ID, true)
			if a := <-got; a.body["ok"] != true || shop.total() != 1 {
				t.Errorf("%v, %d runs", a, shop.total())
			}
			continue
		}
		if a := <-got; a.body["error"] != task.NotApproved || shop.total() != 0 {
			t.Errorf("%v, %d runs", a, shop.total())
		}
		all, err := f.tasks.Approvals(t.Context(), approval.Denied)
		if err != nil || len(all) != 1 || all[0].ID != ask.ID || all[0].By != "bar" || !strings.Contains(all[0].Question, "cut out") {
			t.Errorf("%+v, %v", all, err)
		}
	}
}

// The result of a call holds for its key though the line of the call was cut out; a call
// whose result was cut out, and that nobody makes again, counts as paid.
func TestCallWithoutALine(t *testing.T) {
	for _, c := range []struct{ word, cost string }{{`"type":"tool.call`, "80"}, {`"type":"tool.result`, "80"}} {
		shop := &till{}
		f := &fault{box: shopBox(t, shop, boxOptions{}), shop: shop}
		f.id = f.begin(buys)
		f.ends(small, 1)
		f.step(f.id, "after")
		f.without(c.word)
		f.runner.wait(t, f.id)
		if c.word == `"type":"tool.call` {
			f.ends(small, 1)
		}
		if _, err := f.tasks.Stop(t.Context(), f.id, "bar"); err != nil {
			t.Fatal(err)
		}
		if got := f.task(f.id).CostCents.String(); got != c.cost || shop.total() != 1 {
			t.Errorf("without %s the task cost %s, after %d runs", c.word, got, shop.total())
		}
		sums, err := f.tasks.Spend(t.Context(), "", "")
		if err != nil || len(sums) != 1 || sums[0].App != "shop" || sums[0].Cents.String() != c.cost {
			t.Errorf("without %s: %+v %v", c.word, sums, err)
		}
	}
}

package broker_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"gurtos/core/actionlog"
	"gurtos/core/approval"
	"gurtos/core/task"
	"gurtos/sandbox"
)

var faults = map[string]func(t *testing.T, f *fault){
	"call-unlogged": func(t *testing.T, f *fault) {
		f.off()
		<-f.goCall(small)
		f.back()
		f.ends(small, 1)
	},
	"call-asked-unlogged": func(t *testing.T, f *fault) {
		f.off()
		<-f.goCall(big)
		f.back()
		f.asked(0)
		f.goCall(big)
		f.answer(f.pending(f.id).ID, true)
		f.ends(big, 1)
		f.asked(1)
	},
	"call-asked": func(t *testing.T, f *fault) {
		f.goCall(big)
		ask := f.pending(f.id)
		f.back()
		f.goCall(big)
		if again := f.pending(f.id); again.ID != ask.ID || f.shop.total() != 0 {
			t.Fatal(again, f.shop.total())
		}
		f.answer(ask.ID, true)
		f.ends(big, 1)
		f.asked(1)
	},
	"call-answer-unlogged": func(t *testing.T, f *fault) {
		f.goCall(big)
		ask := f.pending(f.id)
		f.off()
		if a, err := f.tasks.Answer(t.Context(), ask.ID, true, "bar", ""); err == nil {
			t.Fatalf("the owner was told %+v", a)
		}
		f.back()
		if f.pending(f.id).ID != ask.ID || f.shop.total() != 0 {
			t.Fatal(f.shop.total())
		}
	},
	"call-approved": func(t *testing.T, f *fault) {
		f.goCall(big)
		ask := f.pending(f.id)
		f.pause(true) // so that the OK starts nothing yet
		f.answer(ask.ID, true)
		f.cut(7)
		if f.shop.total() != 0 {
			t.Fatal(f.shop.total())
		}
		f.pause(false)
		f.runner.wait(t, f.id)
		f.ends(big, 1)
		f.asked(1)
	},
	"call-denied": func(t *testing.T, f *fault) {
		f.goCall(big)
		f.answer(f.pending(f.id).ID, false)
		f.back()
		if a := f.call(f.id, "k", "shop.buy", big); a.body["error"] != "not approved" || f.shop.total() != 0 {
			t.Fatal(a, f.shop.total())
		}
		f.asked(1)
	},
	"call-start-unlogged": func(t *testing.T, f *fault) {
		f.goCall(big)
		ask := f.pending(f.id)
		f.pause(true)
		f.answer(ask.ID, true)
		f.off()
		// The pause can't be ended either: what is decided from here on is lost.
		if f.tasks.Pause(t.Context(), false, "me") == nil {
			t.Fatal("the owner was told that agents go on")
		}
		f.cut(7)
		f.pause(false)
		f.runner.wait(t, f.id)
		f.ends(big, 1)
	},
	"call-running": func(t *testing.T, f *fault) {
		free := f.holdTool()
		f.goCall(small)
		f.runs(1)
		f.back()
		free()
		go sendTo(context.Background(), f.runner.get(f.id).path, "POST", "/call", `{"key":"other","tool":"shop.buy","input":{"cents":30}}`)
		if a := f.pending(f.id); a.ID != f.id+".budget.other" {
			t.Fatal(a)
		}
		f.ends(small, 2)
	},
	"call-result-unlogged": func(t *testing.T, f *fault) {
		free := f.holdTool()
		got := f.goCall(small)
		f.runs(1)
		f.off()
		free()
		if a := <-got; a.body["ok"] == true {
			t.Fatalf("the worker was told %v", a)
		}
		f.back()
		f.ends(small, 2)
	},
	"call-result": func(t *testing.T, f *fault) {
		f.goCall(small)
		eventually(t, func() bool { return len(f.events(actionlog.TypeToolResult, f.id)) == 1 }, func() string { return "no result" })
		f.back()
		f.ends(small, 1)
	},
	"call-never-again": func(t *testing.T, f *fault) {
		defer f.holdTool()()
		f.goCall(small)
		f.runs(1)
		f.back()
		f.finish(f.id)
		f.closed()
	},
	"call-after-end": func(t *testing.T, f *fault) {
		defer f.holdTool()()
		f.goCall(small)
		f.runs(1)
		if _, err := f.tasks.Stop(t.Context(), f.id, "me"); err != nil {
			t.Fatal(err)
		}
		f.back()
		eventually(t, func() bool { return len(f.events(actionlog.TypeToolResult, f.id)) == 1 }, func() string { return "not closed" })
		f.closed()
	},
	"ask-unlogged": func(t *testing.T, f *fault) {
		f.off()
		f.goAsk()
		f.back()
		f.asked(0)
		f.goAsk()
		f.pending(f.id)
	},
	"ask-torn": func(t *testing.T, f *fault) {
		q := fmt.Sprintf(`{"id":"%s.task.q","task":%q,"question":"?","costCents":0,"state":"pending"}`, f.id, f.id)
		f.lines(actionlog.Event{Type: actionlog.TypeApprovalAsked, Task: f.id, Approval: []byte(q)})
		f.until(f.id, task.Waiting)
		f.answer(f.id+".task.q", true)
		f.until(f.id, task.Running)
	},
	"ask-open": func(t *testing.T, f *fault) {
		f.goAsk()
		ask := f.pending(f.id)
		f.back()
		f.until(f.id, task.Waiting)
		f.goAsk()
		f.answer(ask.ID, true)
		f.until(f.id, task.Running)
		f.asked(1)
	},
	"ask-answer-unlogged": func(t *testing.T, f *fault) {
		f.goAsk()
		ask := f.pending(f.id)
		f.off()
		if a, err := f.tasks.Answer(t.Context(), ask.ID, false, "bar", ""); err == nil {
			t.Fatalf("the owner was told %+v", a)
		}
		f.back()
		if a := f.answer(ask.ID, true); a.State != approval.Approved {
			t.Fatal(a)
		}
	},
	"ask-answer-torn": func(t *testing.T, f *fault) {
		f.goAsk()
		ask := f.pending(f.id)
		yes := true
		f.lines(actionlog.Event{Type: actionlog.TypeApprovalAnswered, Task: f.id, ID: ask.ID, Approved: &yes, By: "bar"})
		f.until(f.id, task.Running)
		if a := f.answer(ask.ID, false); a.State != approval.Approved || a.By != "bar" {
			t.Fatal(a)
		}
	},
	"ask-answered": func(t *testing.T, f *fault) {
		f.goAsk()
		f.answer(f.pending(f.id).ID, true)
		f.back()
		if a := f.post(f.id, "/ask", `{"question":"?","key":"q"}`); a.body["approved"] != true {
			t.Fatal(a)
		}
		f.asked(1)
	},
	"undo-unlogged": func(t *testing.T, f *fault) {
		f.off()
		if x, err := f.tasks.Undo(t.Context(), f.id, "me"); err == nil {
			t.Fatalf("the owner was told %+v", x)
		}
		f.back()
		f.until(f.id, task.Running)
	},
	"undo-torn": func(t *testing.T, f *fault) {
		f.goAsk()
		ask := f.pending(f.id)
		no := false
		f.lines(actionlog.Event{Type: actionlog.TypeApprovalAnswered, Task: f.id, ID: ask.ID, Approved: &no, By: "undo"})
		f.until(f.id, task.Running)
		if a := f.post(f.id, "/ask", `{"question":"?","key":"q"}`); a.body["approved"] != false {
			t.Fatal(a)
		}
		if _, err := f.tasks.Undo(t.Context(), f.id, "me"); err != nil {
			t.Fatal(err)
		}
		f.gone()
	},
	"undo-sandbox": func(t *testing.T, f *fault) {
		f.halt()
		f.start()
		f.runner.wait(t, f.id)
		if _, err := f.tasks.Undo(t.Context(), f.id, "me"); err != nil {
			t.Fatal(err)
		}
		f.back()
		if f.task(f.id).State != task.Undone || f.runner.get(f.id) != nil {
			t.Fatal(f.task(f.id))
		}
		f.gone()
	},
	"undo-files": func(t *testing.T, f *fault) {
		if _, err := f.tasks.Undo(t.Context(), f.id, "me"); err != nil {
			t.Fatal(err)
		}
		f.gone()
		// As a crash in the middle of deleting leaves it.
		if err := os.MkdirAll(filepath.Join(f.home, "tasks", f.id, "home"), 0o700); err != nil {
			t.Fatal(err)
		}
		f.back()
		f.gone()
	},
	"undo-read": func(t *testing.T, f *fault) {
		f.finish(f.id)
		reader := f.begin("")
		if _, err := f.tasks.Undo(t.Context(), f.id, "me"); err != nil {
			t.Fatal(err)
		}
		// Its end is decided, and gets on no disk any more.
		f.off()
		f.runner.get(reader).end(sandbox.Exit{Code: 1})
		eventually(t, func() bool { return f.log.Err() != nil }, func() string { return "the log takes what it is given" })
		f.tidied()
		f.back()
		f.runner.wait(t, reader)
		if _, err := os.Stat(filepath.Join(f.home, "tasks", f.id, "layer")); err != nil {
			t.Fatal(err)
		}
		f.finish(reader)
		f.gone()
	},
}

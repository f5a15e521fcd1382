package broker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"gurtos/core/task"
)

// over ends the box and starts it again: all that was in the log is in it after, and
// what follows from it is what it was.
func (w *world) over(again func()) {
	w.t.Helper()
	before := w.lines()
	w.quit()
	again()
	w.wg.Wait()
	w.ctx, w.quit = context.WithCancel(context.Background())
	after := w.lines()
	if len(after) < len(before) || !slices.Equal(after[:len(before)], before) {
		w.fail("a restart lost lines: %d of %d", len(after), len(before))
	}
	w.hold.mu.Lock()
	w.hold.all = nil
	w.hold.mu.Unlock()
}

func (w *world) lines() []string {
	w.t.Helper()
	var out []string
	if err := w.log.Read(w.t.Context(), 0, func(l []byte, _ func() (eventOf, error)) error {
		out = append(out, string(l))
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	return out
}

// check holds the box against a model that is made of nothing but the lines of the log.
func (w *world) check() {
	w.t.Helper()
	// Reads wait for what they saw, so the log has it all when they return.
	all, err := w.tasks.List(w.t.Context(), task.Filter{Limit: 1 << 30})
	if err != nil {
		w.t.Fatal(err)
	}
	m := newModel(w.opt.settings)
	for _, l := range w.lines() {
		m.line(l)
	}
	for _, s := range m.wrong {
		w.fail("%s", s)
	}
	if len(all) > len(m.tasks) {
		w.fail("%d tasks, and %d in the log", len(all), len(m.tasks))
	}
	w.quiet()
}

// quiet compares state by state, when nothing came between.
func (w *world) quiet() {
	for range 50 {
		head, _ := w.log.Head()
		all, err := w.tasks.List(w.t.Context(), task.Filter{Limit: 1 << 30})
		if err != nil {
			w.t.Fatal(err)
		}
		asked, err := w.tasks.Approvals(w.t.Context(), "")
		if err != nil {
			w.t.Fatal(err)
		}
		if now, _ := w.log.Head(); now != head {
			continue
		}
		m := newModel(w.opt.settings)
		for _, l := range w.lines()[:head] {
			m.line(l)
		}
		for _, x := range all {
			y := m.tasks[x.ID]
			if y == nil || y.state != x.State || y.cost.Cmp(x.CostCents) != 0 || !slices.Equal(y.layers, x.Layers) {
				w.fail("%s is %s for %s, and %+v by the log", x.ID, x.State, x.CostCents, y)
			}
		}
		for _, a := range asked {
			if m.asked[a.ID] != string(a.State) {
				w.fail("%s is %s, and %s by the log", a.ID, a.State, m.asked[a.ID])
			}
		}
		return
	}
}

// busy holds that the test did something of everything.
func (w *world) busy() {
	w.t.Helper()
	count := map[string]int{}
	for _, ev := range w.events("", "") {
		what := string(ev.Type)
		switch {
		case ev.State != "":
			what += " " + ev.State
		case ev.OK != nil:
			what += fmt.Sprint(" ", *ev.OK)
		case ev.Approved != nil:
			what += fmt.Sprint(" ", *ev.Approved, " ", ev.By)
		case len(ev.Data) > 0:
			var d struct{ What string }
			if err := json.Unmarshal(ev.Data, &d); err != nil {
				w.t.Fatal(err)
			}
			what += " " + d.What
		}
		count[what]++
	}
	w.t.Log(count)
	for _, what := range []string{
		"task.created", "task.state running", "task.state waiting", "task.state done", "task.state failed", "task.state undone", "task.step",
		"tool.call", "tool.result true", "tool.result false", "approval.asked", "approval.answered true bar", "approval.answered false bar",
		"approval.answered false undo", "approval.answered false task ended", "cost", "note pause", "note call merged", "note permission",
		"note permission refused", "note undo", "note alert",
	} {
		if *steps > 2000 && count[what] < *steps/2000 { // few steps may miss one
			w.t.Errorf("%d times %s", count[what], what)
		}
	}
}

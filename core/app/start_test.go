package app_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"gurtos/core/app"
	"gurtos/core/approval"
	"gurtos/core/task"
	"gurtos/core/tool"
	"gurtos/sandbox"
)

// halting is a Runner that starts nothing while it is told so.
type halting struct {
	app.Runner
	off *atomic.Bool
}

func (h halting) Start(ctx context.Context, spec sandbox.Spec) (app.Sandbox, error) {
	if h.off.Load() {
		return nil, errors.New("nothing starts here")
	}
	return h.Runner.Start(ctx, spec)
}

// A paid call that no process was ever sent fails and costs nothing. One that may have
// begun before stays open, since nobody knows whether it was paid.
func TestPaidCallThatCannotBegin(t *testing.T) {
	var off atomic.Bool
	w := newWorld(t, map[string]string{"pays": track("pays", `tools: [
		{ name: 'pays.do', description: 'd', cost: () => 700, async run() { return 'paid'; } },
		{ name: 'pays.die', description: 'd', async run() { process.exit(0); } },
	]`)}, func(o *app.Options) { o.Runner = halting{o.Runner, &off} })
	w.on("pays")
	id := w.task("trycall pays.do {}", "pays.do")
	w.over(id, task.Waiting)
	off.Store(true)
	if _, err := w.call("pays.die", "{}", &call{key: "t1.x"}); err == nil {
		t.Error("it lives")
	}
	list, err := w.tasks.Approvals(t.Context(), approval.Pending)
	must(t, err)
	_, err = w.tasks.Answer(t.Context(), list[0].ID, true, "box screen", "")
	must(t, err)
	if end := w.over(id); end.State != task.Done || end.CostCents.String() != "0" {
		t.Errorf("%+v", end)
	}
	if got := w.results(id); len(got) != 1 || !strings.Contains(got[0], "its process could not be started: nothing starts here") {
		t.Errorf("results: %q", got)
	}
	for _, c := range []struct {
		call *call
		open bool
	}{{&call{}, false}, {&call{old: true}, true}} {
		out, err := w.call("pays.do", "{}", c.call)
		if err == nil || errors.Is(err, tool.ErrCutOff) != c.open || !strings.Contains(err.Error(), "nothing starts here") {
			t.Errorf("begun before %v: %s, %v", c.call.old, out, err)
		}
	}
	off.Store(false)
	if out, err := w.call("pays.do", "{}", &call{old: true}); err != nil || out != `"paid"` {
		t.Errorf("once it starts again: %s, %v", out, err)
	}
}

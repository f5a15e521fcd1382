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
	"gurtos/netpolicy"
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
	if out, err := w.call("pays.do", "{}", &call{old: true}); !errors.Is(err, tool.ErrCutOff) || !strings.Contains(err.Error(), "nothing starts here") {
		t.Errorf("one that may have begun before: %s, %v", out, err)
	}
}

// changing is a network of apps that runs change while an app's process gets it, and tells of the rules that are set later.
type changing struct {
	app.Network
	change func()
	set    chan bool // whether any public host may be reached
}

func (c changing) Attach(ns sandbox.Namespace, p netpolicy.Policy) (app.Space, error) {
	s, err := c.Network.Attach(ns, p)
	if err != nil {
		return nil, err
	}
	c.change()
	return telling{s, c.set}, nil
}

type telling struct {
	app.Space
	set chan bool
}

func (s telling) SetRules(hosts []string, anyPublic bool) error {
	err := s.Space.SetRules(hosts, anyPublic)
	s.set <- anyPublic
	return err
}

// What the owner changes while an app's process starts holds for that process too.
func TestHeededAsItStarts(t *testing.T) {
	var w *world
	net := changing{network{}, func() {
		_, err := w.tasks.SetRights(t.Context(), "late", []byte(`{"declaredHostsOnly":true}`), "test")
		must(t, err)
	}, make(chan bool, 10)}
	w = newWorld(t, map[string]string{"late": oneTool("late", "return 1;")}, func(o *app.Options) { o.Network = net })
	w.on("late")
	if _, err := w.call("late.do", "{}"); err != nil {
		t.Fatal(err)
	}
	if anyPublic := <-net.set; anyPublic {
		t.Error("it may reach more than its hosts")
	}
}

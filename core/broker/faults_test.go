package broker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gurtos/core/actionlog"
)

// fault is a box with one task, and a till whose tool can be held.
type fault struct {
	*box
	shop *till
	id   string
}

const big, small = `{"cents":300}`, `{"cents":80}`

// goCall makes a call aside.
func (f *fault) goCall(input string) chan answered {
	got := make(chan answered, 1)
	b, id := f.box, f.id
	sb := b.runner.get(id)
	go func() {
		a, _ := sendTo(context.Background(), sb.path, "POST", "/call", fmt.Sprintf(`{"key":"k","tool":"shop.buy","input":%s}`, input))
		got <- a
	}()
	return got
}

func (f *fault) goAsk() {
	sb := f.runner.get(f.id)
	go sendTo(context.Background(), sb.path, "POST", "/ask", `{"question":"?","key":"q"}`)
}

// off takes the power away without anyone noticing yet: nothing more gets on the disk.
func (f *fault) off() { f.disk.CutAfter(0) }

// back gives the power back, and the task its worker.
func (f *fault) back() {
	f.t.Helper()
	f.cut(7)
	if f.task(f.id).State.Live() {
		f.runner.wait(f.t, f.id)
	}
}

// runs waits until the tool has begun for the n-th time.
func (f *fault) runs(n int) {
	f.t.Helper()
	eventually(f.t, func() bool { return f.shop.total() == n }, func() string { return fmt.Sprintf("%d runs, not %d", f.shop.total(), n) })
}

// ends makes the call again and holds that it ends well, after so many runs, under one
// key, with one result, charged once.
func (f *fault) ends(input string, runs int) {
	f.t.Helper()
	if a := f.call(f.id, "k", "shop.buy", input); a.body["ok"] != true {
		f.t.Fatal(a)
	}
	cents := strings.Trim(input, `{}"cents:`)
	if f.shop.count(f.id+".k") != runs || f.shop.total() != runs || f.task(f.id).CostCents.String() != cents || len(f.events(actionlog.TypeToolResult, f.id)) != 1 {
		f.t.Fatalf("%d runs, cost %s, %s", f.shop.total(), f.task(f.id).CostCents, f.kinds(f.id))
	}
}

func (f *fault) asked(n int) {
	f.t.Helper()
	if got := len(f.events(actionlog.TypeApprovalAsked, f.id)); got != n {
		f.t.Fatalf("asked %d times, not %d", got, n)
	}
}

// lines ends the box, writes lines into its log as a torn batch leaves them, and starts
// it again.
func (f *fault) lines(evs ...actionlog.Event) {
	f.t.Helper()
	f.halt()
	log, err := actionlog.Open(filepath.Join(f.home, "disk"), actionlog.Options{Reserve: -1})
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := log.Append(f.t.Context(), evs...); err != nil {
		f.t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		f.t.Fatal(err)
	}
	f.start()
	f.runner.wait(f.t, f.id)
}

// holdTool makes the tool wait from now on; the function lets it go.
func (f *fault) holdTool() func() {
	c := make(chan struct{})
	f.shop.mu.Lock()
	f.shop.hold = c
	f.shop.mu.Unlock()
	return func() {
		f.shop.mu.Lock()
		f.shop.hold = nil
		f.shop.mu.Unlock()
		close(c)
	}
}

func (f *fault) gone() {
	f.t.Helper()
	dir := filepath.Join(f.home, "tasks", f.id)
	eventually(f.t, func() bool { _, err := os.Stat(dir); return errors.Is(err, os.ErrNotExist) }, func() string { return dir + " is still there" })
}

// tidied gives the janitor a moment to do what it should not.
func (f *fault) tidied() {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 20 {
		<-tick.C
	}
}

// closed holds that a call which nobody makes again is closed and the owner told.
func (f *fault) closed() {
	f.t.Helper()
	ev := f.events(actionlog.TypeToolResult, f.id)
	if len(ev) != 1 || *ev[0].OK || ev[0].Cents != "" {
		f.t.Fatal(ev)
	}
	alert := false
	for _, n := range f.events(actionlog.TypeNote, f.id) {
		alert = alert || strings.Contains(string(n.Data), `"what":"alert"`) && strings.Contains(string(n.Data), f.id+".k")
	}
	if !alert || f.shop.total() != 1 {
		f.t.Fatalf("alert %v, %d runs", alert, f.shop.total())
	}
}

func TestFaults(t *testing.T) {
	doc, err := os.ReadFile("../../docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| ((?:call|ask|undo)-[a-z-]+) \|`).FindAllStringSubmatch(string(doc), -1)
	if len(rows) != len(faults) {
		t.Errorf("%d rows in docs/faults.md, %d tests", len(rows), len(faults))
	}
	for _, row := range rows {
		run := faults[row[1]]
		if run == nil {
			t.Errorf("docs/faults.md has %s, which has no test", row[1])
			continue
		}
		t.Run(row[1], func(t *testing.T) {
			shop := &till{}
			f := &fault{box: shopBox(t, shop, boxOptions{}), shop: shop}
			f.id = f.begin(buys)
			run(t, f)
		})
	}
}

package broker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/task"
	"gurtos/core/tool"
	"gurtos/sandbox"
)

// A task that ended is told as whole as before, and so is a question that was answered,
// though memory keeps no text of either: after the end, a restart, and an undo.
func TestEndedTasksAreToldWhole(t *testing.T) {
	shop := &till{}
	b := shopBox(t, shop, boxOptions{})
	below := b.begin("")
	b.finish(below)
	long := strings.Repeat("Do this, and then that — ", 3000)
	spec, err := json.Marshal(map[string]any{
		"title": "A long one", "prompt": long, "worker": "fake", "tools": []string{"shop.buy"}, "hosts": []string{"example.com"},
		"seat": "Credit analyst", "budgetCents": 7, "source": "schedule",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"well", "badly"} {
		t.Run(how, func(t *testing.T) {
			b.t = t
			id := b.create(string(spec)).ID
			b.runner.wait(t, id)
			why := strings.Repeat("reason ", 100)
			b.post(id, "/step", fmt.Sprintf(`{"text":%q,"data":{"summary":true}}`, why))
			go b.send(t.Context(), id, "POST", "/call", `{"key":"k","tool":"shop.buy","input":{"n":"<&>  ","cents":300}}`)
			ask := b.pending(id)
			if string(ask.Input) != `{"n":"<&>  ","cents":300}` || ask.Tool != "shop.buy" {
				t.Fatalf("%+v", ask)
			}
			b.answer(ask.ID, true)
			eventually(t, func() bool { return shop.count(id+".k") == 1 }, func() string { return "not run" })
			eventually(t, func() bool { return b.task(id).CostCents.String() == "300" }, func() string { return "not charged" })
			before := b.task(id)
			if before.Prompt != long || before.Summary != why || !reflect.DeepEqual(before.Layers, []string{below}) || before.Seat != "Credit analyst" {
				t.Fatalf("%+v", before)
			}
			if how == "well" {
				b.finish(id)
			} else {
				b.runner.get(id).end(sandbox.Exit{Code: 1, Output: why})
				before.Error = strings.TrimSpace(why)
				b.until(id, task.Failed)
			}
			same := func(when string) {
				t.Helper()
				got := b.task(id)
				want := before
				want.State, want.UpdatedAt = got.State, got.UpdatedAt
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %+v, not %+v", when, got, want)
				}
				list, err := b.tasks.List(t.Context(), task.Filter{State: got.State})
				if err != nil || !reflect.DeepEqual(list[0], got) {
					t.Errorf("%s: %v in the list: %+v", when, err, list)
				}
				asked, err := b.tasks.Approvals(t.Context(), "")
				if err != nil {
					t.Fatal(err)
				}
				a := asked[len(asked)-1]
				want2 := ask
				want2.State, want2.By = "approved", "bar"
				if !reflect.DeepEqual(a, want2) {
					t.Errorf("%s: %+v, not %+v", when, a, want2)
				}
				if one, err := b.tasks.Approval(t.Context(), ask.ID); err != nil || !reflect.DeepEqual(one, want2) {
					t.Errorf("%s: %v %+v", when, err, one)
				}
			}
			same("ended")
			b.restart() // from the kept state
			same("after a restart")
			b.cut(7) // and from the log alone where it is gone
			same("after a power cut")
			undone, err := b.tasks.Undo(t.Context(), id, "me")
			if err != nil || undone.Prompt != long || undone.Summary != why || undone.Error != before.Error {
				t.Errorf("%v: %+v", err, undone)
			}
			same("undone")
		})
	}
	b.t = t
}

// crowd is a log that counts who reads lines of it at once, and has each wait a while for
// others to come.
type crowd struct {
	*actionlog.Log
	mu        sync.Mutex
	line      int64 // of the result
	now, most int
}

func (c *crowd) Lines(ctx context.Context, seqs []int64, fn actionlog.Reader) error {
	c.mu.Lock()
	if seqs[0] != c.line {
		c.mu.Unlock()
		return c.Log.Lines(ctx, seqs, fn)
	}
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	c.others()
	err := c.Log.Lines(ctx, seqs, fn)
	c.mu.Lock()
	c.now--
	c.mu.Unlock()
	return err
}

// others returns once three are there, or after a while.
func (c *crowd) others() {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 40 {
		c.mu.Lock()
		n := c.now
		c.mu.Unlock()
		if n > 2 {
			return
		}
		<-tick.C
	}
}

// A call whose result is long is answered to few at once, so that one made again and
// again fills no memory. Others are not held up.
func TestFewLongResultsAtOnce(t *testing.T) {
	shop := &till{out: func(tool.Call, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`), nil
	}}
	var c *crowd
	b := shopBox(t, shop, boxOptions{reads: func(l *actionlog.Log) task.Log { c = &crowd{Log: l}; return c }})
	id := b.begin(buys)
	first := b.call(id, "k", "shop.buy", `{"cents":1}`)
	if len(first.raw) < 1<<20 {
		t.Fatalf("%.200s", first)
	}
	b.restart()
	b.runner.wait(t, id)
	c.mu.Lock()
	c.line = b.events(actionlog.TypeToolResult, id)[0].Seq
	c.mu.Unlock()
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			if a, err := b.send(t.Context(), id, "POST", "/call", `{"key":"k","tool":"shop.buy","input":{"cents":1}}`); err != nil || a.raw != first.raw {
				t.Errorf("%v %.200s", err, a)
			}
		})
	}
	b.post(id, "/step", `{"text":"x"}`)
	wg.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.most != 2 {
		t.Errorf("%d are answered at once", c.most)
	}
}

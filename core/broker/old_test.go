package broker_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

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

// A call whose result is long is answered to few at once, so that one made again and
// again by clients that read nothing fills no memory. Others are not held up.
func TestFewLongResultsAtOnce(t *testing.T) {
	shop := &till{out: func(tool.Call, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`"` + strings.Repeat("x", 7<<20) + `"`), nil
	}}
	b := shopBox(t, shop, boxOptions{})
	id := b.begin(buys)
	if a := b.call(id, "k", "shop.buy", `{"cents":1}`); len(a.raw) < 7<<20 {
		t.Fatalf("%.200s", a)
	}
	b.restart()
	b.runner.wait(t, id)
	ask := func() (net.Conn, *bufio.Reader) {
		t.Helper()
		c, err := net.Dial("unix", b.runner.get(id).path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		body := `{"key":"k","tool":"shop.buy","input":{"cents":1}}`
		if _, err := fmt.Fprintf(c, "POST /call HTTP/1.1\r\nHost: box\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
			t.Fatal(err)
		}
		return c, bufio.NewReader(c)
	}
	var first net.Conn
	for i := range 2 {
		c, in := ask()
		if _, err := in.Peek(1); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = c
		}
	}
	_, third := ask()
	came := make(chan error, 1)
	go func() {
		res, err := http.ReadResponse(third, nil)
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
		}
		came <- err
	}()
	for range 100 {
		b.post(id, "/step", `{"text":"x"}`)
	}
	select {
	case err := <-came:
		t.Fatalf("a third is answered while two are read by nobody: %v", err)
	default:
	}
	first.Close()
	select {
	case err := <-came:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the third is never answered")
	}
}

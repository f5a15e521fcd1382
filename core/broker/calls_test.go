package broker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/task"
	"gurtos/core/tool"
)

func shopBox(t testing.TB, shop *till, o boxOptions) *box {
	t.Helper()
	o.tools = toolSet{"shop.buy": shop.tool("shop.buy")}
	return newBox(t, o)
}

const buys = `"tools":["shop.buy"]`

// kinds are the types of a task's lines, without its states.
func (b *box) kinds(id string) string {
	var out []string
	for _, ev := range b.events("", id) {
		if ev.Type != actionlog.TypeTaskState && ev.Type != actionlog.TypeTaskCreated {
			out = append(out, string(ev.Type))
		}
	}
	return strings.Join(out, " ")
}

func TestCallRunsOnceForAKey(t *testing.T) {
	shop := &till{}
	b := shopBox(t, shop, boxOptions{})
	id := b.begin(buys)
	for range 3 {
		if a := b.call(id, "k", "shop.buy", `{"cents":30}`); a.raw != `{"ok":true,"output":{"cents":30}}`+"\n" {
			t.Fatal(a)
		}
	}
	b.restart()
	b.runner.wait(t, id)
	if a := b.call(id, "k", "shop.buy", ` { "cents" : 30 } `); a.body["ok"] != true {
		t.Fatal(a)
	}
	if n := shop.count(id + ".k"); n != 1 {
		t.Fatalf("ran %d times", n)
	}
	if got := b.kinds(id); got != "tool.call tool.result" {
		t.Fatal(got)
	}
	if got := b.task(id).CostCents.String(); got != "30" {
		t.Fatal(got)
	}
}

func TestKeyForAnotherCallIsRefused(t *testing.T) {
	shop := &till{}
	b := shopBox(t, shop, boxOptions{})
	id := b.begin(buys)
	b.call(id, "k", "shop.buy", `{"cents":30}`)
	for _, input := range []string{`{"cents":31}`, `{"cents":30.0}`, `{"cents":30,"n":1}`} {
		a := b.post(id, "/call", `{"key":"k","tool":"shop.buy","input":`+input+`}`)
		if a.status != 400 || !strings.HasPrefix(a.body["error"].(string), "key: k was used for another tool or input before") {
			t.Errorf("%s: %v", input, a)
		}
	}
	// The same holds for a call that only waits for its OK, after a restart too.
	go b.send(context.Background(), id, "POST", "/call", `{"key":"big","tool":"shop.buy","input":{"cents":300}}`)
	ask := b.pending(id)
	b.restart()
	b.runner.wait(t, id)
	b.answer(ask.ID, true)
	if a := b.post(id, "/call", `{"key":"big","tool":"shop.buy","input":{"cents":299}}`); a.status != 400 {
		t.Fatal(a)
	}
	if a := b.call(id, "big", "shop.buy", `{"cents":300}`); a.body["ok"] != true {
		t.Fatal(a)
	}
}

// The same tool and input under another key, while the first call is not over, is the
// first call: one run, one question, one charge, and the second key keeps the result.
func TestSameCallIsShared(t *testing.T) {
	shop := &till{hold: make(chan struct{})}
	b := shopBox(t, shop, boxOptions{})
	id := b.begin(buys)
	var wg sync.WaitGroup
	answers := make([]answered, 6)
	for i := range answers {
		wg.Go(func() {
			answers[i] = b.call(id, fmt.Sprint("k", i), "shop.buy", []string{`{"cents":30,"n":1}`, `{"n":1,"cents":30}`}[i%2])
		})
	}
	eventually(t, func() bool { return len(b.events(actionlog.TypeNote, id)) == 5 }, func() string { return b.kinds(id) })
	close(shop.hold)
	wg.Wait()
	for i, a := range answers {
		if a.body["ok"] != true {
			t.Errorf("k%d: %v", i, a)
		}
	}
	if n := shop.total(); n != 1 {
		t.Fatalf("ran %d times", n)
	}
	b.restart()
	b.runner.wait(t, id)
	for i := range answers {
		if a := b.call(id, fmt.Sprint("k", i), "shop.buy", `{"cents":30,"n":1}`); a.body["ok"] != true {
			t.Errorf("k%d after a restart: %v", i, a)
		}
	}
	if n := shop.total(); n != 1 {
		t.Fatalf("ran %d times", n)
	}
	if a := b.call(id, "later", "shop.buy", `{"cents":30,"n":1}`); a.body["ok"] != true || shop.total() != 2 {
		t.Fatalf("a call made after the first was over is a new one: %v, %d runs", a, shop.total())
	}
}

// A client that goes away loses nothing: the call goes on, waiting or running.
func TestClientGoesAway(t *testing.T) {
	shop := &till{hold: make(chan struct{})}
	b := shopBox(t, shop, boxOptions{})
	id := b.begin(buys)
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := b.send(ctx, id, "POST", "/call", `{"key":"k","tool":"shop.buy","input":{"cents":300}}`)
		gone <- err
	}()
	ask := b.pending(id)
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	b.answer(ask.ID, true)
	close(shop.hold)
	eventually(t, func() bool { return strings.HasSuffix(b.kinds(id), "tool.call tool.result") }, func() string { return b.kinds(id) })
	if a := b.call(id, "k", "shop.buy", `{"cents":300}`); a.body["ok"] != true || shop.total() != 1 {
		t.Fatal(a, shop.total())
	}
}

func TestPendingIsNoError(t *testing.T) {
	shop := &till{}
	b := shopBox(t, shop, boxOptions{wait: 30 * time.Millisecond})
	id := b.begin(buys)
	for range 2 {
		if a := b.call(id, "k", "shop.buy", `{"cents":300}`); a.raw != `{"ok":false,"pending":true,"error":"Waiting for the owner to approve this spend. Call this tool again to check."}`+"\n" {
			t.Fatal(a)
		}
		if a := b.post(id, "/ask", `{"question":"?","key":"q"}`); a.raw != `{"pending":true}`+"\n" {
			t.Fatal(a)
		}
	}
	// Waiting is no answer: nothing in the log says no.
	if n := len(b.events(actionlog.TypeApprovalAnswered, id)); n != 0 {
		t.Fatalf("%d answers", n)
	}
	b.restart()
	b.runner.wait(t, id)
	b.until(id, task.Waiting)
	b.answer(id+".budget.k", true)
	if a := b.call(id, "k", "shop.buy", `{"cents":300}`); a.body["ok"] != true {
		t.Fatal(a)
	}
	b.answer(id+".task.q", true)
	if a := b.post(id, "/ask", `{"question":"?","key":"q"}`); a.raw != `{"approved":true}`+"\n" {
		t.Fatal(a)
	}
	b.until(id, task.Running)
}

func TestDeniedCallNeverRuns(t *testing.T) {
	shop := &till{}
	b := shopBox(t, shop, boxOptions{})
	id := b.begin(buys)
	got := make(chan answered, 1)
	go func() { got <- b.call(id, "k", "shop.buy", `{"cents":300}`) }()
	if _, err := b.tasks.Answer(t.Context(), b.pending(id).ID, false, "bar", "too dear"); err != nil {
		t.Fatal(err)
	}
	want := `{"ok":false,"error":"not approved","reason":"too dear"}` + "\n"
	if a := <-got; a.raw != want {
		t.Fatal(a)
	}
	b.restart()
	b.runner.wait(t, id)
	if a := b.call(id, "k", "shop.buy", `{"cents":300}`); a.raw != want {
		t.Fatal(a)
	}
	if shop.total() != 0 || strings.Contains(b.kinds(id), "tool.call") {
		t.Fatal(shop.total(), b.kinds(id))
	}
}

func TestToolFailures(t *testing.T) {
	shop := &till{}
	shop.out = func(call tool.Call, _ json.RawMessage) (json.RawMessage, error) {
		switch strings.TrimPrefix(call.Key(), call.Task().ID+".") {
		case "error":
			return nil, errors.New("the shop is closed")
		case "panic":
			panic("no till")
		case "text":
			return json.RawMessage(`hello`), nil
		case "much":
			return json.RawMessage(`"` + strings.Repeat("x", 9<<20) + `"`), nil
		case "untaken":
			return nil, fmt.Errorf("%w: it is odd", tool.ErrUntaken)
		}
		return nil, nil
	}
	b := shopBox(t, shop, boxOptions{})
	id := b.begin(buys)
	for i, row := range []struct {
		key, want, cents string
		alert            bool
	}{
		{"error", "the shop is closed", "0", false},
		{"panic", "it broke: no till", "0", false},
		{"text", "shop.buy returned no JSON", "1", true},
		{"much", "shop.buy returned more than 8 MB", "2", true},
		{"untaken", "what it gave back can't be taken: it is odd", "3", true},
	} {
		input := fmt.Sprintf(`{"cents":1,"n":%d}`, i)
		for range 2 { // the second time from the log
			if a := b.call(id, row.key, "shop.buy", input); a.body["ok"] != false || a.body["error"] != row.want {
				t.Errorf("%s: %v", row.key, a)
			}
		}
		if n := shop.count(id + "." + row.key); n != 1 {
			t.Errorf("%s ran %d times", row.key, n)
		}
		if got := b.task(id).CostCents.String(); got != row.cents {
			t.Errorf("%s: cost %s, not %s", row.key, got, row.cents)
		}
		told := slices.ContainsFunc(b.events(actionlog.TypeNote, id), func(ev actionlog.Event) bool {
			return strings.Contains(string(ev.Data), "A call of shop.buy for up to $0.01 did its work, and what it gave back can't be taken. All of it counts as spent: look it up by "+id+"."+row.key+".")
		})
		if told != row.alert {
			t.Errorf("%s: the owner was told: %v", row.key, told)
		}
	}
	if a := b.call(id, "nothing", "shop.buy", `{"cents":1}`); a.raw != `{"ok":true,"output":null}`+"\n" {
		t.Fatal(a)
	}
}

// A result too long to be kept in memory is read from the log again.
func TestLongResultIsKept(t *testing.T) {
	shop := &till{}
	long := `{"text":"` + strings.Repeat("x", 1<<20) + `"}`
	shop.out = func(tool.Call, json.RawMessage) (json.RawMessage, error) { return json.RawMessage(long), nil }
	b := shopBox(t, shop, boxOptions{})
	id := b.begin(buys)
	want := `{"ok":true,"output":` + long + "}\n"
	for i := range 3 {
		if a := b.call(id, "k", "shop.buy", `{"cents":1}`); a.raw != want {
			t.Fatalf("time %d: %.100s", i, a)
		}
		if i == 1 {
			b.restart()
			b.runner.wait(t, id)
		}
	}
}

// The call of a box that ends runs again, with the same key, after the next start.
func TestCallCutOffRunsAgain(t *testing.T) {
	shop := &till{hold: make(chan struct{})}
	b := shopBox(t, shop, boxOptions{})
	id := b.begin(buys)
	go b.send(context.Background(), id, "POST", "/call", `{"key":"k","tool":"shop.buy","input":{"cents":80}}`)
	eventually(t, func() bool { return shop.total() == 1 }, func() string { return "the tool was not run" })
	b.cut(1)
	b.runner.wait(t, id)
	close(shop.hold)
	// What it reserved still counts: another call doesn't fit.
	go b.send(context.Background(), id, "POST", "/call", `{"key":"other","tool":"shop.buy","input":{"cents":30}}`)
	if a := b.pending(id); a.ID != id+".budget.other" {
		t.Fatal(a)
	}
	if a := b.call(id, "k", "shop.buy", `{"cents":80}`); a.body["ok"] != true {
		t.Fatalf("its own reservation doesn't count against it: %v", a)
	}
	if n := shop.count(id + ".k"); n != 2 {
		t.Fatalf("ran %d times", n)
	}
	if got := b.task(id).CostCents.String(); got != "80" {
		t.Fatalf("charged %s", got)
	}
}

// A call that was cut off and is never made again gives its reservation back when the
// task ends, and the owner is told that it may have been charged.
func TestLostCallIsClosed(t *testing.T) {
	shop := &till{hold: make(chan struct{})}
	b := shopBox(t, shop, boxOptions{})
	id := b.begin(buys)
	go b.send(context.Background(), id, "POST", "/call", `{"key":"k","tool":"shop.buy","input":{"cents":80}}`)
	eventually(t, func() bool { return shop.total() == 1 }, func() string { return "the tool was not run" })
	b.cut(2)
	b.runner.wait(t, id)
	b.finish(id)
	ev := b.events(actionlog.TypeToolResult, id)
	if len(ev) != 1 || *ev[0].OK || ev[0].Cents != "" || !strings.Contains(ev[0].Error, "cut off") {
		t.Fatal(ev)
	}
	notes := b.events(actionlog.TypeNote, id)
	if len(notes) != 1 || !strings.Contains(string(notes[0].Data), `"what":"alert"`) || !strings.Contains(string(notes[0].Data), id+".k") {
		t.Fatal(notes)
	}
}

// One that was cut off in its app is closed with what the app did, not the box.
func TestLostCallSaysWhy(t *testing.T) {
	shop := &till{out: func(tool.Call, json.RawMessage) (json.RawMessage, error) {
		return nil, &tool.CutOff{Tool: "shop.buy", Why: "the app was turned off"}
	}}
	b := shopBox(t, shop, boxOptions{})
	id := b.begin(buys)
	a := b.call(id, "k", "shop.buy", `{"cents":80}`)
	if want := "shop.buy did not come to an end, since the app was turned off; call again to have it run under the same key"; a.body["error"] != want {
		t.Error(a)
	}
	b.finish(id)
	ev := b.events(actionlog.TypeToolResult, id)
	if len(ev) != 1 || *ev[0].OK || ev[0].Error != "cut off in its app, since the app was turned off, and not called again before the task ended" {
		t.Error(ev)
	}
	notes := b.events(actionlog.TypeNote, id)
	want := fmt.Sprintf("A call of shop.buy for up to $0.80 was cut off in its app, since the app was turned off, and %s never made it again. It may have been charged: look it up by %s.k.", id, id)
	if len(notes) != 1 || !strings.Contains(string(notes[0].Data), want) {
		t.Error(notes)
	}
}

// The same for a task that ended before the box did, its tool still running.
func TestLostCallOfAnEndedTask(t *testing.T) {
	shop := &till{hold: make(chan struct{})}
	b := shopBox(t, shop, boxOptions{})
	id := b.begin(buys)
	go b.send(context.Background(), id, "POST", "/call", `{"key":"k","tool":"shop.buy","input":{"cents":80}}`)
	eventually(t, func() bool { return shop.total() == 1 }, func() string { return "the tool was not run" })
	if _, err := b.tasks.Undo(t.Context(), id, "me"); err != nil {
		t.Fatal(err)
	}
	b.cut(3)
	eventually(t, func() bool { return len(b.events(actionlog.TypeToolResult, id)) == 1 }, func() string { return b.kinds(id) })
	if b.task(id).State != task.Undone {
		t.Fatal(b.task(id))
	}
}

// Money that a tool spent is booked though its task ended meanwhile.
func TestToolEndsAfterItsTask(t *testing.T) {
	shop := &till{hold: make(chan struct{})}
	b := shopBox(t, shop, boxOptions{})
	id := b.begin(buys)
	go b.send(context.Background(), id, "POST", "/call", `{"key":"k","tool":"shop.buy","input":{"cents":80}}`)
	eventually(t, func() bool { return shop.total() == 1 }, func() string { return "the tool was not run" })
	if _, err := b.tasks.Stop(t.Context(), id, "bar"); err != nil {
		t.Fatal(err)
	}
	if x := b.task(id); x.State != task.Failed || x.Error != "Stopped by bar." {
		t.Fatal(x)
	}
	close(shop.hold)
	eventually(t, func() bool { return b.task(id).CostCents.String() == "80" }, func() string { return b.task(id).CostCents.String() })
}

// What a running tool may do: extra costs, steps, questions with one answer for ever.
func TestToolsOwnMeans(t *testing.T) {
	shop := &till{}
	shop.out = func(call tool.Call, _ json.RawMessage) (json.RawMessage, error) {
		if err := errors.Join(call.Cost(centsOf("2.5"), "postage"), call.Log("packed", json.RawMessage(`{"n":1}`))); err != nil {
			return nil, err
		}
		if call.Cost(centsOf("-1"), "refund") == nil {
			return nil, errors.New("a cost below 0 was taken")
		}
		yes, err := call.Ask(context.Background(), "Ship it?", "shipping")
		return json.RawMessage(fmt.Sprintf(`{"shipped":%v,"spentCents":4}`, yes)), err
	}
	b := shopBox(t, shop, boxOptions{wait: 30 * time.Millisecond})
	id := b.begin(buys)
	if a := b.call(id, "k", "shop.buy", `{"cents":30}`); a.body["pending"] != true {
		t.Fatalf("a tool's own question keeps a client no longer than the box's: %v", a)
	}
	ask := b.pending(id)
	if !strings.HasPrefix(ask.ID, id+".tool.k.ask.") || ask.Purpose != "shipping" || ask.CostCents.Sign() != 0 {
		t.Fatal(ask)
	}
	b.until(id, task.Waiting)
	b.answer(ask.ID, true)
	if a := b.call(id, "k", "shop.buy", `{"cents":30}`); a.raw != `{"ok":true,"output":{"shipped":true,"spentCents":4}}`+"\n" {
		t.Fatal(a)
	}
	if x := b.task(id); x.CostCents.String() != "6.5" || x.Step != "packed" || x.State != task.Running {
		t.Fatal(x)
	}
	sums, err := b.tasks.Spend(t.Context(), "", "")
	if err != nil || len(sums) != 1 || sums[0].App != "shop" || sums[0].Cents.String() != "6.5" {
		t.Fatal(sums, err)
	}
}

// Another call that asks the same question gets a question of its own.
func TestToolQuestionAfterARestart(t *testing.T) {
	shop := &till{}
	shop.out = func(call tool.Call, _ json.RawMessage) (json.RawMessage, error) {
		yes, err := call.Ask(context.Background(), "Ship it?", "")
		return json.RawMessage(fmt.Sprint(yes)), err
	}
	b := shopBox(t, shop, boxOptions{})
	id := b.begin(buys)
	go b.send(context.Background(), id, "POST", "/call", `{"key":"k","tool":"shop.buy","input":{"cents":3}}`)
	ask := b.pending(id)
	b.cut(4)
	b.runner.wait(t, id)
	b.answer(ask.ID, false)
	if a := b.call(id, "k", "shop.buy", `{"cents":3}`); a.raw != `{"ok":true,"output":false}`+"\n" {
		t.Fatal(a)
	}
	if n := len(b.events(actionlog.TypeApprovalAsked, id)); n != 1 {
		t.Fatalf("asked %d times", n)
	}
}

// A large call that waits for the owner holds up no other of its task.
func TestLargeInputThatWaitsHoldsNobodyUp(t *testing.T) {
	b := shopBox(t, &till{}, boxOptions{})
	id := b.begin(buys)
	size := 2 << 20 // of parts; reading each is what takes time
	if racing {
		size >>= 4
	}
	large := `{"cents":200,"n":[` + strings.Repeat("[1],", size) + `1]}`
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		b.send(context.Background(), id, "POST", "/call", `{"key":"large","tool":"shop.buy","input":`+large+`}`)
	}()
	b.pending(id)
	for i := range 15 {
		if a := b.call(id, fmt.Sprint(i), "shop.buy", fmt.Sprintf(`{"cents":0,"n":"%d"}`, i)); a.body["ok"] != true {
			t.Fatalf("beside a large one that waits: %v", a)
		}
	}
	select {
	case <-answered:
		t.Error("the large one did not wait")
	default:
	}
}

// A task that reads its own steps slowly keeps two answers in the box's memory and no
// more, and only itself waiting.
func TestSlowReadersOfSteps(t *testing.T) {
	b := newBox(t, boxOptions{})
	id := b.begin("")
	for range 20 {
		b.post(id, "/step", `{"text":"`+strings.Repeat("x", 60<<10)+`"}`)
	}
	slow := func() net.Conn {
		c, err := net.Dial("unix", filepath.Join(b.home, "tasks", id, "broker.sock"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.WriteString(c, "GET /task HTTP/1.1\r\nHost: box\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := func(c net.Conn) error { _, err := io.ReadFull(c, make([]byte, 8)); return err }
	one := slow()
	if err := errors.Join(first(one), first(slow())); err != nil {
		t.Fatal(err)
	}
	third := slow()
	third.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	if err := first(third); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a third answer is made: %v", err)
	}
	if a := b.post(id, "/step", `{"text":"on"}`); a.status != 200 {
		t.Error(a)
	}
	one.Close()
	third.SetReadDeadline(time.Now().Add(time.Minute))
	if err := first(third); err != nil {
		t.Error(err)
	}
}

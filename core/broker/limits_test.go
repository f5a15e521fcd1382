package broker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gurtos/core/actionlog"
	"gurtos/core/tool"
)

// Every refusal of the broker, by what was sent; none leaves a line in the log.
func TestBrokerRefusals(t *testing.T) {
	shop := &till{}
	b := newBox(t, boxOptions{tools: toolSet{"shop.buy": shop.tool("shop.buy")}})
	id := b.begin(`"tools":["shop.buy"]`)
	before, _ := b.log.Head()
	for _, row := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/", "", 404, "the broker has no GET /"},
		{"GET", "/step", "", 404, "the broker has no GET /step"},
		{"POST", "/task", "{}", 404, "the broker has no POST /task"},
		{"DELETE", "/tools", "", 404, "the broker has no DELETE /tools"},
		{"POST", "/step", "", 400, "the body is empty"},
		{"POST", "/step", "[]", 400, "the body is not a JSON object"},
		{"POST", "/step", `{}`, 400, "text: what was done is needed"},
		{"POST", "/step", `{"text":5}`, 400, "text: a string is needed"},
		{"POST", "/step", `{"text":null}`, 400, "text: a string is needed, not null"},
		{"POST", "/step", `{"text":"a","text":"b"}`, 400, "text: the field is there twice"},
		{"POST", "/step", `{"text":"a","note":1}`, 400, "note: the box does not know this field"},
		{"POST", "/step", "{\"text\":\"\xff\"}", 400, "text: this is not valid UTF-8"},
		{"POST", "/step", `{"text":"a","data":{"x":NaN}}`, 400, "data.x: this is not JSON"},
		{"POST", "/step", `{"text":"a","data":{"x":1,"x":2}}`, 400, "data.x: the field is there twice"},
		{"POST", "/step", `{"text":"a","data":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`, 400, "data"},
		{"POST", "/step", `{"text":"` + strings.Repeat("x", 64<<10) + `"}`, 413, "a step, question or cost is at most 64 KB"},
		{"POST", "/ask", `{"question":"?"}`, 400, "a key is required"},
		{"POST", "/ask", `{"question":"?","key":""}`, 400, "a key is required"},
		{"POST", "/ask", `{"question":"?","key":null}`, 400, "a key is required"},
		{"POST", "/ask", `{"question":"?","key":7}`, 400, "key: a string is needed"},
		{"POST", "/ask", `{"question":"?","key":"` + strings.Repeat("k", 501) + `"}`, 400, "key: at most 500 characters"},
		{"POST", "/ask", `{"question":"?","key":"a\nb"}`, 400, "key: control characters"},
		{"POST", "/ask", `{"key":"k"}`, 400, "question: what is asked is needed"},
		{"POST", "/ask", `{"question":"?","key":"k","costCents":-1}`, 400, "costCents: a cost of 0 or more"},
		{"POST", "/ask", `{"question":"?","key":"k","costCents":"1"}`, 400, "costCents: a cost of 0 or more"},
		{"POST", "/ask", `{"question":"` + strings.Repeat("x", 64<<10) + `","key":"k"}`, 413, "a step, question or cost is at most 64 KB"},
		{"POST", "/cost", `{"what":"x"}`, 400, "cents: a cost of 0 or more"},
		{"POST", "/cost", `{"cents":-0.1,"what":"x"}`, 400, "cents: a cost of 0 or more"},
		{"POST", "/cost", `{"cents":"1","what":"x"}`, 400, "cents: a cost of 0 or more"},
		{"POST", "/cost", `{"cents":null,"what":"x"}`, 400, "cents: a cost of 0 or more"},
		{"POST", "/cost", `{"cents":1e999999999,"what":"x"}`, 400, "cents: a cost of 0 or more"},
		{"POST", "/cost", `{"cents":1}`, 400, "what: what the cost is for is needed"},
		{"POST", "/cost", `{"cents":1,"what":"` + strings.Repeat("x", 64<<10) + `"}`, 413, "a step, question or cost is at most 64 KB"},
		{"POST", "/usage", `{"tokens":{}}`, 400, "model: the model's name is needed"},
		{"POST", "/usage", `{"model":"m"}`, 400, "tokens: the counts are needed"},
		{"POST", "/usage", `{"model":"m","tokens":{"input":-1}}`, 400, "tokens.input: a whole number of 0 or more is needed"},
		{"POST", "/usage", `{"model":"m","tokens":{"output":1.5}}`, 400, "tokens.output: a whole number of 0 or more is needed"},
		{"POST", "/usage", `{"model":"m","tokens":{"cacheRead":"9"}}`, 400, "tokens.cacheRead: a whole number of 0 or more is needed"},
		{"POST", "/usage", `{"model":"m","tokens":{"cacheWrite":null}}`, 400, "tokens.cacheWrite: a whole number of 0 or more is needed"},
		{"POST", "/usage", `{"model":"m","tokens":{"cacheWrite":[]}}`, 400, "tokens.cacheWrite: a whole number of 0 or more is needed"},
		{"POST", "/usage", `{"model":"m","tokens":{"input":true}}`, 400, "tokens.input: a whole number of 0 or more is needed"},
		{"POST", "/usage", `{"model":"m","tokens":{"input":1000000000001}}`, 400, "tokens.input: a whole number of 0 or more is needed"},
		{"POST", "/usage", `{"model":"m","tokens":{"input":1e-1}}`, 400, "tokens.input: a whole number of 0 or more is needed"},
		{"POST", "/usage", `{"model":"m","tokens":{"cached":1}}`, 400, "tokens.cached: the box does not know this field"},
		{"POST", "/usage", `{"model":"m","tokens":{"input":9e99}}`, 400, "tokens.input: a whole number of 0 or more is needed"},
		{"POST", "/call", `{"tool":"shop.buy"}`, 400, "a key is required"},
		{"POST", "/call", `{"key":"k"}`, 400, "tool: the tool's name is needed"},
		{"POST", "/call", `{"key":"model.1","tool":"shop.buy","input":{"cents":1}}`, 400, "key: model.1 names one of the box's own questions"},
		{"POST", "/call", `{"key":"k","tool":"shop.buy","input":{"cents":1,"cents":2}}`, 400, "input.cents: the field is there twice"},
		{"POST", "/call", `{"key":"k","tool":"no.such","input":{}}`, 200, "this task may not use no.such"},
		{"POST", "/call", `{"key":"k","tool":"shop.buy"}`, 200, "input: missing property 'cents'"},
		{"POST", "/call", `{"key":"k","tool":"shop.buy","input":[]}`, 200, "input: got array, want object"},
		{"POST", "/call", `{"key":"k","tool":"shop.buy","input":{"cents":"1"}}`, 200, "input.cents: got string, want number"},
		{"POST", "/call", `{"key":"k","tool":"shop.buy","input":{"cents":1,"more":1}}`, 200, "input: additional properties 'more' not allowed"},
		{"POST", "/call", `{"key":"k","tool":"shop.buy","input":{"cents":-1}}`, 200, "shop.buy could not say what this call costs: it is below 0"},
		{"POST", "/call", `{"key":"k","tool":"shop.buy","input":{"n":"` + strings.Repeat("x", 10<<20) + `"}}`, 413, "a request is at most 10 MB"},
	} {
		got, err := b.send(t.Context(), id, row.method, row.path, row.body)
		if err != nil {
			t.Errorf("%s %s %.60s: %v", row.method, row.path, row.body, err)
			continue
		}
		said, _ := got.body["error"].(string)
		if got.status != row.status || !strings.HasPrefix(said, row.want) || row.status == 200 && got.body["ok"] != false {
			t.Errorf("%s %s %.60s: %v, not %d %s", row.method, row.path, row.body, got, row.status, row.want)
		}
	}
	if after, _ := b.log.Head(); after != before {
		t.Errorf("refusals wrote lines %d to %d", before+1, after)
	}
	if n := shop.total(); n != 0 {
		t.Errorf("the tool ran %d times", n)
	}
}

// What a task may write in all: 20 MB of POST bodies, counted anew when boxd starts.
func TestTwentyMegabytes(t *testing.T) {
	b := newBox(t, boxOptions{})
	id := b.begin("")
	// A call to a tool that the task may not use is a body too.
	big := fmt.Sprintf(`{"key":"k","tool":"a.b","input":{"x":%q}}`, bytes.Repeat([]byte("x"), 10<<20-100))
	for range 2 {
		if a := b.post(id, "/call", big); a.status != 200 {
			t.Fatalf("%.200s", a)
		}
	}
	step := `{"text":"` + strings.Repeat("x", 1000) + `"}`
	if a := b.post(id, "/step", step); a.status != 429 || a.body["error"] != "this task has written 20 MB to the action log; it may write no more" {
		t.Fatalf("%.200s", a)
	}
	if a := b.post(id, "/step", `{"text":"x"}`); a.status != 200 {
		t.Fatalf("there was room for a small step: %v", a)
	}
	if a := b.get(id, "/task"); a.status != 200 {
		t.Fatal(a)
	}
	other := b.begin("")
	if a := b.post(other, "/step", step); a.status != 200 {
		t.Fatalf("another task's count: %v", a)
	}
	b.restart()
	b.runner.wait(t, id)
	if a := b.post(id, "/step", step); a.status != 200 {
		t.Fatalf("after a restart: %v", a)
	}
}

func TestSocketIsTheTasksAlone(t *testing.T) {
	b := newBox(t, boxOptions{})
	id := b.begin("")
	path := filepath.Join(b.home, "tasks", id, "broker.sock")
	var info os.FileInfo
	eventually(t, func() bool {
		var err error
		info, err = os.Lstat(path)
		return err == nil && info.Mode().Perm() == 0o600
	}, func() string { return "no socket with mode 0600" })
	if st := info.Sys().(*syscall.Stat_t); int(st.Uid) != os.Getuid() || info.Mode()&os.ModeSocket == 0 {
		t.Fatalf("owner %d, mode %v", st.Uid, info.Mode())
	}
	eventually(t, func() bool {
		a, err := sendTo(t.Context(), path, "GET", "/task", "")
		return err == nil && a.status == 200
	}, func() string { return "the socket on the host does not answer" })
	b.finish(id)
	eventually(t, func() bool {
		c, err := net.Dial("unix", path)
		if err == nil {
			c.Close()
		}
		return err != nil
	}, func() string { return "the socket of a task that is done answers" })
}

// Another user that gets at the socket, by whatever mode, is not answered: the kernel
// says who connected. This needs root, to become another user.
func TestOtherUsersAreNotAnswered(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: another user has to connect")
	}
	b := newBox(t, boxOptions{})
	id := b.begin("")
	inside := b.runner.get(id).path
	host := filepath.Join(b.home, "tasks", id, "broker.sock")
	eventually(t, func() bool {
		_, err := sendTo(t.Context(), host, "GET", "/task", "")
		return err == nil
	}, func() string { return "the socket on the host does not answer" })
	for _, p := range []string{b.home, filepath.Join(b.home, "tasks"), filepath.Join(b.home, "tasks", id)} {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{host, inside} {
		if err := os.Chmod(path, 0o666); err != nil {
			t.Fatal(err)
		}
		if a, err := sendTo(t.Context(), path, "GET", "/task", ""); err != nil || a.status != 200 {
			t.Errorf("%s: the task's own user: %v %v", path, a, err)
		}
		if out := askAs(t, 65534, path); !strings.Contains(out, "nothing") {
			t.Errorf("%s answers another user: %s", path, out)
		}
	}
}

func TestToolsAreListed(t *testing.T) {
	shop := &till{}
	free := shop.tool("shop.look")
	free.Cost, free.Input = nil, nil
	b := newBox(t, boxOptions{tools: toolSet{"shop.buy": shop.tool("shop.buy"), "shop.look": free, "other.x": shop.tool("other.x")}})
	id := b.begin(`"tools":["shop.look","shop.buy"]`)
	want := `[{"name":"shop.look","description":"Pays.","input":{"type":"object"},"spends":false},{"name":"shop.buy","description":"Pays.",` +
		`"input":{"type":"object","properties":{"cents":{"type":"number"},"n":{}},"required":["cents"],"additionalProperties":false},"spends":true}]` + "\n"
	if a := b.get(id, "/tools"); a.status != 200 || a.raw != want {
		t.Fatal(a)
	}
}

func TestCostsAndUsage(t *testing.T) {
	b := newBox(t, boxOptions{})
	id := b.begin("")
	for range 10 {
		if a := b.post(id, "/cost", `{"cents":0.1,"what":"tiny"}`); a.status != 200 || a.body["type"] != "cost" {
			t.Fatal(a)
		}
	}
	a := b.post(id, "/usage", `{"model":"claude-sonnet-5-5","what":"model","tokens":{"input":12000,"output":900,"cacheRead":48000}}`)
	if a.status != 200 || a.body["cents"] != 3.78 || a.body["model"] != "claude-sonnet-5-5" {
		t.Fatal(a)
	}
	if got := b.task(id).CostCents.String(); got != "4.78" {
		t.Fatal(got)
	}
	for _, form := range []string{"12000", "12000.0", "1.2e4", "120E+2", " 12000 ", "1200000e-2"} {
		a := b.post(b.begin(""), "/usage", `{"model":"claude-sonnet-5-5","tokens":{"input":`+form+`}}`)
		if tokens, _ := a.body["tokens"].(map[string]any); a.status != 200 || a.body["cents"] != 2.4 || tokens["input"] != 12000.0 {
			t.Errorf("%s: %v", form, a)
		}
	}
	ev := b.events(actionlog.TypeCost, id)
	if len(ev) != 11 || string(ev[10].Tokens) != `{"input":12000,"output":900,"cacheWrite":0,"cacheRead":48000}` {
		t.Fatal(ev)
	}
	sums, err := b.tasks.Spend(t.Context(), "", "")
	if err != nil || len(sums) != 2 || sums[0].Cents.String() != "1" || sums[1].Cents.String() != "18.18" || sums[1].Model != "claude-sonnet-5-5" {
		t.Fatal(sums, err)
	}
}

// What a task sends may be as long as it likes within the limits: it is written or
// refused, and neither ends the box nor keeps it from starting again. Each of these did.
func TestHostileSizes(t *testing.T) {
	shop := &till{}
	shop.out = func(call tool.Call, _ json.RawMessage) (json.RawMessage, error) {
		switch strings.TrimPrefix(call.Key(), call.Task().ID+".") {
		case "grows":
			return json.RawMessage(`"` + strings.Repeat("\u2028", 7<<20/3) + `"`), nil
		case "wails":
			return nil, errors.New(strings.Repeat("\x01", 4<<20))
		}
		return nil, nil
	}
	b := shopBox(t, shop, boxOptions{})
	id := b.begin(buys)
	long := `{"cents":0,"n":"` + strings.Repeat("\u2028", 9<<20/3) + `"}` // twice as long once it is escaped
	if a := b.post(id, "/call", `{"key":"long","tool":"shop.buy","input":`+long+`}`); a.status != 413 || a.body["error"] != "a request is at most 10 MB" {
		t.Errorf("%.200s", a)
	}
	tags := `{"cents":200,"n":"` + strings.Repeat("<", 4<<20) + `"}` // six times as long where JSON is escaped for HTML
	body := `{"key":"tags","tool":"shop.buy","input":` + tags + `}`
	asked := make(chan answered, 1)
	ask := func() {
		a, _ := b.send(context.Background(), id, "POST", "/call", body) // the restart breaks the first one off
		asked <- a
	}
	go ask()
	question := b.pending(id)
	if string(question.Input) != tags {
		t.Errorf("the input is shown as %.80s", question.Input)
	}
	b.restart()
	<-asked
	b.runner.wait(t, id)
	go ask()
	b.answer(question.ID, true)
	if a := <-asked; a.body["ok"] != true {
		t.Errorf("%.200s", a)
	}
	for _, ev := range b.events(actionlog.TypeToolCall, id) {
		if ev.Key == "tags" && string(ev.Input) != tags {
			t.Errorf("what ran is %.80s", ev.Input)
		}
	}
	for key, want := range map[string]string{"grows": "shop.buy returned more than 8 MB", "wails": "\x01"} {
		a := b.call(id, key, "shop.buy", `{"cents":0,"n":"`+key+`"}`)
		if said, _ := a.body["error"].(string); a.body["ok"] != false || !strings.HasPrefix(said, want) || len(said) > 20_000 {
			t.Errorf("%s: %.200s", key, a)
		}
	}
	for _, cents := range []string{strings.Repeat("9", 70) + "e40", "1e41", strings.Repeat("9", 41), "1e-41"} {
		for _, req := range [][2]string{
			{"/cost", `{"cents":` + cents + `,"what":"x"}`},
			{"/ask", `{"question":"?","key":"` + cents + `","costCents":` + cents + `}`},
		} {
			if a := b.post(id, req[0], req[1]); a.status != 400 {
				t.Errorf("%s of %s: %.200s", req[0], cents, a)
			}
		}
	}
	// What may be named adds up to more digits than one may name, and is kept.
	for _, cents := range []string{strings.Repeat("9", 40), strings.Repeat("9", 40), "1e-40"} {
		if a := b.post(id, "/cost", `{"cents":`+cents+`,"what":"x"}`); a.status != 200 {
			t.Errorf("%.200s", a)
		}
	}
	before := b.task(id).CostCents
	b.restart()
	if after := b.task(id).CostCents; before.Cmp(after) != 0 || len(before.String()) != 82 {
		t.Errorf("%s before a restart, %s after", before, after)
	}
}

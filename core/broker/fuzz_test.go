package broker_test

import (
	"encoding/json"
	"testing"
	"time"

	"gurtos/core/actionlog"
)

// FuzzBodies holds that whatever a worker posts is answered in JSON with a status that
// the specification has, that a refusal writes nothing, and that what is written can be
// read back.
func FuzzBodies(f *testing.F) {
	for i, body := range []string{
		`{"text":"x","data":{"line":1}}`, `{"tool":"shop.buy","input":{"cents":1},"key":"k"}`, `{"question":"?","key":"k","costCents":1,"payee":"p"}`,
		`{"cents":0.1,"what":"x"}`, `{"model":"m","tokens":{"input":1,"output":2}}`, `{"text":"\ud83d\ude00"}`, `{"key":"a\u0000"}`, `[[[`,
	} {
		f.Add(byte(i), []byte(body))
	}
	shop := &till{}
	b := newBox(f, boxOptions{tools: toolSet{"shop.buy": shop.tool("shop.buy")}, wait: time.Nanosecond})
	id := b.begin(buys + `,"budgetCents":100000`)
	paths := []string{"/step", "/call", "/ask", "/cost", "/usage"}
	f.Fuzz(func(t *testing.T, which byte, body []byte) {
		path := paths[int(which)%len(paths)]
		before, _ := b.log.Head()
		a, err := b.send(t.Context(), id, "POST", path, string(body))
		if err != nil {
			now, _ := b.tasks.Get(t.Context(), id)
			t.Fatalf("%s %q: %v; the task is %s: %s", path, body, err, now.State, now.Error)
		}
		switch a.status {
		case 200:
		case 429: // its 20 MB are used up, which a new boxd counts anew
			b.t = t // f may not be spoken to in here
			b.restart()
			b.runner.wait(t, id)
		case 400, 413:
			if said, _ := a.body["error"].(string); said == "" {
				t.Fatalf("%s %q: %v", path, body, a)
			}
			if after, _ := b.log.Head(); after != before {
				t.Fatalf("%s %q: refused with %v, and %d lines", path, body, a, after-before)
			}
		default:
			t.Fatalf("%s %q: %v", path, body, a)
		}
		if !json.Valid([]byte(a.raw)) {
			t.Fatalf("%s %q: %q", path, body, a.raw)
		}
		if err := b.log.Read(t.Context(), before, func(_ []byte, event func() (actionlog.Event, error)) error {
			_, err := event()
			return err
		}); err != nil {
			t.Fatalf("%s %q: %v", path, body, err)
		}
	})
}

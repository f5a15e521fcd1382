package broker_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/approval"
	"gurtos/core/task"
)

// A task has only so many questions open, and calls on their way, that its end can close
// all of them: with more it could be stopped and undone by nobody, since a write to the
// log has a limit.
func TestATaskCanAlwaysBeEnded(t *testing.T) {
	b := shopBox(t, &till{}, boxOptions{wait: time.Millisecond})
	id := b.begin(buys)
	long := strings.Repeat("\u2028", 480) // as long a key as may be, and each character longer in the log
	asks := make(chan int)
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for i := range asks {
				a := approval.Approval{ID: fmt.Sprintf("%s.task.%s%d", id, long, i), Task: id, Question: "May I?"}
				if _, err := b.tasks.Ask(t.Context(), a); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range task.MaxOpen {
		asks <- i
	}
	close(asks)
	wg.Wait()
	if a := b.post(id, "/ask", `{"question":"One more?","key":"more"}`); a.status != 400 || !strings.Contains(a.raw, "1000 questions open and may ask no more until some are answered") {
		t.Error(a)
	}
	if a := b.post(id, "/ask", fmt.Sprintf(`{"question":"May I?","key":%q}`, long+"7")); a.status != 200 || a.body["pending"] != true {
		t.Errorf("one that is open can't be asked for: %v", a)
	}
	if a := b.call(id, "dear", "shop.buy", `{"cents":300}`); a.body["ok"] != false || !strings.Contains(fmt.Sprint(a.body["error"]), "1000 questions open") {
		t.Error(a)
	}
	for i := range task.MaxOpen {
		c := task.Call{Key: fmt.Sprint(long, i), Tool: "shop.buy", Input: json.RawMessage(fmt.Sprintf(`{"cents":0,"n":%d}`, i)), Spends: true}
		if _, _, mine, err := b.tasks.Begin(t.Context(), id, c); err != nil || !mine {
			t.Fatal(i, mine, err)
		}
	}
	if a := b.call(id, "more", "shop.buy", `{"cents":1}`); a.body["ok"] != false || !strings.Contains(fmt.Sprint(a.body["error"]), "1000 calls on their way") {
		t.Error(a)
	}
	b.answer(fmt.Sprintf("%s.task.%s%d", id, long, 0), true)
	if a := b.post(id, "/ask", `{"question":"One more?","key":"more"}`); a.status != 200 {
		t.Errorf("with one answered: %v", a)
	}
	if got, err := b.tasks.Undo(t.Context(), id, "me"); err != nil || got.State != task.Undone {
		t.Fatal(got.State, err)
	}
	if n := len(b.events(actionlog.TypeApprovalAnswered, id)); n != task.MaxOpen+1 {
		t.Errorf("%d answers", n)
	}
}

package broker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/approval"
	"gurtos/core/budget"
	"gurtos/core/tool"
)

func centsOf(s string) budget.Cents {
	c, err := budget.ParseCents(s)
	if err != nil {
		panic(err)
	}
	return c
}

// What asks and what doesn't, one call after another on one task.
func TestWhenMoneyAsks(t *testing.T) {
	shop := &till{}
	b := shopBox(t, shop, boxOptions{})
	if _, err := b.tasks.SetRights(t.Context(), "shop", []byte(`{"dailyLimitCents":2000}`), "me"); err != nil {
		t.Fatal(err)
	}
	id := b.begin(buys + `,"budgetCents":1000`)
	for i, row := range []struct {
		cents  string
		why    string // "" for a call that asks nothing
		answer bool
	}{
		{"500", "", false},
		{"501", "Spend $5.01 with shop.buy? The task has spent $5.00 of its budget of $10.00.", false},
		{"500", "", false}, // exactly the budget; the call that was denied counts for nothing
		{"0", "", false},
		{"0.1", "Spend $0.001 with shop.buy? The task has spent $10.00 of its budget of $10.00.", true},
		{"500", "Spend $5.00 with shop.buy? The task has spent $10.001 of its budget of $10.00.", true},
	} {
		key := fmt.Sprint("k", i)
		got := make(chan answered, 1)
		go func() { got <- b.call(id, key, "shop.buy", fmt.Sprintf(`{"cents":%s,"n":%d}`, row.cents, i)) }()
		if row.why != "" {
			a := b.pending(id)
			if a.ID != id+".budget."+key || a.Question != row.why || a.CostCents.String() != row.cents || a.Payee != "Shop" || a.Purpose != "Things" || a.Tool != "shop.buy" {
				t.Fatalf("%d: %+v", i, a)
			}
			b.answer(a.ID, row.answer)
		}
		if a := <-got; a.body["ok"] != (row.why == "" || row.answer) {
			t.Fatalf("%d: %v", i, a)
		}
	}
	// A fresh task of the same app meets the day's limit of $20, of which $15.001 is spent.
	other := b.begin(buys + `,"budgetCents":1000`)
	go b.send(context.Background(), other, "POST", "/call", `{"key":"k","tool":"shop.buy","input":{"cents":499.95}}`)
	if a := b.pending(other); a.Question != "Spend $4.9995 with shop.buy? Shop has spent $15.001 today of its daily limit of $20.00." {
		t.Fatal(a.Question)
	}
	if a := b.call(other, "fits", "shop.buy", `{"cents":499.9}`); a.body["ok"] != true {
		t.Fatal(a)
	}
}

func TestThreshold(t *testing.T) {
	shop := &till{}
	b := shopBox(t, shop, boxOptions{})
	id := b.begin(buys + `,"budgetCents":100000`)
	if a := b.call(id, "fits", "shop.buy", `{"cents":500}`); a.body["ok"] != true {
		t.Fatal(a)
	}
	go b.send(context.Background(), id, "POST", "/call", `{"key":"k","tool":"shop.buy","input":{"cents":500.01}}`)
	if a := b.pending(id); a.Question != "Spend $5.0001 with shop.buy? One spend above $5.00 needs an OK." {
		t.Fatal(a.Question)
	}
}

func TestMoneyTurnedOff(t *testing.T) {
	shop := &till{}
	b := shopBox(t, shop, boxOptions{})
	id := b.begin(buys)
	off := func(on bool) {
		if _, err := b.tasks.SetRights(t.Context(), "shop", []byte(fmt.Sprintf(`{"money":%v}`, on)), "me"); err != nil {
			t.Fatal(err)
		}
	}
	off(false)
	want := `{"ok":false,"error":"Shop isn't allowed to spend money. The owner can allow it in Settings, Permissions."}` + "\n"
	if a := b.call(id, "k", "shop.buy", `{"cents":1}`); a.raw != want {
		t.Fatal(a)
	}
	b.restart()
	b.runner.wait(t, id)
	if a := b.call(id, "k", "shop.buy", `{"cents":1}`); a.raw != want || shop.total() != 0 {
		t.Fatal(a, shop.total())
	}
	notes := 0
	for _, ev := range b.events(actionlog.TypeNote, id) {
		if strings.Contains(string(ev.Data), "permission refused") {
			notes++
		}
	}
	if notes != 2 {
		t.Fatalf("%d refusals in the log", notes)
	}
	off(true)
	if a := b.call(id, "k", "shop.buy", `{"cents":1}`); a.body["ok"] != true {
		t.Fatal(a)
	}
	// An OK that was given before doesn't help once money is off.
	go b.send(context.Background(), id, "POST", "/call", `{"key":"big","tool":"shop.buy","input":{"cents":300}}`)
	ask := b.pending(id)
	off(false)
	b.answer(ask.ID, true)
	if a := b.call(id, "big", "shop.buy", `{"cents":300}`); a.raw != want {
		t.Fatal(a)
	}
}

func TestSpentCents(t *testing.T) {
	for said, row := range map[string]struct{ want, wrong string }{ // wrong is what the owner is told of
		`{"spentCents":0}`: {"0", ""}, `{"spentCents":12.5}`: {"12.5", ""}, `{"spentCents":50}`: {"50", ""},
		`{"spentCents":51}`: {"50", "51"}, `{"spentCents":-1}`: {"50", "-1"}, `{"spentCents":"1"}`: {"50", `\"1\"`}, `{"spentCents":null}`: {"50", "null"},
		`{"spentCents":1e60}`: {"50", "1e60"}, `{"spentCents":{}}`: {"50", "{}"},
		`{"other":1}`: {"50", ""}, `[1]`: {"50", ""}, `7`: {"50", ""}, `null`: {"50", ""},
	} {
		want := row.want
		shop := &till{out: func(tool.Call, json.RawMessage) (json.RawMessage, error) { return json.RawMessage(said), nil }}
		b := shopBox(t, shop, boxOptions{})
		id := b.begin(buys)
		if a := b.call(id, "k", "shop.buy", `{"cents":50}`); a.body["ok"] != true {
			t.Fatal(a)
		}
		if got := b.task(id).CostCents.String(); got != want {
			t.Errorf("%s: charged %s, not %s", said, got, want)
		}
		var told string
		for _, ev := range b.events(actionlog.TypeNote, id) {
			told += string(ev.Data)
		}
		if row.wrong == "" && told != "" ||
			row.wrong != "" && !strings.Contains(told, "A call of shop.buy gave back the spentCents "+row.wrong+", and a number from 0 to its cost of 50 is needed: the cost counts as spent. Look it up by "+id+".k.") {
			t.Errorf("%s: the owner is told %s", said, told)
		}
		b.halt()
	}
}

// 50 calls at once, of which 10 fit: 10 run, 40 ask, and none too many is ever begun.
func TestFiftyAtOnceNeverOvershoot(t *testing.T) {
	for name, set := range map[string]struct{ rights, fields string }{
		"budget":      {`{}`, `,"budgetCents":100`},
		"daily limit": {`{"dailyLimitCents":100}`, `,"budgetCents":100000`},
	} {
		t.Run(name, func(t *testing.T) {
			shop := &till{hold: make(chan struct{})}
			b := shopBox(t, shop, boxOptions{wait: time.Hour})
			if _, err := b.tasks.SetRights(t.Context(), "shop", []byte(set.rights), "me"); err != nil {
				t.Fatal(err)
			}
			ids := []string{b.begin(buys + set.fields)}
			if name == "daily limit" { // it is the app's, whichever task spends
				ids = append(ids, b.begin(buys+set.fields), b.begin(buys+set.fields))
			}
			ctx, leave := context.WithCancel(context.Background())
			defer leave()
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() {
					b.send(ctx, ids[i%len(ids)], "POST", "/call", fmt.Sprintf(`{"key":"k%d","tool":"shop.buy","input":{"cents":10,"n":%d}}`, i, i))
				})
			}
			eventually(t, func() bool {
				asked, err := b.tasks.Approvals(t.Context(), approval.Pending)
				return err == nil && len(asked) == 40
			}, func() string { return fmt.Sprintf("%d run", shop.total()) })
			eventually(t, func() bool { return shop.total() == 10 }, func() string { return fmt.Sprintf("%d run", shop.total()) })
			close(shop.hold)
			eventually(t, func() bool {
				n := 0
				for _, id := range ids {
					n += len(b.events(actionlog.TypeToolResult, id))
				}
				return n == 10
			}, func() string { return "not ten results" })
			leave()
			wg.Wait()
			spent := budget.Cents{}
			for _, id := range ids {
				spent = spent.Add(b.task(id).CostCents)
			}
			if spent.String() != "100" {
				t.Fatal(spent)
			}
		})
	}
}

// A call that fails or spends less gives back what it had reserved.
func TestReservationsAreGivenBack(t *testing.T) {
	shop := &till{}
	shop.out = func(call tool.Call, _ json.RawMessage) (json.RawMessage, error) {
		if strings.HasSuffix(call.Key(), ".fails") {
			return nil, fmt.Errorf("no")
		}
		return json.RawMessage(`{"spentCents":10}`), nil
	}
	b := shopBox(t, shop, boxOptions{})
	id := b.begin(buys)
	for i, key := range []string{"fails", "less", "most"} {
		cents := []int{100, 100, 90}[i]
		if a := b.call(id, key, "shop.buy", fmt.Sprintf(`{"cents":%d}`, cents)); a.body["ok"] != (key != "fails") {
			t.Fatalf("%s: %v", key, a)
		}
	}
}

// A model may pass the budget once; then its next call waits, and an OK lets it go on.
func TestModelWaitsOnceOverBudget(t *testing.T) {
	b := newBox(t, boxOptions{})
	id := b.begin(`"budgetCents":100`)
	allow := func() chan bool {
		got := make(chan bool, 1)
		go func() {
			ok, err := b.tasks.AllowModel(context.Background(), id)
			if err != nil {
				t.Error(err)
			}
			got <- ok
		}()
		return got
	}
	if !<-allow() {
		t.Fatal("a task that spent nothing")
	}
	b.post(id, "/cost", `{"cents":100,"what":"model"}`)
	if !<-allow() {
		t.Fatal("exactly the budget")
	}
	b.post(id, "/cost", `{"cents":30.5,"what":"model"}`)
	got := allow()
	a := b.pending(id)
	if a.ID != id+".budget.model.1" || a.CostCents.String() != "130.5" || a.Question != "The task has cost $1.305 of its budget of $1.00. Let its model cost up to $2.305 in all?" {
		t.Fatalf("%+v", a)
	}
	b.answer(a.ID, true)
	if !<-got || !<-allow() {
		t.Fatal("approved")
	}
	b.post(id, "/cost", `{"cents":100.5,"what":"model"}`)
	got = allow()
	if a = b.pending(id); a.ID != id+".budget.model.2" {
		t.Fatal(a.ID)
	}
	b.answer(a.ID, false)
	if <-got || <-allow() {
		t.Fatal("denied")
	}
}

func TestUploadQuestion(t *testing.T) {
	b := newBox(t, boxOptions{})
	id := b.begin("")
	got := make(chan bool, 1)
	go func() {
		ok, err := b.tasks.AllowUpload(context.Background(), id, "example.com", 100)
		got <- ok && err == nil
	}()
	a := b.pending(id)
	if a.ID != id+".upload.example.com" || a.Payee != "example.com" {
		t.Fatal(a)
	}
	b.answer(a.ID, true)
	if !<-got {
		t.Fatal("approved")
	}
	if ok, err := b.tasks.AllowUpload(t.Context(), id, "example.com", 200); !ok || err != nil {
		t.Fatal(ok, err)
	}
}

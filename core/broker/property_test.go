package broker_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"gurtos/core/approval"
	"gurtos/core/task"
	"gurtos/core/tool"
)

var (
	steps = flag.Int("steps", 0, "steps of the property test, 0 for 10,000, or 2,000 where they are slow")
	seed  = flag.Uint64("seed", 0, "seed of the property test, 0 for a new one")
)

// world drives a box at random: a worker that does what it likes, owners that answer,
// undo, stop and pause, a box that is restarted and loses power.
type world struct {
	*box
	r    *rand.Rand
	hold *holds
	ids  []string // tasks made, the live ones among them
	wg   sync.WaitGroup
	quit context.CancelFunc // of the requests under way
	ctx  context.Context

	mu      sync.Mutex
	answers map[string]string         // what a call answered, by task and key: the same for ever
	first   map[string]approval.State // first answer of a question
	wrong   []string
}

func (w *world) fail(format string, a ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, a...))
}

// holds are the tools that run until the world lets them go.
type holds struct {
	mu  sync.Mutex
	all []chan json.RawMessage // nil fails the tool
}

func (h *holds) wait(ctx context.Context) (json.RawMessage, error) {
	c := make(chan json.RawMessage, 1)
	h.mu.Lock()
	h.all = append(h.all, c)
	h.mu.Unlock()
	select {
	case out := <-c:
		if out == nil {
			return nil, errors.New("the tool failed")
		}
		return out, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (h *holds) release(r *rand.Rand, out json.RawMessage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.all) > 0 {
		i := r.IntN(len(h.all))
		h.all[i] <- out
		h.all = slices.Delete(h.all, i, i+1)
	}
}

func TestRandomInterleavings(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	if *steps == 0 {
		if *steps = 10_000; racing || testing.Short() {
			*steps = 2000
		}
	}
	t.Logf("-seed %d -steps %d", *seed, *steps)
	h := &holds{}
	shop := &till{}
	buy := shop.tool("shop.buy")
	buy.Run = func(ctx context.Context, _ json.RawMessage, _ tool.Call) (json.RawMessage, error) { return h.wait(ctx) }
	v := values()
	v.MaxRunning = 4
	w := &world{
		box: newBox(t, boxOptions{tools: toolSet{"shop.buy": buy}, settings: v, wait: 5 * time.Millisecond}),
		r:   rand.New(rand.NewPCG(*seed, 0)), hold: h, answers: map[string]string{}, first: map[string]approval.State{},
	}
	w.ctx, w.quit = context.WithCancel(context.Background())
	for i := range *steps {
		w.step()
		if i%1000 == 999 {
			w.check()
		}
		if len(w.wrong) > 0 || t.Failed() {
			break
		}
	}
	w.check()
	w.quit()
	w.wg.Wait()
	w.busy()
	for _, s := range w.wrong {
		t.Error(s)
	}
}

// step does one thing.
func (w *world) step() {
	switch n := w.r.IntN(1000); {
	case w.tasks.Paused() && n < 150:
		w.pause(false)
	case n < 60:
		w.make()
	case n < 400:
		w.buy()
	case n < 480:
		w.request("/step", fmt.Sprintf(`{"text":"s%d"}`, w.r.IntN(100)))
	case n < 560:
		w.request("/ask", fmt.Sprintf(`{"question":"?","key":"q%d"}`, w.r.IntN(4)))
	case n < 590:
		w.request("/cost", `{"cents":0.5,"what":"x"}`)
	case n < 760:
		w.release()
	case n < 900:
		w.reply()
	case n < 910:
		w.end()
	case n < 920:
		w.leave()
	case n < 930:
		w.pause(true)
	case n < 940:
		w.limit()
	case n < 960:
		w.twice()
	case n < 995:
	case n < 998:
		w.over(func() { w.restart() })
	default:
		w.over(func() { w.cut(w.r.Uint64()) })
	}
}

func (w *world) make() {
	live := w.live()
	if len(live) > 8 {
		return
	}
	app := []string{"", "shop", "mail"}[w.r.IntN(3)]
	spec := fmt.Sprintf(`{"title":"t","prompt":"x","worker":"fake","tools":["shop.buy"],"budgetCents":%d}`, w.r.IntN(4)*100)
	x, err := w.tasks.Create(w.t.Context(), []byte(spec), task.Caller{App: app})
	if err != nil {
		w.fail("create: %v", err)
		return
	}
	w.ids = append(w.ids, x.ID)
}

func (w *world) live() []string {
	var out []string
	for _, id := range w.ids {
		if !w.task(id).State.Ended() {
			out = append(out, id)
		}
	}
	w.ids = slices.Clone(out)
	return out
}

func (w *world) some() string {
	if len(w.ids) == 0 {
		return ""
	}
	return w.ids[w.r.IntN(len(w.ids))]
}

// goAWhile runs fn aside, and gives it a moment to come to its end.
func (w *world) goAWhile(fn func()) {
	done := make(chan struct{})
	w.wg.Go(func() { defer close(done); fn() })
	late := time.NewTimer(time.Millisecond)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	}
}

// request posts and doesn't wait for the answer.
func (w *world) request(path, body string) {
	id := w.some()
	if id == "" || w.runner.get(id) == nil {
		return
	}
	ctx, sb := w.ctx, w.runner.get(id)
	w.goAWhile(func() {
		got, err := sendTo(ctx, sb.path, "POST", path, body)
		if err == nil && got.status != 200 && got.status != 400 {
			w.fail("%s %s: %v", path, body, got)
		}
	})
}

// buy calls the tool. A key mostly has one input, and an input mostly one key.
func (w *world) buy() {
	k := w.r.IntN(40)
	key := fmt.Sprint("k", k)
	if w.r.IntN(10) == 0 {
		key = fmt.Sprint("k", w.r.IntN(40))
	}
	w.call(w.some(), key, k)
}

// twice makes a call under two keys at once.
func (w *world) twice() {
	id, k := w.some(), w.r.IntN(40)
	w.call(id, fmt.Sprint("k", k), k)
	w.call(id, fmt.Sprint("other", k), k)
}

func (w *world) call(id, key string, k int) {
	if id == "" || w.runner.get(id) == nil {
		return
	}
	input := fmt.Sprintf(`{"cents":%d,"n":%d}`, []int{0, 5, 20, 60, 150, 600}[k%6], k)
	ctx, sb := w.ctx, w.runner.get(id)
	w.goAWhile(func() {
		got, err := sendTo(ctx, sb.path, "POST", "/call", fmt.Sprintf(`{"key":%q,"tool":"shop.buy","input":%s}`, key, input))
		switch {
		case err != nil || got.status == 400:
			return
		case got.status != 200:
			w.fail("call: %v", got)
			return
		}
		said, _ := got.body["error"].(string)
		if got.body["pending"] == true || said != "" && said != "the tool failed" && said != "not approved" {
			return // not the last word on this key
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if was, ok := w.answers[id+"."+key]; ok && was != got.raw {
			w.wrong = append(w.wrong, fmt.Sprintf("%s.%s answered %s and then %s", id, key, was, got.raw))
		}
		w.answers[id+"."+key] = got.raw
	})
}

func (w *world) release() {
	outs := []json.RawMessage{nil, json.RawMessage(`{"spentCents":3}`), json.RawMessage(`{"done":true}`)}
	w.hold.release(w.r, outs[w.r.IntN(len(outs))])
}

// reply answers any question, also one that has its answer.
func (w *world) reply() {
	all, err := w.tasks.Approvals(w.t.Context(), "")
	if err != nil {
		w.fail("approvals: %v", err)
		return
	}
	if len(all) == 0 {
		return
	}
	a := all[max(0, len(all)-1-w.r.IntN(30))]
	yes := w.r.IntN(3) > 0
	b := w.box
	w.wg.Go(func() {
		got, err := b.tasks.Answer(w.ctx, a.ID, yes, "bar", "")
		if err != nil {
			return // the box is down
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if was, ok := w.first[a.ID]; ok && was != got.State {
			w.wrong = append(w.wrong, fmt.Sprintf("%s was %s and is %s", a.ID, was, got.State))
		}
		w.first[a.ID] = got.State
	})
}

func (w *world) end() {
	if id := w.some(); id != "" {
		if sb := w.runner.get(id); sb != nil {
			sb.end(exitOf(w.r))
		}
	}
}

func (w *world) leave() {
	id := w.some()
	if id == "" {
		return
	}
	do := w.tasks.Undo
	if w.r.IntN(2) == 0 {
		do = w.tasks.Stop
	}
	_, err := do(w.t.Context(), id, "me")
	var no *task.Refused
	if err != nil && !errors.As(err, &no) {
		w.fail("leaving %s: %v", id, err)
	}
}

// limit changes what the shop may spend in a day.
func (w *world) limit() {
	body := []string{`{"dailyLimitCents":null}`, `{"dailyLimitCents":300}`, `{"money":false}`, `{"money":true}`}[w.r.IntN(4)]
	if _, err := w.tasks.SetRights(w.t.Context(), "shop", []byte(body), "me"); err != nil {
		w.fail("rights: %v", err)
	}
}

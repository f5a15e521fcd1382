package broker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"gurtos/core/approval"
	"gurtos/core/budget"
	"gurtos/core/task"
	"gurtos/core/tool"
)

// boxKey are keys whose budget question is the box's own, about the model's cost.
var boxKey = regexp.MustCompile(`^model\.[0-9]+$`)

type callRequest struct {
	Tool  string          `json:"tool"`
	Input json.RawMessage `json:"input"`
	Key   json.RawMessage `json:"key"`
}

// callAnswer is what a worker gets for a call.
type callAnswer struct {
	OK      bool            `json:"ok"`
	Output  json.RawMessage `json:"output,omitempty"`
	Pending bool            `json:"pending,omitempty"`
	Error   string          `json:"error,omitempty"`
	Reason  string          `json:"reason,omitempty"` // what the one who said no had to say
}

// The sentences that the specification words.
const (
	refused = "refused by GurtOS"
	ending  = "the box is ending; call again"
	again   = "the same call just ended without a result; call again"
	waiting = "Waiting for the owner to approve this spend. Call this tool again to check."
)

// priceTime is how long an app may take to say what a call costs and who is paid.
const priceTime = 10 * time.Second

// maxOutput is how many bytes a tool's output may have, before and after what is secret
// was taken out: it has to fit a line of the log. maxError is the same for the error of
// one that failed, in characters.
const (
	maxOutput = 8 << 20
	maxError  = 4000
)

func (d *desk) call(ctx context.Context, body []byte) (any, error) {
	r := callRequest{Input: json.RawMessage(`{}`)}
	if err := read(body, &r); err != nil {
		return nil, err
	}
	key, err := checkKey(r.Key)
	if err != nil {
		return nil, err
	}
	if boxKey.MatchString(key) {
		return nil, &task.Invalid{Field: "key", Sentence: key + " names one of the box's own questions"}
	}
	if r.Tool == "" {
		return nil, &task.Invalid{Field: "tool", Sentence: "the tool's name is needed"}
	}
	if d.trapped(ctx, body) {
		return callAnswer{Error: refused}, nil
	}
	if err := d.opt.Tasks.Going(ctx); err != nil {
		return nil, err
	}
	c := task.Call{Key: key, Tool: r.Tool, Input: oneLine(r.Input)}
	if len(c.Input) > maxBody { // by what stands for U+2028 now
		return nil, &refusal{http.StatusRequestEntityTooLarge, "a request is at most 10 MB"}
	}
	// From here on the call goes on though its client goes away.
	out := make(chan outcome, 1)
	d.flights.Go(func() {
		res, fl, err := d.enter(d.ctx, c)
		out <- outcome{res, fl, err}
	})
	select {
	case o := <-out:
		if o.err != nil {
			return nil, o.err
		}
		if o.result != nil {
			return d.tell(ctx, o.result)
		}
		return d.await(ctx, o.flight)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type outcome struct {
	result *task.CallResult
	flight *task.Flight
	err    error
}

// trapped looks for the task's canary. One that is found ends the task: it is undone,
// and the owner is told, without the value and without what stood around it. The
// worker is killed once it was answered.
func (d *desk) trapped(ctx context.Context, body []byte) bool {
	if d.opt.Canary == nil || !newTrap(keysOf(d.opt.Canary, d.id)...).in(body) {
		return false
	}
	err := d.opt.Tasks.Trap(d.ctx, d.id, d.id+" tried to hand the false cloud key of its environment to a tool. It was stopped and undone.")
	if err != nil {
		d.opt.Slog.Error("a task with a leaked canary was not undone", "task", d.id, "why", err)
	}
	d.flights.Go(func() {
		late := time.NewTimer(time.Second)
		defer late.Stop()
		select {
		case <-ctx.Done(): // answered
		case <-late.C:
		}
		d.opt.Tasks.Kill(d.id)
	})
	return true
}

func keysOf(c task.Canary, id string) []string {
	a, b := c.Keys(id)
	return []string{a, b}
}

// oneLine is JSON without space between its parts and without the characters that
// some take for line ends: what is shown, logged and run are the same bytes.
func oneLine(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw // strict has read it: can't be
	}
	out := bytes.ReplaceAll(b.Bytes(), []byte("\u2028"), []byte(`\u2028`))
	return bytes.ReplaceAll(out, []byte("\u2029"), []byte(`\u2029`))
}

// enter finds the call's result or flight, and flies it when it is new.
func (d *desk) enter(ctx context.Context, c task.Call) (*task.CallResult, *task.Flight, error) {
	tools, err := d.opt.Tasks.MayCall(ctx, d.id)
	if err != nil {
		return nil, nil, err
	}
	for range 5 {
		known, err := d.opt.Tasks.Known(ctx, d.id, c)
		if err != nil {
			return nil, nil, err
		}
		var tl tool.Tool
		if !known && slices.Contains(tools, c.Tool) {
			var why string
			if tl, why = d.price(ctx, &c); why != "" {
				return &task.CallResult{Error: why}, nil, nil
			}
		}
		res, fl, mine, err := d.opt.Tasks.Begin(ctx, d.id, c)
		if err != nil || res != nil || !mine {
			return res, fl, err
		}
		if tl.Run != nil {
			d.flights.Go(func() { d.fly(fl, tl) })
			return nil, fl, nil
		}
		// What was on its way when Known looked ended since, with nothing logged.
		d.opt.Tasks.Land(fl, task.CallResult{Error: again})
	}
	return &task.CallResult{Error: again}, nil, nil
}

// price holds the input against the tool's schema and asks the tool what the call will
// spend. why is a sentence when the call can't be made.
func (d *desk) price(ctx context.Context, c *task.Call) (tl tool.Tool, why string) {
	tl, ok := d.opt.Tools.Lookup(c.Tool)
	if !ok {
		return tl, c.Tool + " is not there: its app is off"
	}
	if err := d.schemas.check(tl.Input, c.Input); err != nil {
		return tl, err.Error()
	}
	ctx, cancel := context.WithTimeout(ctx, priceTime)
	defer cancel()
	if c.Spends = tl.Cost != nil; c.Spends {
		cents, err := guard(func() (budget.Cents, error) { return tl.Cost(ctx, c.Input) })
		if err == nil && cents.Sign() < 0 {
			err = errors.New("it is below 0")
		}
		if err == nil {
			_, err = budget.ParseCents(cents.String())
		}
		if err != nil {
			return tl, d.opt.Vault.Redact(fmt.Sprintf("%s could not say what this call costs: %v", c.Tool, err))
		}
		c.Cost = cents
	}
	if tl.Card != nil {
		card, err := guard(func() (tool.Card, error) { return tl.Card(ctx, c.Input) })
		if err != nil {
			return tl, d.opt.Vault.Redact(fmt.Sprintf("%s could not say who is paid: %v", c.Tool, err))
		}
		c.Payee, c.Purpose = d.opt.Vault.Redact(card.Payee), d.opt.Vault.Redact(card.Purpose)
	}
	return tl, ""
}

// guard turns a panic of an app's function into an error: one broken tool must not end
// the box.
func guard[T any](fn func() (T, error)) (out T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it broke: %v", p)
		}
	}()
	return fn()
}

// fly takes a call through its turns to its end.
func (d *desk) fly(fl *task.Flight, tl tool.Tool) {
	tasks := d.opt.Tasks
	for {
		turn, err := tasks.Next(d.ctx, fl)
		switch {
		case err != nil:
			tasks.Land(fl, task.CallResult{Error: err.Error()})
			return
		case turn.Result != nil:
			tasks.Land(fl, *turn.Result)
			return
		case turn.Halted:
			err = tasks.Going(d.ctx)
		case turn.Ask != nil:
			fl.Asks(1)
			_, err = tasks.Await(d.ctx, turn.Ask.ID, 0)
			fl.Asks(-1)
		case turn.Run:
			d.run(fl, tl, turn.Fresh)
			return
		}
		if err != nil {
			tasks.Land(fl, task.CallResult{Error: ending})
			return
		}
	}
}

// run runs the tool of a logged call and logs what came of it.
func (d *desk) run(fl *task.Flight, tl tool.Tool, fresh bool) {
	out, err := guard(func() (json.RawMessage, error) {
		return tl.Run(d.ctx, fl.Call.Input, &hand{desk: d, flight: fl, fresh: fresh})
	})
	if d.ctx.Err() != nil {
		// Cut off, as by a power cut: it runs again with the same key.
		d.opt.Tasks.Land(fl, task.CallResult{Error: ending})
		return
	}
	if errors.Is(err, tool.ErrCutOff) {
		r := task.CallResult{Error: d.worded(err.Error())}
		if cut := (*tool.CutOff)(nil); errors.As(err, &cut) {
			d.opt.Tasks.CutOff(fl, d.worded(cut.Why), r)
		} else {
			d.opt.Tasks.Land(fl, r)
		}
		return
	}
	r := d.result(fl, out, err)
	if err := d.opt.Tasks.End(context.Background(), fl, r); err != nil {
		d.opt.Slog.Error("a call's result was not written", "task", d.id, "key", fl.Call.Key, "why", err)
	}
}

// result is what a tool's answer comes to: without the vault's values, and charged
// with what it says it spent, at most what was reserved.
func (d *desk) result(fl *task.Flight, out json.RawMessage, err error) task.CallResult {
	if err != nil {
		r := task.CallResult{Error: d.worded(err.Error())}
		if errors.Is(err, tool.ErrUntaken) {
			d.untaken(fl, &r)
		}
		return r
	}
	r := task.CallResult{OK: true, Output: json.RawMessage("null"), Cents: fl.Call.Cost}
	if len(out) > 0 {
		r.Output = out
	}
	tooLong := fmt.Sprintf("%s returned more than %d MB", fl.Call.Tool, maxOutput>>20)
	switch {
	case len(out) > maxOutput:
		r.OK, r.Output, r.Error = false, nil, tooLong
		d.untaken(fl, &r)
		return r
	case !json.Valid(r.Output):
		r.OK, r.Output, r.Error = false, nil, fl.Call.Tool+" returned no JSON"
		d.untaken(fl, &r)
		return r
	}
	var said struct {
		SpentCents json.RawMessage `json:"spentCents"`
	}
	if fl.Call.Spends && json.Unmarshal(r.Output, &said) == nil && said.SpentCents != nil {
		spent, err := budget.ParseCents(string(said.SpentCents))
		if err == nil && spent.Sign() >= 0 && spent.Cmp(fl.Call.Cost) <= 0 {
			r.Cents = spent
		} else {
			r.Alert = d.worded(fmt.Sprintf("A call of %s gave back the spentCents %s, and a number from 0 to its cost of %s is needed: the cost counts as spent. Look it up by %s.%s.",
				fl.Call.Tool, brief(said.SpentCents), fl.Call.Cost, d.id, fl.Call.Key))
		}
	}
	if r.Output = d.opt.Vault.RedactJSON(oneLine(r.Output)); len(r.Output) > maxOutput {
		r.OK, r.Output, r.Error = false, nil, tooLong
	}
	return r
}

// untaken is for a call whose work was done, and whose output is lost: what it could spend
// counts as spent, and the owner is told.
func (d *desk) untaken(fl *task.Flight, r *task.CallResult) {
	if r.Cents = fl.Call.Cost; r.Cents.Sign() > 0 {
		r.Alert = fmt.Sprintf("A call of %s for up to $%s did its work, and what it gave back can't be taken. All of it counts as spent: look it up by %s.%s.",
			fl.Call.Tool, r.Cents.Dollars(), d.id, fl.Call.Key)
	}
}

// worded is what an app says as it may be shown.
func (d *desk) worded(s string) string {
	return short(d.opt.Vault.Redact(strings.ToValidUTF8(s, "\uFFFD")))
}

// brief is a value as far as a sentence holds it.
func brief(raw json.RawMessage) string {
	if r := []rune(string(raw)); len(r) > 40 {
		return string(r[:40]) + "…"
	}
	return string(raw)
}

// short is an error as long as a line of the log and a model's patience allow.
func short(s string) string {
	if r := []rune(s); len(r) > maxError {
		return string(r[:maxError]) + "…"
	}
	return s
}

// await waits for a call's end, or tells that it is pending once it has waited for an
// answer as long as a client may be kept.
func (d *desk) await(ctx context.Context, fl *task.Flight) (any, error) {
	for {
		asking, changed := fl.Asking()
		var late <-chan time.Time
		var timer *time.Timer
		if asking {
			timer = time.NewTimer(d.opt.Wait)
			late = timer.C
		}
		done, pending := false, false
		select {
		case <-fl.Done:
			done = true
		case <-changed:
		case <-late:
			pending = true
		case <-ctx.Done():
		}
		if timer != nil {
			timer.Stop()
		}
		switch {
		case done:
			return d.tell(ctx, fl.Result)
		case pending:
			return callAnswer{Pending: true, Error: waiting}, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
	}
}

// tell is the answer with a call's result. One with a long output waits until few others
// of this task are on their way, so that a call made again and again fills no memory.
func (d *desk) tell(ctx context.Context, r *task.CallResult) (any, error) {
	if r.Seq == 0 && len(r.Output) <= large {
		return answerOf(r), nil
	}
	select {
	case d.large <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	free := func() { <-d.large }
	whole, err := d.opt.Tasks.Recall(ctx, r)
	if err != nil {
		free()
		return nil, err
	}
	return placed{answerOf(whole), free}, nil
}

func answerOf(r *task.CallResult) callAnswer {
	return callAnswer{OK: r.OK, Output: r.Output, Error: r.Error, Reason: r.Reason}
}

// hand is what a running tool may do for its call.
type hand struct {
	*desk
	flight *task.Flight
	fresh  bool
}

var _ tool.Call = (*hand)(nil)

func (h *hand) Task() task.Task { return h.flight.Task }

func (h *hand) Key() string { return h.id + "." + h.flight.Call.Key }

func (h *hand) Fresh() bool { return h.fresh }

func (h *hand) Cost(c budget.Cents, what string) error {
	if _, err := budget.ParseCents(c.String()); err != nil || c.Sign() < 0 {
		return errCents
	}
	return h.opt.Tasks.ToolCost(context.Background(), h.id, h.flight.Call.Tool, c, h.opt.Vault.Redact(what))
}

func (h *hand) Log(text string, data json.RawMessage) error {
	if len(data) > 0 {
		data = h.opt.Vault.RedactJSON(oneLine(data))
	}
	return h.opt.Tasks.ToolStep(context.Background(), h.id, h.opt.Vault.Redact(text), data)
}

func (h *hand) Ask(ctx context.Context, question, purpose string) (bool, error) {
	sum := sha256.Sum256([]byte(question))
	a := approval.Approval{
		ID:   h.id + ".tool." + h.flight.Call.Key + ".ask." + hex.EncodeToString(sum[:6]),
		Task: h.id, Question: h.opt.Vault.Redact(question), Purpose: h.opt.Vault.Redact(purpose),
	}
	if _, err := h.opt.Tasks.Ask(ctx, a); err != nil {
		var over *task.Over
		if errors.As(err, &over) {
			return false, nil // the task ended: its questions are answered no
		}
		return false, err
	}
	h.flight.Asks(1)
	defer h.flight.Asks(-1)
	// Whatever context the tool came with, the box's end ends the wait.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	got, err := h.opt.Tasks.Await(ctx, a.ID, 0)
	return got.State == approval.Approved, err
}

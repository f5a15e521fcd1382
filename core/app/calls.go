package app

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"gurtos/core/app/declare"
	"gurtos/core/budget"
	"gurtos/core/task"
	"gurtos/core/tool"
)

// How long an app may take where Options say nothing else. The time that it waits for
// the owner's answer counts for nothing.
const (
	DefaultRunTime   = 5 * time.Minute  // a tool, a model job
	DefaultRouteTime = time.Minute      // a route up to its Response, a webhook, a log reader's line, a watch
	DefaultLoadTime  = 20 * time.Second // of a processor: an app in order needs a tenth of a second, and many packages on a slow machine some seconds

	triggerTime = 30 * time.Second
	stopTime    = 10 * time.Second
	contextTime = 2 * time.Second // the specification's
	graceTime   = 5 * time.Second // after its signal told it
	answerTime  = 20 * time.Second
)

// tries is how often a tool's call is run when the process ends in the middle of it.
const tries = 3

// call is one call into the app that is not over.
type call struct {
	id      int64
	what    string // in words
	limit   time.Duration
	secrets []string // that ctx.secret gives; nil for a call that has no Ctx
	hand    hand     // what else its Ctx does; nil for none
	body    *body    // of a route's request; nil for none
	clock   *patience
	brief   bool // no graceTime for it: who waits does so no longer
}

// hand is what a Ctx does for its task.
type hand interface {
	Cost(c budget.Cents, what string) error
	Log(text string, data json.RawMessage) error
	Ask(ctx context.Context, question, purpose string) (bool, error)
}

// slow is a call that took longer than it may.
type slow struct {
	what string
	time time.Duration
}

func (e *slow) Error() string { return fmt.Sprintf("%s took longer than %s", e.what, span(e.time)) }

func span(d time.Duration) string {
	if d >= time.Minute {
		if n := int(d / time.Minute); n > 1 {
			return fmt.Sprintf("%d minutes", n)
		}
		return "a minute"
	}
	if d <= time.Second {
		return "a second"
	}
	return fmt.Sprintf("%d seconds", int(d/time.Second))
}

// run makes a call and waits for its end. When its time is over, or ctx ends, its
// signal tells the app; then it has graceTime for an end of its own.
func (h *host) run(ctx context.Context, c *call, method string, params map[string]any, into any) error {
	h.r.mu.Lock()
	h.r.last++
	c.id = h.r.last
	h.r.mu.Unlock()
	c.clock = newPatience(c.limit)
	defer c.clock.stop()
	h.mu.Lock()
	h.calls[c.id] = c
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.calls, c.id)
		h.mu.Unlock()
	}()
	params["call"] = c.id
	p, err := h.p.main.begin(method, params)
	if err != nil {
		return err
	}
	var why error
	select {
	case m, ok := <-p.answer:
		return p.decode(m, ok, into)
	case err := <-p.unsent:
		return err
	case <-c.clock.over:
		why = &slow{c.what, c.limit}
	case <-ctx.Done():
		why = context.Cause(ctx)
	}
	h.abort(c, why)
	wait := graceTime
	if c.brief {
		wait = 0
	}
	grace := time.NewTimer(wait)
	defer grace.Stop()
	select {
	case m, ok := <-p.answer:
		if p.decode(m, ok, into) == nil {
			return nil // what it did is done, however late
		}
	case <-p.unsent:
	case <-grace.C:
		h.p.main.giveUp(p.id)
	}
	var late *slow
	if errors.As(why, &late) {
		h.a.trouble("%v and was ended", why)
		h.alongside(h.look)
	}
	return why
}

// abort tells the app that nobody waits for a call any more.
func (h *host) abort(c *call, why error) {
	// An app that takes nothing is found by look, or by the next write.
	h.alongside(func() {
		h.p.main.tell("abort", map[string]any{"call": c.id, "why": why.Error()}) //nolint:errcheck // then it is gone
	})
}

// look ends a process that answers nothing any more.
func (h *host) look() { h.ping(answerTime) }

// watchOver looks now and then for a process that spins where nobody calls it. It may
// be at work for as long as a tool may.
func (h *host) watchOver() {
	now := time.NewTicker(h.r.opt.RunTime / 5)
	defer now.Stop()
	for {
		select {
		case <-now.C:
			h.ping(max(h.r.opt.RunTime, answerTime))
			h.a.tidied()
		case <-h.ctx.Done():
			return
		}
	}
}

func (h *host) ping(most time.Duration) {
	ctx, cancel := context.WithTimeout(h.ctx, most)
	defer cancel()
	if err := h.p.main.call(ctx, "ping", nil, nil); errors.Is(err, context.DeadlineExceeded) {
		h.fail("it stopped answering")
	}
}

// patience is a time limit that stands still while the owner is asked.
type patience struct {
	over chan struct{} // closed when the time is up

	mu    sync.Mutex
	left  time.Duration
	since time.Time
	asks  int
	timer *time.Timer
}

func newPatience(d time.Duration) *patience {
	p := &patience{over: make(chan struct{}), left: d, since: time.Now()}
	p.timer = time.AfterFunc(d, sync.OnceFunc(func() { close(p.over) }))
	return p
}

func (p *patience) stop() { p.timer.Stop() }

// pause stops the time until as many resume.
func (p *patience) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asks++; p.asks == 1 && p.timer.Stop() {
		p.left -= time.Since(p.since)
	}
}

func (p *patience) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asks--; p.asks == 0 {
		p.since = time.Now()
		p.timer.Reset(max(p.left, 0))
	}
}

// tool gives a tool of an app that is on.
func (r *Registry) tool(name string) (tool.Tool, bool) {
	a := r.on(task.AppOf(name))
	if a == nil {
		return tool.Tool{}, false
	}
	r.mu.Lock()
	d := a.build.made.Tool(name)
	r.mu.Unlock()
	if d == nil {
		return tool.Tool{}, false
	}
	t := tool.Tool{Name: d.Name, Description: d.Description, Input: d.Input}
	if d.Cost {
		t.Cost = func(ctx context.Context, input json.RawMessage) (c budget.Cents, err error) {
			var n json.RawMessage
			if err = a.ask(ctx, "the cost of "+name, "tool.cost", name, input, &n); err != nil {
				return c, err
			}
			if c, err = budget.ParseCents(string(n)); err != nil {
				return c, fmt.Errorf("its cost gave %s, and a number of cents is needed", declare.Clip(strings.Replace(string(n), "null", "nothing", 1)))
			}
			return c, nil
		}
	}
	if d.Card {
		t.Card = func(ctx context.Context, input json.RawMessage) (tool.Card, error) {
			var card struct {
				Payee   *string `json:"payee"`
				Purpose *string `json:"purpose"`
			}
			err := a.ask(ctx, "the card of "+name, "tool.card", name, input, &card)
			return tool.Card{Payee: deref(card.Payee), Purpose: deref(card.Purpose)}, err
		}
	}
	t.Run = func(ctx context.Context, input json.RawMessage, c tool.Call) (json.RawMessage, error) {
		return a.runTool(ctx, d, input, c)
	}
	return t, true
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// ask asks the app something about a call that is not made yet.
func (a *app) ask(ctx context.Context, what, method, name string, input json.RawMessage, into any) error {
	h, err := a.ready(ctx)
	if err != nil {
		return err
	}
	c := &call{what: what, limit: stopTime}
	return h.run(ctx, c, method, map[string]any{"tool": name, "input": input}, into)
}

// runTool runs a tool. A process that ends in the middle leaves open what was done, so
// the call is run again, under the same key, as after a power cut. One that no process
// was ever sent did not begin, and fails.
func (a *app) runTool(ctx context.Context, d *declare.Tool, input json.RawMessage, tc tool.Call) (json.RawMessage, error) {
	// What costs may have begun before the box started anew.
	begun := d.Cost && !tc.Fresh()
	for n := 1; ; n++ {
		h, err := a.ready(ctx)
		if err != nil {
			if !begun {
				return nil, err
			}
			if errors.Is(err, errOff) {
				err = errTurnedOff
			}
			return nil, cutOff(d.Name, err)
		}
		var out json.RawMessage
		c := &call{what: d.Name, limit: a.r.opt.RunTime, secrets: d.Secrets, hand: tc}
		err = h.run(ctx, c, "tool.run", map[string]any{"tool": d.Name, "input": input, "key": tc.Key(), "task": tc.Task()}, &out)
		var late *slow
		var never unsent
		if !errors.As(err, &never) {
			begun = true
		}
		switch {
		case err == nil:
			return out, nil
		case errors.As(err, &late) && d.Cost:
			return nil, cutOff(d.Name, err)
		case !errors.Is(err, errGone):
			var said *thrown
			if errors.As(err, &said) && said.tampered() {
				a.trouble("%s: %v", d.Name, err)
			}
			if said != nil && said.done {
				err = fmt.Errorf("%w: %w", tool.ErrUntaken, err)
			}
			return nil, err
		case n == tries && !begun:
			return nil, fmt.Errorf("%s did not begin, since %w", d.Name, h.p.ended())
		case n == tries:
			return nil, cutOff(d.Name, h.p.ended())
		}
		<-h.p.done
	}
}

// errTurnedOff is errOff of a call that had begun.
var errTurnedOff = errors.New("the app was turned off")

// cutOff is the error of a call of which nobody knows whether it was done.
func cutOff(name string, why error) error {
	return &tool.CutOff{Tool: name, Why: strings.TrimSuffix(why.Error(), ".")}
}

// job runs a model job of any app that is on.
func (r *Registry) job(ctx context.Context, name string, input json.RawMessage, taskID string) (json.RawMessage, error) {
	a, d := r.jobOf(name)
	if a == nil {
		return nil, fmt.Errorf("no app that is on has a model job named %s", declare.Clip(name))
	}
	key := "job." + strings.ToLower(rand.Text()[:16])
	jh := &jobHand{r: r, app: a.name, key: key, task: taskID}
	params := map[string]any{"job": d.Name, "input": input, "key": key}
	if taskID != "" {
		t, err := r.opt.Tasks.Get(ctx, taskID)
		if err != nil {
			return nil, err
		}
		params["task"] = t
	}
	h, err := a.ready(ctx)
	if err != nil {
		return nil, err
	}
	var out json.RawMessage
	c := &call{what: "the model job " + d.Name, limit: r.opt.RunTime, secrets: append([]string{}, d.Secrets...), hand: jh}
	if err := h.run(ctx, c, "job.run", params, &out); errors.Is(err, errGone) {
		return nil, fmt.Errorf("the model job %s did not come to an end: %w", d.Name, h.p.ended())
	} else if err != nil {
		return nil, err
	}
	return r.opt.Vault.RedactJSON(out), nil
}

func (r *Registry) jobOf(name string) (*app, *declare.Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.order {
		a := r.apps[n]
		if !a.up {
			continue
		}
		for i := range a.build.made.Jobs {
			if j := &a.build.made.Jobs[i]; j.Name == name {
				return a, j
			}
		}
	}
	return nil, nil
}

// hook hands a webhook to its app.
func (r *Registry) hook(ctx context.Context, name, hook string, headers map[string]string, body json.RawMessage) (json.RawMessage, error) {
	a := r.on(name)
	if a == nil {
		return nil, &Refusal{404, fmt.Sprintf("there is no app %s that is on", declare.Clip(name))}
	}
	if err := a.soon(); err != nil {
		return nil, &Refusal{503, err.Error()}
	}
	h, err := a.ready(ctx)
	if err != nil {
		return nil, &Refusal{503, a.says(err)}
	}
	if !h.hasHook(ctx, hook) {
		return nil, &Refusal{404, fmt.Sprintf("%s has no webhook %s", name, declare.Clip(hook))}
	}
	var out json.RawMessage
	c := &call{what: "the webhook " + hook, limit: r.opt.RouteTime}
	if err := h.run(ctx, c, "hook", map[string]any{"name": hook, "body": body, "headers": headers}, &out); err != nil {
		a.threw(c, err)
		return nil, &Refusal{500, a.says(err)}
	}
	return r.opt.Vault.RedactJSON(out), nil
}

// hasHook says whether the app serves a webhook, and waits for its triggers, which may
// be about to make it.
func (h *host) hasHook(ctx context.Context, name string) bool {
	has := func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.hooks[name]
	}
	if has() {
		return true
	}
	select {
	case <-h.triggered:
	case <-h.ctx.Done():
	case <-ctx.Done():
	}
	return has()
}

// threw keeps what a route or webhook threw: nobody else may be told of it.
func (a *app) threw(c *call, err error) {
	var said *thrown
	if errors.As(err, &said) {
		a.trouble("%s: %v", c.what, err)
	}
}

// says words an error of the app for whoever called it.
func (a *app) says(err error) string {
	if errors.Is(err, errGone) {
		err = fmt.Errorf("%s: %w", a.name, err)
	}
	return a.r.opt.Vault.Redact(strings.ToValidUTF8(err.Error(), "\uFFFD"))
}

// maxContext is how many characters all apps together may add to a task's prompt.
const maxContext = 8000

// taskContext asks every app that has something to add, all at once.
func (r *Registry) taskContext(ctx context.Context, spec json.RawMessage) string {
	r.mu.Lock()
	var all []*app
	for _, name := range r.order {
		if a := r.apps[name]; a.up && a.build.made.Context {
			all = append(all, a)
		}
	}
	r.mu.Unlock()
	texts := make([]string, len(all))
	var asked sync.WaitGroup
	for i, a := range all {
		asked.Go(func() { texts[i] = a.context(ctx, spec) })
	}
	asked.Wait()
	var out []string
	left := maxContext
	for _, text := range texts {
		runes := []rune(strings.TrimSpace(text))
		if len(out) > 0 && len(runes) > 0 {
			left -= 2 // the line between
		}
		if len(runes) == 0 || left <= 0 {
			continue
		}
		runes = runes[:min(len(runes), left)]
		left -= len(runes)
		out = append(out, string(runes))
	}
	return strings.Join(out, "\n\n")
}

func (a *app) context(ctx context.Context, spec json.RawMessage) string {
	if a.soon() != nil {
		return "" // no task waits for an app that is in trouble
	}
	// One limit for both: a process that is slow to start holds a task up no longer.
	ctx, cancel := context.WithTimeoutCause(ctx, contextTime, &slow{"taskContext", contextTime})
	defer cancel()
	h, err := a.ready(ctx)
	if err != nil {
		a.r.opt.Slog.Warn("a task starts without what an app had to add", "app", a.name, "why", a.says(err))
		return ""
	}
	var text *string
	c := &call{what: "taskContext", limit: contextTime, brief: true}
	err = h.run(ctx, c, "context", map[string]any{"spec": spec}, &text)
	var late *slow
	switch {
	case errors.As(err, &late), ctx.Err() != nil:
		return "" // it is told already
	case err != nil:
		a.trouble("taskContext: %v", err)
		return ""
	}
	return a.r.opt.Vault.Redact(strings.ToValidUTF8(deref(text), "\uFFFD"))
}

// Calls is how many calls into an app are not over.
func (r *Registry) Calls(name string) int {
	r.mu.Lock()
	var hosts []*host
	if a := r.apps[name]; a != nil {
		hosts = a.hosts()
	}
	r.mu.Unlock()
	n := 0
	for _, h := range hosts {
		h.mu.Lock()
		n += len(h.calls)
		h.mu.Unlock()
	}
	return n
}

// Running says whether an app's process runs.
func (r *Registry) Running(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.apps[name]
	return a != nil && len(a.hosts()) > 0 && !a.hosts()[0].over()
}

package task

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"gurtos/core/actionlog"
	"gurtos/core/budget"
	"gurtos/netpolicy"
	"gurtos/netpolicy/authority"
	"gurtos/netpolicy/meter"
)

// Keys is the vault as the proxy needs it.
type Keys interface {
	// Use gives a key as it is now, and a writer that takes it, and all others, out of
	// what comes back. The writer is given though there is no such key.
	Use(name string) (value string, clean func(io.Writer) io.WriteCloser, ok bool)
}

// modelWire is what connects a run's network to the key of its worker.
type modelWire struct {
	*wire
	key   *ModelKey
	calls *modelCalls
}

// rules are what a worker with a key reaches besides its task's own hosts.
func (k *ModelKey) rules() (all []string) {
	for _, h := range slices.Concat(k.Hosts, k.Quiet) {
		all = append(all, h+":443")
	}
	return all
}

// swap fills a policy in for a worker with a key.
func (w *wire) swap(p *netpolicy.Policy, k *ModelKey, ca *authority.Authority) {
	m := modelWire{w, k, &modelCalls{}}
	model := netpolicy.Swap{
		Hosts: k.Hosts, Header: k.Header, Placeholder: k.Placeholder, Authority: ca,
		Requests: k.Requests, Empty: k.Empty, Models: k.Models,
		Key: m.use, Rejected: m.rejected, Allow: m.permitted, Begin: m.begin,
	}
	p.Swaps = append(p.Swaps, model)
	if len(k.Quiet) > 0 {
		quiet := model
		quiet.Hosts, quiet.Requests, quiet.Empty = k.Quiet, []string{}, []string{"GET /", "HEAD /", "POST /", "PUT /"}
		p.Swaps = append(p.Swaps, quiet)
	}
}

// use is the key as the vault has it when a request goes out.
func (m modelWire) use() (string, func(io.Writer) io.WriteCloser, error) {
	key, clean, ok := m.q.opt.Keys.Use(m.key.Name)
	if ok {
		return key, clean, nil
	}
	err := errors.New("Your " + m.key.Title + " key is not set. Put it in as " + m.key.Name + " in Settings, Accounts & Keys.") //nolint:staticcheck // a sentence that people read
	m.once(err.Error())
	return "", clean, err
}

// rejected tells the owner that the service does not take the key.
func (m modelWire) rejected() {
	m.once("Your " + m.key.Title + " key was not accepted. Change it in Settings, Accounts & Keys.")
}

// once logs a sentence about the key as a step, once in a run.
func (m modelWire) once(sentence string) {
	m.mu.Lock()
	before := m.told[sentence]
	m.told[sentence] = true
	m.mu.Unlock()
	if !before {
		m.tell.Go(func() { m.said(m.q.ToolStep(context.Background(), m.id, sentence, nil)) })
	}
}

// permitted holds a model call until the owner lets it go on.
func (m modelWire) permitted(ctx context.Context) error {
	yes, err := m.q.AllowModel(ctx, m.id)
	if err == nil && !yes {
		err = errors.New("The owner did not approve that this task's model costs more than its budget.") //nolint:staticcheck // a sentence that people read
	}
	if err != nil {
		return err
	}
	return m.q.Going(ctx)
}

// Names of the fields of a cost event that only the fold reads.
const (
	fieldMetered = "metered" // true: the box itself saw what the model used
	fieldTold    = "told"    // the counts that the worker told, where not all of them were booked
	fieldCall    = "call"    // which request it was that the box saw, as modelCall has it
)

// Metered books what the box saw a model use, by a request that call names. It is booked
// though the task ended meanwhile: the money is gone.
func (t *Tasks) Metered(ctx context.Context, id, call string, u meter.Usage) error {
	n := budget.Tokens{Input: u.Input, Output: u.Output, CacheWrite: u.CacheWrite, CacheRead: u.CacheRead}.Most(budget.MaxTokens)
	what := "model"
	if u.Estimate {
		what = "model (estimate)"
	}
	name, err := json.Marshal(call)
	if err != nil {
		return err
	}
	model := cmp.Or(u.Model, "unknown") // without a name it would be summed up with what tools spent
	ev, err := t.costEvent(id, what, model, n, actionlog.Field{Name: fieldMetered, Value: json.RawMessage("true")}, actionlog.Field{Name: fieldCall, Value: name})
	if err != nil {
		return err
	}
	return t.commit(ctx, func(f *fold) ([]actionlog.Event, error) {
		_, err := f.entry(id)
		return []actionlog.Event{ev}, err
	})
}

// Usage books what a worker says that its model used, as far as the box did not see it
// itself.
func (t *Tasks) Usage(ctx context.Context, id, what, model string, told budget.Tokens) (actionlog.Event, error) {
	var out []actionlog.Event
	err := t.commit(ctx, func(f *fold) ([]actionlog.Event, error) {
		e, err := f.entry(id)
		if err != nil {
			return nil, err
		}
		if !e.State.Live() {
			return nil, &Over{id, e.State}
		}
		n := e.Use.unseen(told)
		var extra []actionlog.Field
		if n != told {
			raw, err := json.Marshal(told)
			if err != nil {
				return nil, err
			}
			extra = append(extra, actionlog.Field{Name: fieldTold, Value: raw})
		}
		ev, err := t.costEvent(id, what, model, n, extra...)
		out = []actionlog.Event{ev}
		return out, err
	})
	if err != nil {
		return actionlog.Event{}, err
	}
	return out[0], nil
}

func (t *Tasks) costEvent(id, what, model string, n budget.Tokens, extra ...actionlog.Field) (actionlog.Event, error) {
	raw, err := json.Marshal(n)
	if err != nil {
		return actionlog.Event{}, fmt.Errorf("token counts: %w", err)
	}
	return actionlog.Event{Type: actionlog.TypeCost, Task: id, Cents: t.opt.Prices.Cost(model, n).Number(), What: what, Model: model, Tokens: raw, Extra: extra}, nil
}

// modelUse is what a task's model used: as the box saw it, as the worker told it, and
// what of that was booked besides. Kinds of tokens are kept apart and models are not:
// a worker tells of several under one name.
type modelUse struct{ Metered, Told, Booked budget.Tokens }

// unseen is what of a new report the box has not booked yet.
func (u *modelUse) unseen(told budget.Tokens) budget.Tokens {
	return u.Told.Add(told).Sub(u.Metered).Sub(u.Booked).Least(budget.Tokens{})
}

// apply folds the counts of a cost event in.
func (u *modelUse) apply(ev *actionlog.Event) {
	var n, told budget.Tokens
	if json.Unmarshal(ev.Tokens, &n) != nil {
		return
	}
	if extra(ev, fieldMetered) != nil {
		u.Metered = u.Metered.Add(n)
		return
	}
	if raw := extra(ev, fieldTold); raw == nil || json.Unmarshal(raw, &told) != nil {
		told = n
	}
	u.Told, u.Booked = u.Told.Add(told), u.Booked.Add(n)
}

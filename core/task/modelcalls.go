package task

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"

	"gurtos/core/budget"
	"gurtos/netpolicy"
	"gurtos/netpolicy/meter"
)

// modelCalls are the model calls of a run that are out, and not booked yet.
type modelCalls struct {
	mu   sync.Mutex
	out  map[*modelCall]budget.Cents // what each may still cost
	less chan struct{}               // closed when that became less; nil when nobody waits for it
}

// modelCall is one of them.
type modelCall struct {
	wire modelWire
	name string // in the log, and of the file that keeps it over a crash
	kept bool   // that file is there
	used bool   // it was not free
	lost bool   // and that is not in the log
}

var _ netpolicy.Call = (*modelCall)(nil)

// begin holds a model call until the budget has room for it beside those that are out,
// and agents may work.
func (m modelWire) begin(ctx context.Context, most meter.Usage) (netpolicy.Call, error) {
	c := &modelCall{wire: m, name: m.id + "." + rand.Text()}
	err := m.calls.begin(ctx, c, m.price(most), m.permitted, func() (booked, bound budget.Cents, err error) { return m.q.modelCost(m.id) })
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (m modelWire) price(most meter.Usage) budget.Cents {
	return m.q.opt.Prices.AtMost(most.Model, most.Input, most.Output)
}

// Asked keeps what the call may use, for a box that ends before it is booked.
func (c *modelCall) Asked(most meter.Usage) error {
	c.wire.calls.least(c, c.wire.price(most))
	if err := c.wire.q.keepCall(c.name, c.wire.id, most); err != nil {
		c.wire.q.forgetCall(c.name, false) // it may be there all the same, and would be booked
		c.wire.q.opt.Slog.Error("a model was not asked", "task", c.wire.id, "why", err)
		return fmt.Errorf("The box can't keep what this call may cost, so the model was not asked: %w.", err) //nolint:staticcheck // a sentence that people read
	}
	c.kept = true
	return nil
}

// Used books what an answer used.
func (c *modelCall) Used(u meter.Usage) {
	q := c.wire.q
	c.used = true
	if err := q.Metered(context.Background(), c.wire.id, c.name, u); err != nil {
		c.lost = true // the next start tries again
		q.opt.Slog.Error("what a model cost was not booked", "task", c.wire.id, "model", u.Model, "why", err)
	}
}

// Over lets the next call go.
func (c *modelCall) Over() {
	if c.kept && !c.lost {
		c.wire.q.forgetCall(c.name, c.used)
	}
	c.wire.calls.over(c)
}

// begin waits until one more call may go out: permitted lets it, and what is booked has
// not passed its bound, nor would it by what those that are out may still cost. So calls at
// once pass the bound by no more than calls one after the other would: by the last one.
// most is what it may cost itself.
func (c *modelCalls) begin(ctx context.Context, call *modelCall, most budget.Cents, permitted func(context.Context) error, cost func() (booked, bound budget.Cents, err error)) error {
	for {
		if err := permitted(ctx); err != nil {
			return err
		}
		less, err := c.take(call, most, cost)
		if err != nil || less == nil {
			return err
		}
		select {
		case <-less:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take counts a call in, or gives what closes when it is worth another try.
func (c *modelCalls) take(call *modelCall, most budget.Cents, cost func() (booked, bound budget.Cents, err error)) (less chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum, bound, err := cost()
	if err != nil {
		return nil, err
	}
	for _, cents := range c.out {
		sum = sum.Add(cents)
	}
	if sum.Cmp(bound) > 0 {
		if len(c.out) == 0 { // it was booked since permitted, which now asks
			less = make(chan struct{})
			close(less)
			return less, nil
		}
		if c.less == nil {
			c.less = make(chan struct{})
		}
		return c.less, nil
	}
	if c.out == nil {
		c.out = map[*modelCall]budget.Cents{}
	}
	c.out[call] = most
	return nil, nil
}

// least lowers what a call that is out may still cost.
func (c *modelCalls) least(call *modelCall, most budget.Cents) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if was, ok := c.out[call]; ok && most.Cmp(was) < 0 {
		c.out[call] = most
		c.tell()
	}
}

// over counts a call out.
func (c *modelCalls) over(call *modelCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.out, call)
	c.tell()
}

// tell wakes who waits. mu is held.
func (c *modelCalls) tell() {
	if c.less != nil {
		close(c.less)
		c.less = nil
	}
}

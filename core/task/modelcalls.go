package task

import (
	"context"
	"sync"

	"gurtos/core/budget"
)

// dearCall is what one model call is taken to cost, in cents, while nobody knows: 200,000
// tokens read and 32,000 written by a model at 5 and 25 dollars a million.
const dearCall = 180

// modelCalls are the model calls of a run that are out, and not booked yet.
type modelCalls struct {
	mu   sync.Mutex
	out  int
	less chan struct{} // closed when one is over; nil when nobody waits for that
}

// begin waits until one more call may go out: permitted lets it, what is booked has not
// passed its bound, and each of those that are out may still cost dearCall within it. So
// calls at once pass the bound by no more than calls one after the other would, as far
// as none is dearer.
func (c *modelCalls) begin(ctx context.Context, permitted func(context.Context) error, cost func() (booked, bound budget.Cents, err error)) error {
	for {
		if err := permitted(ctx); err != nil {
			return err
		}
		less, err := c.take(cost)
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
func (c *modelCalls) take(cost func() (booked, bound budget.Cents, err error)) (less chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	booked, bound, err := cost()
	if err != nil {
		return nil, err
	}
	n := c.out
	if bound.Cmp(booked.Add(budget.Whole(int64(n)*dearCall))) < 0 {
		if n == 0 { // it was booked since permitted, which now asks
			less = make(chan struct{})
			close(less)
			return less, nil
		}
		if c.less == nil {
			c.less = make(chan struct{})
		}
		return c.less, nil
	}
	c.out++
	return nil, nil
}

// over counts a call out.
func (c *modelCalls) over() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out--
	if c.less != nil {
		close(c.less)
		c.less = nil
	}
}

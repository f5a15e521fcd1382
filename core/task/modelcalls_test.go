package task

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"gurtos/core/budget"
)

// TestModelCallsTakeTurns holds that many model calls at once pass a budget by no more
// than one, and that none of them is forgotten.
func TestModelCallsTakeTurns(t *testing.T) {
	for _, v := range []struct{ budget, cost, atOnce, most int64 }{
		{0, 1, 1, 1},
		{100, 10, 1, 110},
		{2 * dearCall, dearCall, 3, 3 * dearCall},
		{1000 * dearCall, 1, 64, 64},
	} {
		synctest.Test(t, func(t *testing.T) {
			var c modelCalls
			var mu sync.Mutex
			var spent, out, most int64
			no, end := context.WithCancel(t.Context())
			defer end()
			booked := func() budget.Cents {
				mu.Lock()
				defer mu.Unlock()
				return budget.Whole(spent)
			}
			permitted := func(ctx context.Context) error {
				if booked().Cmp(budget.Whole(v.budget)) > 0 {
					<-ctx.Done() // the owner says nothing
					return ctx.Err()
				}
				return nil
			}
			answered := make(chan struct{})
			var calls sync.WaitGroup
			for range 64 {
				calls.Go(func() {
					if c.begin(no, permitted, func() (budget.Cents, budget.Cents, error) { return booked(), budget.Whole(v.budget), nil }) != nil {
						return
					}
					mu.Lock()
					out++
					most = max(most, out)
					mu.Unlock()
					<-answered
					mu.Lock()
					out--
					spent += v.cost
					mu.Unlock()
					c.over()
				})
			}
			synctest.Wait()
			if most != v.atOnce {
				t.Errorf("%+v: %d at once", v, most)
			}
			close(answered)
			synctest.Wait()
			end()
			calls.Wait()
			if spent > v.most || spent < min(v.budget, 64*v.cost) {
				t.Errorf("%+v: spent %d", v, spent)
			}
		})
	}
}

package task

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"gurtos/core/budget"
)

// TestModelCallsTakeTurns holds that many model calls at once pass a budget by no more
// than one, whatever each of them costs, and that none of them is forgotten.
func TestModelCallsTakeTurns(t *testing.T) {
	const calls = 64
	all := func(n int64) (each [calls]int64) {
		for i := range each {
			each[i] = n
		}
		return each
	}
	dear := all(1)
	dear[5], dear[40] = 500, 700
	for _, v := range []struct {
		name   string
		budget int64
		may    [calls]int64 // what each is taken to cost at most
		cost   int64        // what it does, in hundredths of that
		atOnce int64
	}{
		{"no budget", 0, all(1), 100, 1},
		{"cheap ones", 100, all(10), 100, 11},
		{"dear ones", 200, all(100), 100, 3},
		{"those that turn out cheap", 200, all(100), 1, 3},
		{"dearer than the budget", 100, all(180), 100, 1},
		{"all at once", 1000, all(1), 100, calls},
		{"some are dear", 600, dear, 100, -1},
	} {
		synctest.Test(t, func(t *testing.T) {
			var c modelCalls
			var mu sync.Mutex
			var spent, out, most, dearest int64 // in hundredths of a cent, but for the counts
			no, end := context.WithCancel(t.Context())
			defer end()
			booked := func() budget.Cents {
				mu.Lock()
				defer mu.Unlock()
				c, err := budget.ParseCents(budget.Whole(spent).String() + "e-2")
				if err != nil {
					t.Error(err)
				}
				return c
			}
			permitted := func(ctx context.Context) error {
				if booked().Cmp(budget.Whole(v.budget)) > 0 {
					<-ctx.Done() // the owner says nothing
					return ctx.Err()
				}
				return nil
			}
			answered := make(chan struct{})
			var wait sync.WaitGroup
			for i := range calls {
				wait.Go(func() {
					call := &modelCall{}
					if c.begin(no, call, budget.Whole(v.may[i]), permitted, func() (budget.Cents, budget.Cents, error) { return booked(), budget.Whole(v.budget), nil }) != nil {
						return
					}
					mu.Lock()
					out++
					most = max(most, out)
					mu.Unlock()
					<-answered
					mu.Lock()
					out--
					spent += v.may[i] * v.cost
					dearest = max(dearest, v.may[i]*v.cost)
					mu.Unlock()
					c.over(call)
				})
			}
			synctest.Wait()
			if most != v.atOnce && v.atOnce >= 0 {
				t.Errorf("%s: %d at once", v.name, most)
			}
			close(answered)
			synctest.Wait()
			end()
			wait.Wait()
			whole := int64(0)
			for _, m := range v.may {
				whole += m * v.cost
			}
			if spent > v.budget*100+dearest || spent < min(whole, v.budget*100) {
				t.Errorf("%s: spent %d hundredths of a cent of %d, and no call cost above %d", v.name, spent, v.budget*100, dearest)
			}
		})
	}
}

// A call that turns out to bound less than was known makes room for others.
func TestModelCallThatBoundsLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c modelCalls
		free := func(context.Context) error { return nil }
		cost := func() (budget.Cents, budget.Cents, error) { return budget.Cents{}, budget.Whole(100), nil }
		first, second := &modelCall{}, &modelCall{}
		if err := c.begin(t.Context(), first, budget.Whole(1890), free, cost); err != nil {
			t.Fatal(err)
		}
		begun := make(chan error, 1)
		go func() { begun <- c.begin(t.Context(), second, budget.Whole(10), free, cost) }()
		synctest.Wait()
		c.least(first, budget.Whole(101))
		c.least(first, budget.Whole(2000)) // it never rises
		synctest.Wait()
		select {
		case err := <-begun:
			t.Fatalf("begun beside one that may cost 101 of 100 cents: %v", err)
		default:
		}
		c.least(first, budget.Whole(rand.Int64N(100)))
		if err := <-begun; err != nil {
			t.Fatal(err)
		}
	})
}

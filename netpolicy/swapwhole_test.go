package netpolicy

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"gurtos/netpolicy/meter"
)

// TestSwapWhole holds that only a header which is the placeholder alone gets the key, and
// that a program can't have the owner told that a good key is bad.
func TestSwapWhole(t *testing.T) {
	for name, bearer := range map[string]string{"X-Api-Key": "", "Authorization": "Bearer "} {
		t.Run(name, func(t *testing.T) {
			var rejected atomic.Int64
			x := newSwapping(t, func(sw *Swap) {
				sw.Header = name
				sw.Rejected = func() { rejected.Add(1) }
			})
			x.api.Instead = func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get(name) != bearer+trueKey || len(r.Header.Values(name)) != 1 {
					w.WriteHeader(http.StatusUnauthorized)
				}
			}
			c := x.client(x.ca.PEM(), false)
			for _, v := range []struct {
				header []string
				status int
			}{
				{[]string{name, bearer + placeholder}, 200},
				{[]string{name, bearer + "x" + placeholder}, 403},
				{[]string{name, bearer + placeholder + "x"}, 403},
				{[]string{name, bearer + placeholder + ", a"}, 403},
				{[]string{name, "Basic " + placeholder}, 403},
				{[]string{name, bearer + placeholder, name, "mine"}, 403},
				{[]string{name, bearer + placeholder, name, bearer + placeholder}, 403},
				{[]string{name, bearer + placeholder, "Connection", name}, 403},
				{[]string{name, bearer + placeholder, "Connection", "close, " + name + " "}, 403},
				{[]string{name, "mine"}, 401},
			} {
				res, err := c.Do(post(t, "https://model.example.com/v1/messages", "{}", v.header...))
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(res.Body) //nolint:errcheck // the status counts
				res.Body.Close()
				if res.StatusCode != v.status {
					t.Errorf("%q: status %d, %s", v.header, res.StatusCode, body)
				}
			}
			if n := rejected.Load(); n > 0 {
				t.Errorf("%s: the owner was told %d times that the key is bad", name, n)
			}
		})
	}
}

// TestSwapHolds holds that nothing of a request's body is read while it waits for its
// leave, and that more bodies than are held at once all come through.
func TestSwapHolds(t *testing.T) {
	leave := make(chan struct{})
	var asked atomic.Int64
	x := newSwapping(t, func(sw *Swap) {
		sw.Begin = billing(func(meter.Usage) {}, nil)
		sw.Allow = func(ctx context.Context) error {
			asked.Add(1)
			select {
			case <-leave:
			case <-ctx.Done():
			}
			return ctx.Err()
		}
	})
	x.api.Instead = func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) } //nolint:errcheck // the client tells
	c := x.client(x.ca.PEM(), true)
	const calls = 3 * maxHolding
	status := make(chan int, calls)
	for range calls {
		go func() {
			res, err := c.Do(post(t, "https://model.example.com/v1/messages", ask(false, false, ""), "X-Api-Key", placeholder))
			if err != nil {
				status <- 0
				return
			}
			io.Copy(io.Discard, res.Body) //nolint:errcheck // the status counts
			res.Body.Close()
			status <- res.StatusCode
		}()
	}
	if !eventually(func() bool { return asked.Load() == calls }) {
		t.Error("not all of them were asked about")
	}
	if n := len(x.s.holding); n != 0 {
		t.Errorf("%d bodies are held while they wait", n)
	}
	close(leave)
	for range calls {
		if s := <-status; s != http.StatusOK {
			t.Errorf("status %d", s)
		}
	}
	if !eventually(func() bool { return len(x.s.holding) == 0 }) {
		t.Error("a place is held for ever")
	}
}

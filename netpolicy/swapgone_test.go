package netpolicy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"gurtos/netpolicy/meter"
)

// TestSwapGone holds that what an answer in one piece used is told although its program
// goes away before its end, or before its beginning; and that a call whose space ends
// does not go on.
func TestSwapGone(t *testing.T) {
	x := newSwapping(t, func(sw *Swap) {
		sw.Key = func() (string, func(io.Writer) io.WriteCloser, error) {
			return trueKey, func(w io.Writer) io.WriteCloser { return passing{w} }, nil
		}
	})
	came := make(chan struct{})
	stay := make(chan struct{})
	early := true
	x.api.Instead = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if !early {
			fmt.Fprint(w, `{"type":"message",`+strings.Repeat(" ", 1<<20)) //nolint:errcheck // the test tells
			w.(http.Flusher).Flush()
		}
		came <- struct{}{}
		select {
		case <-stay:
		case <-r.Context().Done():
			came <- struct{}{}
			return
		}
		if early {
			fmt.Fprint(w, `{"type":"message",`) //nolint:errcheck // the test tells
		}
		fmt.Fprint(w, strings.Repeat(" ", 1<<20)+`"model":"claude-test","usage":{"input_tokens":25,"output_tokens":12}}`) //nolint:errcheck // the test tells
	}
	for _, h2 := range []bool{false, true} {
		for _, early = range []bool{true, false} {
			c, gone := x.client(x.ca.PEM(), h2), make(chan struct{})
			r, cancel := cancelled(post(t, "https://model.example.com/v1/messages", ask(false, false, ""), "X-Api-Key", placeholder))
			go func() {
				defer close(gone)
				if res, err := c.Do(r); err == nil {
					res.Body.Close()
				}
			}()
			waitFor(t, "the call to come", came)
			cancel()
			waitFor(t, "the program to go", gone)
			select {
			case stay <- struct{}{}:
			case <-came:
				t.Errorf("h2 %v, early %v: it ended with its program", h2, early)
				continue
			case <-time.After(time.Minute):
				t.Fatalf("h2 %v, early %v: it neither goes on nor ends", h2, early)
			}
			select {
			case u := <-x.used:
				if want := (meter.Usage{Model: "claude-test", Input: 25, Output: 12}); u != want {
					t.Errorf("h2 %v, early %v: told %+v", h2, early, u)
				}
			case <-time.After(time.Minute):
				t.Errorf("h2 %v, early %v: nothing was told", h2, early)
			}
		}
	}
	c := x.client(x.ca.PEM(), true)
	go func() {
		if res, err := c.Do(post(t, "https://model.example.com/v1/messages", ask(false, false, ""), "X-Api-Key", placeholder)); err == nil {
			res.Body.Close()
		}
	}()
	waitFor(t, "the last call to come", came)
	closed := make(chan error, 1)
	go func() { closed <- x.s.Close() }()
	waitFor(t, "its own context to end", came)
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// waitFor waits for something to be said, or closed.
func waitFor(t *testing.T, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(time.Minute):
		t.Fatal("waited a minute for ", what)
	}
}

// cancelled is a request that the test can end.
func cancelled(r *http.Request) (*http.Request, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	return r.WithContext(ctx), cancel
}

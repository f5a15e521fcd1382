package app

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// A call doesn't wait for an app that is slow to take it; what it is sent stays whole and
// one message after the other, however much the socket holds at a time.
func TestSlowToTake(t *testing.T) {
	inside, conn, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(conn, func(context.Context, string, json.RawMessage) (any, error) { return nil, nil })
	read := make(chan error, 1)
	go func() { read <- w.read() }()
	texts := []string{"small", strings.Repeat("x", 3<<20), "after it", strings.Repeat("y", 1<<20), "last"}
	var calls []pending
	for _, text := range texts {
		p, err := w.begin("take", text) // the app reads nothing yet
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, p)
	}
	if calls[0].unsent != nil || calls[1].unsent == nil {
		t.Error("what the socket holds goes at once, and what it doesn't goes beside")
	}
	seen := map[int64]string{}
	in := bufio.NewReader(inside)
	for range texts {
		line, err := in.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		var m struct {
			JSONRPC, Method, Params string
			ID                      int64
		}
		if err := json.Unmarshal(line, &m); err != nil || m.JSONRPC != "2.0" || m.Method != "take" {
			t.Fatalf("%.60s: %v", line, err)
		}
		seen[m.ID] = m.Params
	}
	for i, p := range calls {
		if seen[p.id] != texts[i] {
			t.Errorf("call %d came as %.20q of %d letters", i, seen[p.id], len(seen[p.id]))
		}
	}
	// An end of the app ends each call that is open, and one that it never took says so.
	stuck, err := w.begin("take", strings.Repeat("z", 3<<20))
	if err != nil {
		t.Fatal(err)
	}
	inside.Close()
	var never unsent
	if err := <-stuck.unsent; !errors.As(err, &never) {
		t.Errorf("a call that was never taken: %v", err)
	}
	if err := <-read; err != nil {
		t.Error(err)
	}
	w.close(errGone)
	for i, p := range calls {
		if _, ok := <-p.answer; ok {
			t.Errorf("call %d has an answer", i)
		}
	}
	if _, err := w.begin("take", 1); !errors.As(err, &never) {
		t.Errorf("after the end: %v", err)
	}
}

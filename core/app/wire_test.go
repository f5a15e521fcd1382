package app

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// What an app asks at once is bounded in bytes too: it can't fill the box's memory with
// calls that wait. What waits is answered all the same.
func TestAskedAtOnce(t *testing.T) {
	inside, conn, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	begun, goOn := make(chan struct{}, maxCalls), make(chan struct{})
	w := newWire(conn, func(ctx context.Context, _ string, p json.RawMessage) (any, error) {
		begun <- struct{}{}
		select {
		case <-goOn:
		case <-ctx.Done():
		}
		return len(p), nil
	})
	read := make(chan error, 1)
	go func() { read <- w.read() }()
	answers := bufio.NewReader(inside)
	next := func() message {
		t.Helper()
		line, err := answers.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	const each = 10 << 20
	ask := func(id int) {
		t.Helper()
		if _, err := fmt.Fprintf(inside, `{"jsonrpc":"2.0","id":%d,"method":"x","params":"%s"}`+"\n", id, strings.Repeat("x", each)); err != nil {
			t.Fatal(err)
		}
	}
	fit := maxAsked / each
	for id := range fit {
		ask(id)
		<-begun
	}
	ask(fit)
	if m := next(); *m.ID != int64(fit) || m.Error == nil || !strings.Contains(m.Error.Message, "MB in calls at once") {
		t.Fatalf("a call above the limit: %+v", m)
	}
	close(goOn)
	for range fit {
		if m := next(); m.Error != nil || string(m.Result) != fmt.Sprint(each+2) {
			t.Errorf("a call that waited: %s %+v", m.Result, m.Error)
		}
	}
	ask(fit + 1)
	if m := next(); m.Error != nil {
		t.Errorf("a call when the others are over: %+v", m.Error)
	}
	w.close(errGone)
	if err := <-read; err != nil {
		t.Error(err)
	}
}

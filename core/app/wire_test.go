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

// Of what may be large, few are answered at once, and one that the app doesn't take
// counts still. The others go on.
func TestLargeAnswers(t *testing.T) {
	inside, conn, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	begun, goOn := make(chan string, maxCalls), make(chan struct{})
	w := newWire(conn, func(ctx context.Context, method string, _ json.RawMessage) (any, error) {
		begun <- method
		if method != "note" {
			<-goOn
		}
		return nil, nil
	})
	read := make(chan error, 1)
	go func() { read <- w.read() }()
	for id := range maxLarge + 3 {
		if _, err := fmt.Fprintf(inside, `{"jsonrpc":"2.0","id":%d,"method":"%s"}`+"\n", id, largeMethods[id%len(largeMethods)]); err != nil {
			t.Fatal(err)
		}
	}
	for range maxLarge {
		<-begun
	}
	if _, err := fmt.Fprint(inside, `{"jsonrpc":"2.0","id":99,"method":"note"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if m := <-begun; m != "note" || len(begun) != 0 {
		t.Errorf("%s began, and %d more", m, len(begun))
	}
	answers := bufio.NewReader(inside)
	for n := range maxLarge + 4 {
		if _, err := answers.ReadBytes('\n'); err != nil {
			t.Fatal(err)
		}
		if n == 0 { // that of the note
			close(goOn)
		}
	}
	w.close(errGone)
	if err := <-read; err != nil {
		t.Error(err)
	}
}

// A call that comes once the wire is closed is dropped: who closed it waits for those
// that were there.
func TestAskedOnceClosed(t *testing.T) {
	inside, conn, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	w := newWire(conn, func(context.Context, string, json.RawMessage) (any, error) {
		t.Error("a call was answered")
		return nil, nil
	})
	w.close(errGone)
	id := int64(1)
	if err := w.asked(message{ID: &id, Method: "x", Params: []byte(`1`)}); err != nil || len(w.slots) != 0 || w.asks.Load() != 0 {
		t.Errorf("%v, %d slots and %d bytes are taken", err, len(w.slots), w.asks.Load())
	}
	w.calls.Wait()
}

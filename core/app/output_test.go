package app

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// hides is a vault with one value.
type hides struct{ value string }

func (h hides) Get(string) (string, bool)                      { return h.value, true }
func (h hides) Redact(s string) string                         { return strings.ReplaceAll(s, h.value, "[KEY]") }
func (h hides) RedactJSON(raw json.RawMessage) json.RawMessage { return raw }

func printing() (*Registry, *ring) {
	o := &ring{}
	r := &Registry{opt: Options{Vault: hides{"sesame-open"}}, apps: map[string]*app{"loud": {printed: o}}}
	r.ctx = context.Background()
	return r, o
}

func TestPrinted(t *testing.T) {
	r, o := printing()
	var got strings.Builder
	take := func(b []byte) error { got.Write(b); return nil }
	for _, text := range []string{"one\ntw", "o\nsesame-", "open\nhalf"} {
		o.Write([]byte(text)) //nolint:errcheck // never fails
	}
	if err := r.Printed(t.Context(), "loud", false, take); err != nil || got.String() != "one\ntwo\n[KEY]\nhalf" {
		t.Errorf("%q, %v", got.String(), err)
	}
	got.Reset()
	if err := r.Printed(t.Context(), "quiet", false, take); err != nil || got.String() != "" {
		t.Errorf("%q, %v", got.String(), err)
	}
}

// What comes is handed out line by line: a value that comes in two pieces is found.
func TestPrintedAsItComes(t *testing.T) {
	r, o := printing()
	lines, ended := make(chan string, 100), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		ended <- r.Printed(ctx, "loud", true, func(b []byte) error { lines <- string(b); return nil })
	}()
	say := func(s string) { o.Write([]byte(s)) } //nolint:errcheck // never fails
	say("first\nsesame-")
	if got := <-lines; got != "first\n" {
		t.Errorf("%q", got)
	}
	say("open\n")
	if got := <-lines; got != "[KEY]\n" {
		t.Errorf("%q", got)
	}
	say(strings.Repeat("x", maxLine+1))
	if got := <-lines; len(got) != maxLine+1 {
		t.Errorf("a line without an end: %d bytes", len(got))
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	broke := errors.New("nobody reads")
	if err := r.Printed(t.Context(), "loud", true, func([]byte) error { return broke }); !errors.Is(err, broke) {
		t.Error(err)
	}
}

// More than is kept: the last of it is handed out, and nothing twice.
func TestPrintedTooMuch(t *testing.T) {
	r, o := printing()
	for range 100 {
		o.Write([]byte(strings.Repeat("a", 9_999) + "\n")) //nolint:errcheck // never fails
	}
	var got strings.Builder
	if err := r.Printed(t.Context(), "loud", false, func(b []byte) error { got.Write(b); return nil }); err != nil || got.Len() != maxPrinted {
		t.Errorf("%d bytes, %v", got.Len(), err)
	}
	_, next, _ := o.since(0)
	if next != 1_000_000 {
		t.Error(next)
	}
	if text, _, _ := o.since(next); len(text) != 0 {
		t.Errorf("%d bytes twice", len(text))
	}
	if text, _, _ := o.since(next - 10); string(text) != "aaaaaaaaa\n" {
		t.Errorf("%q", text)
	}
}

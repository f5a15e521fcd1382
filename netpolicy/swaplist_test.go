package netpolicy

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gurtos/netpolicy/meter"
)

// TestSwapLists holds which requests are passed on, which are answered by the box, and
// which are refused; and that a model's alone are asked about and metered.
func TestSwapLists(t *testing.T) {
	var asked atomic.Int64
	x := newSwapping(t, func(sw *Swap) {
		sw.Requests = []string{"POST /v1/messages", "POST /v1/other", "GET /v1/below/"}
		sw.Empty = []string{"POST /v1/quiet", "GET /v1/silent/"}
		sw.Models = []string{"POST /v1/messages"}
		sw.Allow = func(context.Context) error { asked.Add(1); return nil }
	})
	c := x.client(x.ca.PEM(), true)
	h1 := x.client(x.ca.PEM(), false)
	for _, v := range []struct {
		method, path  string
		status        int
		body          string // what the answer begins with
		sent, metered bool
	}{
		{"POST", "/v1/messages", 200, `{"id"`, true, true},
		{"POST", "/v1/messages?beta=true", 200, `{"id"`, true, true},
		{"POST", "/v1/other", 200, `{"id"`, true, false},
		{"PUT", "/v1/below/a/b", 403, "", false, false},
		{"POST", "/v1/quiet", 200, `{}`, false, false},
		{"GET", "/v1/silent/", 200, `{}`, false, false},
		{"GET", "/v1/silent/a?b=c", 200, `{}`, false, false},
		{"GET", "/v1/silent", 403, "", false, false},
		{"GET", "/v1/silent/../messages", 403, "", false, false},
		{"GET", "/v1/messages", 403, "", false, false},
		{"POST", "/v1/messages/", 403, "", false, false},
		{"POST", "/v1//messages", 403, "", false, false},
		{"POST", "//v1/messages", 403, "", false, false},
		{"POST", "/v1/below/../messages", 403, "", false, false},
		{"POST", "/v1/./messages", 403, "", false, false},
		{"POST", "/v1/messages;x", 403, "", false, false},
		{"POST", "/v1/%6dessages", 403, "", false, false},
		{"POST", "/v1%2fmessages", 403, "", false, false},
		{"GET", "/v1/below/%2e%2e/%2e%2e/v2", 403, "", false, false},
		{"GET", `/v1/below/..\..\v2`, 403, "", false, false},
		{"POST", "/v1/Messages", 403, "", false, false},
		{"post", "/v1/messages", 403, "", false, false},
		{"POST", "/", 403, "", false, false},
		{"POST", "/v2/fetch", 403, "", false, false},
	} {
		for _, cl := range []*http.Client{c, h1} {
			x.program.t = t
			before, was := len(x.api.Keys()), asked.Load()
			r := post(t, "https://model.example.com"+v.path, ask(false, false, ""), "X-Api-Key", placeholder, "X-Original-URL", "/v2/fetch")
			r.Method = v.method
			if strings.Contains(v.path, "..") || strings.Contains(v.path, "/./") {
				r.URL.Opaque = "//model.example.com" + v.path // as it stands
			}
			res, err := cl.Do(r)
			if err != nil {
				t.Errorf("%s %s: %v", v.method, v.path, err)
				continue
			}
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || res.StatusCode != v.status || !bytes.HasPrefix(body, []byte(v.body)) {
				t.Errorf("%s %s: %d, %q, %v", v.method, v.path, res.StatusCode, body, err)
			}
			if sent := len(x.api.Keys()) > before; sent != v.sent {
				t.Errorf("%s %s: sent %v", v.method, v.path, sent)
			}
			if got := asked.Load() > was; got != v.metered {
				t.Errorf("%s %s: asked for %v", v.method, v.path, got)
			}
			if !v.metered {
				continue
			}
			select {
			case <-x.used:
			case <-time.After(time.Minute):
				t.Errorf("%s %s: not metered", v.method, v.path)
			}
		}
	}
	if n := len(x.used); n > 0 {
		t.Errorf("metered %d more", n)
	}
}

// TestSwapAllow holds that a model is asked only once the box allows it, with the key
// as it is then, and what a program reads that is not allowed.
func TestSwapAllow(t *testing.T) {
	type question struct {
		ctx    context.Context
		answer chan error
	}
	asked := make(chan question)
	x := newSwapping(t, func(sw *Swap) {
		sw.Allow = func(ctx context.Context) error {
			q := question{ctx, make(chan error)}
			asked <- q
			return <-q.answer
		}
	})
	c := x.client(x.ca.PEM(), true)
	c.Timeout = 0
	type answer struct {
		status int
		body   string
	}
	do := func(ctx context.Context, say ...string) chan answer {
		ch := make(chan answer, 1)
		r := post(t, "https://model.example.com/v1/messages", ask(false, false, "", say...), "X-Api-Key", placeholder).WithContext(ctx)
		go func() {
			res, err := c.Do(r)
			if err != nil {
				ch <- answer{0, err.Error()}
				return
			}
			defer res.Body.Close()
			body, _ := io.ReadAll(res.Body) //nolint:errcheck // the text counts
			ch <- answer{res.StatusCode, string(body)}
		}()
		return ch
	}
	wait := func(got chan answer) question {
		select {
		case q := <-asked:
			return q
		case a := <-got:
			t.Fatalf("answered before anyone was asked: %+v", a)
			return question{}
		}
	}
	got := do(t.Context(), "a-later-key")
	q := wait(got)
	if k := x.api.Keys(); len(k) > 0 {
		t.Errorf("the model was asked before: %q", k)
	}
	x.setKey("a-later-key")
	x.api.Key = "a-later-key"
	q.answer <- nil
	if a := <-got; a.status != 200 || strings.Contains(a.body, "a-later-key") {
		t.Errorf("allowed: %+v", a)
	}
	got = do(t.Context())
	wait(got).answer <- errors.New("The owner said no.") //nolint:staticcheck // a sentence
	if a := <-got; a.status != http.StatusPaymentRequired || a.body != `{"error":{"message":"The owner said no.","type":"billing_error"},"type":"error"}`+"\n" {
		t.Errorf("not allowed: %+v", a)
	}
	// Who waits and goes away is no longer waited for.
	ctx, cancel := context.WithCancel(t.Context())
	got = do(ctx)
	q = wait(got)
	cancel()
	<-got
	select {
	case <-q.ctx.Done():
	case <-time.After(time.Minute):
		t.Error("the question outlives who asks it")
	}
	q.answer <- q.ctx.Err()
	if k := x.api.Keys(); len(k) != 1 {
		t.Errorf("the model was asked %d times", len(k))
	}
}

// passing holds nothing back.
type passing struct{ io.Writer }

func (passing) Close() error { return nil }

// TestSwapMetersFirst holds that what an answer used is told before the program can
// read that it is over, though its last bytes never come.
func TestSwapMetersFirst(t *testing.T) {
	told := make(chan meter.Usage, 1)
	release := make(chan struct{})
	defer close(release)
	x := newSwapping(t, func(sw *Swap) {
		sw.Begin = billing(func(u meter.Usage) { <-release; told <- u }, nil)
		sw.Key = func() (string, func(io.Writer) io.WriteCloser, error) {
			return trueKey, func(w io.Writer) io.WriteCloser { return passing{w} }, nil
		}
	})
	stay := make(chan struct{})
	defer close(stay)
	x.api.After = func() { <-stay } // the stream has said its last word and is not closed
	res, err := x.client(x.ca.PEM(), true).Do(post(t, "https://model.example.com/v1/messages", ask(true, false, "", "hello"), "X-Api-Key", placeholder))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	seen := make(chan string, 1)
	go func() {
		var all []byte
		b := make([]byte, 4096)
		for !bytes.Contains(all, []byte("message_stop")) {
			n, err := res.Body.Read(b)
			if all = append(all, b[:n]...); err != nil {
				seen <- fmt.Sprintf("%q, %v", all, err)
				return
			}
		}
		seen <- ""
	}()
	select {
	case s := <-seen:
		t.Fatalf("the end was read first: %s", s)
	case release <- struct{}{}:
	}
	if u := <-told; u.Output != 12 {
		t.Errorf("told %+v", u)
	}
	if s := <-seen; s != "" {
		t.Error(s)
	}
}

// TestSwapKeyChanges holds that an answer is cleaned of the key that went out with its
// request, though the vault has another one by the time that it comes.
func TestSwapKeyChanges(t *testing.T) {
	x := newSwapping(t)
	came, stay := make(chan struct{}), make(chan struct{})
	x.api.Before = func() { close(came); <-stay }
	got := make(chan string)
	go func() {
		res, err := x.client(x.ca.PEM(), true).Do(post(t, "https://model.example.com/v1/messages", ask(true, false, "", "the key is ", trueKey), "X-Api-Key", placeholder))
		if err != nil {
			got <- err.Error()
			return
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		got <- fmt.Sprint(string(body), err)
	}()
	<-came
	x.setKey("another-key-that-came-meanwhile")
	close(stay)
	if s := <-got; strings.Contains(s, "api03") || !strings.Contains(s, "the key is ") {
		t.Errorf("read %q", s)
	}
}

// TestSwapPacked holds that an answer which is packed, though nobody asked for that, is
// unpacked and cleaned or refused, and never passed on as it is.
func TestSwapPacked(t *testing.T) {
	x := newSwapping(t)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	fmt.Fprint(z, "the key is "+trueKey) //nolint:errcheck // a buffer
	z.Close()
	for enc, want := range map[string]string{"gzip": "the key is [KEY]", "br": "packed", "x-gzip": "packed", "gzip, gzip": "packed", "deflate": "packed"} {
		x.api.Instead = func(w http.ResponseWriter, r *http.Request) {
			if a := r.Header.Get("Accept-Encoding"); a != "identity" {
				t.Errorf("asked for %q", a)
			}
			w.Header().Set("Content-Encoding", enc)
			w.Write(packed.Bytes()) //nolint:errcheck // the client tells
		}
		r := post(t, "https://model.example.com/v1/messages", ask(false, false, ""), "X-Api-Key", placeholder, "Accept-Encoding", enc)
		res, err := x.client(x.ca.PEM(), true).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || !strings.Contains(string(body), want) || res.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: %q, %v, %v", enc, body, res.Header, err)
		}
	}
}

// TestMore holds that hosts which the program itself needs are let through beside fifty
// others and stay when those change, and that none of them leads into a private network.
func TestMore(t *testing.T) {
	i := outside(t)
	i.name("model.example.com", webAddr)
	i.name("lan.example.com", lanAddr)
	var hosts []string
	for n := range 50 {
		hosts = append(hosts, fmt.Sprintf("h%d.example.org", n))
	}
	s := attached(t, Policy{Hosts: hosts, More: []string{"model.example.com:80", "lan.example.com:80"}})
	p := program{t, s}
	for _, change := range []bool{false, true} {
		if change {
			if err := s.SetHosts(nil); err != nil {
				t.Fatal(err)
			}
		}
		c, err := p.connect("model.example.com", 80, false)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		if _, err := p.connect("model.example.com", 443, false); err == nil {
			t.Error("another port is reached")
		}
		if _, err := p.connect("lan.example.com", 80, false); err == nil {
			t.Error("a private network is reached")
		}
	}
}

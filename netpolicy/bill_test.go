package netpolicy

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"gurtos/netpolicy/meter"
)

const (
	event0    = `data: {"type":"message_start","message":{"type":"message","model":"claude-test","usage":{"input_tokens":25,"output_tokens":1}}}` + "\n\n"
	thinks    = `data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}` + "\n\n"
	signs     = `data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EosnCkYICxIM"}}` + "\n\n"
	speaks    = `data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}` + "\n\n"
	eightPer2 = `data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"eight by"}}` + "\n\n"
	used9000  = `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9000}}` + "\n\n"
	lastEvent = `data: {"type":"message_stop"}` + "\n\n"
)

// TestBill holds what is booked for a request whose answer never said what it used.
func TestBill(t *testing.T) {
	const body = `{"model":"claude-test","max_tokens":5000,"messages":"0123456789"}`
	head := func(status int, kind string) *http.Response {
		return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}}
	}
	const stream, object = "text/event-stream", "application/json"
	in := int64(len(body) / 4)
	for _, c := range []struct {
		name   string
		body   string // of the request
		unsent bool
		after  time.Duration  // since it was sent, and since its answer began
		head   *http.Response // of its answer
		text   string         // of its answer
		want   meter.Usage    // without a model: nothing is booked
	}{
		{name: "no answer", body: body, after: 10 * time.Second, want: meter.Usage{Model: "claude-test", Input: in, Output: 2000, Estimate: true}},
		{name: "no answer for long", body: body, after: maxAfter, want: meter.Usage{Model: "claude-test", Input: in, Output: 5000, Estimate: true}},
		{name: "no answer for ever, without a bound", body: `{"model":"claude-test"}`, after: time.Hour, want: meter.Usage{Model: "claude-test", Input: 5, Output: meter.MostWritten, Estimate: true}},
		{name: "no answer to a book", body: `{"model":"claude-test","max_tokens":1,"messages":"` + strings.Repeat("a", 5<<20) + `"}`, want: meter.Usage{Model: "claude-test", Input: meter.MostRead, Estimate: true}},
		{name: "a clock that goes back", body: body, after: -time.Hour, want: meter.Usage{Model: "claude-test", Input: in, Estimate: true}},
		{name: "not sent", body: body, unsent: true, after: time.Minute},
		{name: "answered before it was all asked", body: body, unsent: true, after: 10 * time.Second, head: head(200, stream), text: thinks, want: meter.Usage{Model: "claude-test", Input: in, Output: 2000, Estimate: true}},
		{name: "refused before it was all asked", body: body, unsent: true, after: time.Minute, head: head(413, object)},
		{name: "refused", body: body, after: time.Minute, head: head(529, object), text: `{"type":"error","error":{"type":"overloaded_error"}}`},
		{name: "sent elsewhere", body: body, after: time.Minute, head: head(307, object)},
		{name: "failed", body: body, after: time.Minute, head: head(200, stream), text: `data: {"type":"error","error":{"type":"overloaded_error"}}` + "\n\n"},
		{name: "half an object", body: body, after: 10 * time.Second, head: head(200, object), text: `{"type":"message","model":"claude-test","usa`, want: meter.Usage{Model: "claude-test", Input: in, Output: 2000, Estimate: true}},
		{name: "no message", body: body, after: 10 * time.Second, head: head(200, "text/plain"), text: "hello", want: meter.Usage{Model: "claude-test", Input: in, Output: 2000, Estimate: true}},
		{name: "a whole stream", body: body, after: time.Minute, head: head(200, stream), text: event0 + thinks + signs + speaks + eightPer2 + used9000 + lastEvent, want: meter.Usage{Model: "claude-test", Input: 25, Output: 9000}},
		{name: "hidden thinking", body: body, after: 10 * time.Second, head: head(200, stream), text: event0 + thinks + signs + speaks + eightPer2, want: meter.Usage{Model: "claude-test", Input: 25, Output: 2000, Estimate: true}},
		{name: "hidden thinking for long", body: body, after: time.Minute, head: head(200, stream), text: event0 + thinks, want: meter.Usage{Model: "claude-test", Input: 25, Output: 5000, Estimate: true}},
		{name: "nothing yet", body: body, after: 10 * time.Second, head: head(200, stream), text: event0, want: meter.Usage{Model: "claude-test", Input: 25, Output: 2000, Estimate: true}},
		{name: "text alone", body: body, after: time.Minute, head: head(200, stream), text: event0 + speaks + strings.Repeat(eightPer2, 100), want: meter.Usage{Model: "claude-test", Input: 25, Output: 200, Estimate: true}},
		{name: "more text than was asked for", body: body, after: time.Minute, head: head(200, stream), text: event0 + speaks + strings.Repeat(eightPer2, 5000), want: meter.Usage{Model: "claude-test", Input: 25, Output: 5000, Estimate: true}},
	} {
		b, at := &bill{}, time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
		b.asked.Write([]byte(c.body)) //nolint:errcheck // it never fails
		if !c.unsent {
			b.sent = at
		}
		var u meter.Usage
		if c.head != nil {
			if m := b.answered(c.head, at); m != nil {
				m.Write([]byte(c.text)) //nolint:errcheck // it never fails
				if said, ok := m.Usage(); ok {
					u = b.whole(said, at.Add(c.after))
				}
			}
		}
		if more, ok := b.unsaid(at.Add(c.after)); ok {
			if u.Model != "" {
				t.Errorf("%s: booked twice, %+v and %+v", c.name, u, more)
			}
			u = more
		}
		if u != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, u, c.want)
		}
	}
}

// booking is a namespace whose requests are told of when they are over.
func booking(t *testing.T, more ...func(*Swap)) (*swapping, <-chan struct{}) {
	over := make(chan struct{}, 10)
	return newSwapping(t, append(more, func(sw *Swap) {
		sw.Allow = func(context.Context) error { return nil }
		begin := sw.Begin
		sw.Begin = func(ctx context.Context, most meter.Usage) (Call, error) {
			c, err := begin(ctx, most)
			return call{c.Asked, c.Used, func() { c.Over(); over <- struct{}{} }}, err
		}
		key := sw.Key
		sw.Key = func() (string, func(io.Writer) io.WriteCloser, error) {
			k, _, err := key()
			return k, func(w io.Writer) io.WriteCloser { return passing{w} }, err
		}
	})...), over
}

const messagesURL = "https://model.example.com/v1/messages"

// TestSwapReadsOn holds that a stream is booked as its end says although its program read
// no further than its first word: what was thought before that came unseen.
func TestSwapReadsOn(t *testing.T) {
	x, over := booking(t)
	came, stay, left := make(chan struct{}), make(chan struct{}), make(chan struct{}, 2)
	// More than any window lets a box send to a program that reads no more.
	long := `data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"` + strings.Repeat("a", 8<<10) + `"}}` + "\n\n"
	x.api.Instead = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, event0+thinks+signs+speaks+eightPer2) //nolint:errcheck // the test tells
		w.(http.Flusher).Flush()
		came <- struct{}{}
		select {
		case <-stay:
		case <-r.Context().Done():
		}
		for range 700 {
			fmt.Fprint(w, long) //nolint:errcheck // the test tells
		}
		fmt.Fprint(w, used9000+lastEvent) //nolint:errcheck // the test tells
		w.(http.Flusher).Flush()
		<-r.Context().Done() // a stream that is over need not be closed
		left <- struct{}{}
	}
	for _, h2 := range []bool{false, true} {
		r, cancel := cancelled(post(t, messagesURL, ask(true, false, ""), "X-Api-Key", placeholder))
		res, err := x.client(x.ca.PEM(), h2).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the call to come", came)
		for lines := bufio.NewScanner(res.Body); lines.Scan() && !strings.Contains(lines.Text(), "eight by"); {
		}
		cancel()
		res.Body.Close()
		stay <- struct{}{}
		waitFor(t, "the request to end", over)
		waitFor(t, "the service to be let go", left)
		if u, want := onlyTold(t, x), (meter.Usage{Model: "claude-test", Input: 25, Output: 9000}); u != want {
			t.Errorf("h2 %v: told %+v", h2, u)
		}
	}
}

// onlyTold is the one thing that was told of a request that is over.
func onlyTold(t *testing.T, x *swapping) (u meter.Usage) {
	t.Helper()
	if n := len(x.used); n != 1 {
		t.Errorf("told %d times", n)
	}
	select {
	case u = <-x.used:
	default:
	}
	return u
}

// TestSwapEnds holds that a call is booked, though as an estimate, whose namespace ends
// before its answer: one that was begun, and one that was not.
func TestSwapEnds(t *testing.T) {
	const most = 4321
	q := strings.Replace(ask(false, false, ""), "{", fmt.Sprintf(`{"max_tokens":%d,`, most), 1)
	for name, c := range map[string]struct {
		answer string
		input  int64
	}{
		"before its beginning":  {"", int64(len(q) / 4)},
		"while it thinks":       {event0 + thinks, 25},
		"while it says a thing": {event0 + thinks + signs + speaks + eightPer2, 25},
	} {
		t.Run(name, func(t *testing.T) {
			x, over := booking(t)
			came := make(chan struct{}, 1)
			x.api.Instead = func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body) //nolint:errcheck // the test tells
				if c.answer != "" {
					w.Header().Set("Content-Type", "text/event-stream")
					fmt.Fprint(w, c.answer) //nolint:errcheck // the test tells
					w.(http.Flusher).Flush()
				} else {
					came <- struct{}{}
				}
				<-r.Context().Done()
			}
			cl := x.client(x.ca.PEM(), true)
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				res, err := cl.Do(post(t, messagesURL, q, "X-Api-Key", placeholder))
				if err != nil {
					return
				}
				defer res.Body.Close()
				for lines := bufio.NewScanner(res.Body); lines.Scan(); {
					if lines.Text() != "" && strings.HasSuffix(c.answer, lines.Text()+"\n\n") {
						came <- struct{}{}
					}
				}
			}()
			waitFor(t, "the call to come", came)
			if err := x.s.Close(); err != nil {
				t.Error(err)
			}
			waitFor(t, "the request to end", over)
			waitFor(t, "the program to go", gone)
			u := onlyTold(t, x)
			if u.Model != "claude-test" || u.Input != c.input || u.Output < 0 || u.Output > most || !u.Estimate {
				t.Errorf("told %+v", u)
			}
		})
	}
}

// TestSwapFree holds that nothing is booked for a call that its service refused or never had.
func TestSwapFree(t *testing.T) {
	q := ask(false, false, "")
	free := func(t *testing.T, x *swapping, over <-chan struct{}, what string, body io.Reader, size int64) {
		r, cancel := cancelled(post(t, messagesURL, "", "X-Api-Key", placeholder))
		defer cancel()
		r.Body, r.ContentLength = io.NopCloser(body), size
		if c, ok := body.(*cutOff); ok {
			c.end = cancel
		}
		if res, err := x.client(x.ca.PEM(), true).Do(r); err == nil {
			io.Copy(io.Discard, res.Body) //nolint:errcheck // what is booked counts
			res.Body.Close()
		}
		waitFor(t, "the request to end", over)
		if n := len(x.used); n != 0 {
			t.Errorf("%s: booked %+v", what, <-x.used)
		}
	}
	t.Run("refused", func(t *testing.T) {
		x, over := booking(t)
		var status int
		var kind, text string
		x.api.Instead = func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) //nolint:errcheck // the client tells
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			fmt.Fprint(w, text) //nolint:errcheck // the client tells
		}
		for _, status = range []int{400, 401, 404, 429, 500, 529} {
			kind, text = "application/json", `{"type":"error","error":{"type":"api_error","message":"No."}}`
			free(t, x, over, fmt.Sprint(status), strings.NewReader(q), int64(len(q)))
			kind, text = "text/html", "<p>No.</p>"
			free(t, x, over, fmt.Sprint(status, ", not in its own words"), strings.NewReader(q), int64(len(q)))
		}
		status, kind, text = 200, "text/event-stream", `data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`+"\n\n"
		free(t, x, over, "an error as a stream", strings.NewReader(q), int64(len(q)))
		free(t, x, over, "a body that was broken off", &cutOff{left: 2 * maxWhole}, 3*maxWhole)
		free(t, x, over, "half a question", io.MultiReader(strings.NewReader(`{"model":"claude-test","system":"`+strings.Repeat("a", 2*maxWhole)), &cutOff{}), 3*maxWhole)
	})
	t.Run("never had", func(t *testing.T) {
		x, over := booking(t, func(sw *Swap) { sw.Roots = x509.NewCertPool() })
		free(t, x, over, "a service that is not who it should be", strings.NewReader(q), int64(len(q)))
	})
}

// TestBillIsOver holds that nothing is asked any more of a request that is over, though its
// body is still being read: what is kept of it then would be booked by the next start.
func TestBillIsOver(t *testing.T) {
	var told []string
	b := &bill{}
	sw := &Swap{Begin: func(context.Context, meter.Usage) (Call, error) {
		return call{asked: func(meter.Usage) error { told = append(told, "asked"); return nil }, over: func() { told = append(told, "over") }}, nil
	}}
	if err := errors.Join(b.came([]byte(`{"model":"claude-test",`), false), b.begin(t.Context(), sw), b.came(nil, false)); err != nil {
		t.Fatal(err)
	}
	b.end()
	if err := b.came([]byte(`"max_tokens":7}`), true); !errors.Is(err, errOver) {
		t.Errorf("the rest of it: %v", err)
	}
	b.end()
	if want := []string{"over"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// cutOff is a body whose program goes away in the middle.
type cutOff struct {
	left int
	end  func()
}

func (c *cutOff) Read(b []byte) (int, error) {
	if c.left == 0 {
		if c.end != nil {
			c.end()
		}
		return 0, io.ErrUnexpectedEOF
	}
	n := min(len(b), c.left)
	c.left -= n
	clear(b[:n])
	return n, nil
}

// TestSwapStalls holds that a question is booked once all of it went out, though the body
// that it came in never ends: a service that reads one JSON object works on it.
func TestSwapStalls(t *testing.T) {
	const most = 4321
	q := strings.Replace(ask(true, false, ""), "{", fmt.Sprintf(`{"max_tokens":%d,`, most), 1)
	for name, answer := range map[string]string{"unanswered": "", "answered": event0 + thinks} {
		for _, h2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, h2 %v", name, h2), func(t *testing.T) {
				x, over := booking(t)
				came := make(chan struct{}, 1)
				x.api.Instead = func(w http.ResponseWriter, r *http.Request) {
					var any json.RawMessage
					if err := json.NewDecoder(r.Body).Decode(&any); err != nil {
						t.Error(err)
					}
					w.Header().Set("Content-Type", "text/event-stream")
					if answer != "" {
						fmt.Fprint(w, answer) //nolint:errcheck // the test tells
						w.(http.Flusher).Flush()
					} else {
						came <- struct{}{}
					}
					io.Copy(io.Discard, r.Body) //nolint:errcheck // until the program is gone
					<-r.Context().Done()
				}
				end, stall := io.Pipe()
				defer stall.Close()
				r, cancel := cancelled(post(t, messagesURL, "", "X-Api-Key", placeholder))
				r.Body, r.ContentLength = io.NopCloser(io.MultiReader(strings.NewReader(q+strings.Repeat(" ", 2*maxWhole)), end)), -1
				gone := make(chan struct{})
				go func() {
					defer close(gone)
					if res, err := x.client(x.ca.PEM(), h2).Do(r); err == nil {
						for lines := bufio.NewScanner(res.Body); lines.Scan(); {
							if strings.Contains(lines.Text(), `"thinking"`) {
								came <- struct{}{}
							}
						}
						res.Body.Close()
					}
				}()
				waitFor(t, "the question to come", came)
				stall.Close()
				cancel()
				waitFor(t, "the program to go", gone)
				if err := x.s.Close(); err != nil { // else it is waited for, as long as an answer may take
					t.Error(err)
				}
				waitFor(t, "the request to end", over)
				want := int64(len(q) / 4)
				if answer != "" {
					want = 25
				}
				if u := onlyTold(t, x); u.Model != "claude-test" || u.Input != want || u.Output < 0 || u.Output > most || !u.Estimate {
					t.Errorf("told %+v, want %d read", u, want)
				}
			})
		}
	}
}

// TestSwapBegins holds that what a request may use is told before any of its question's end
// goes out, whether its body is judged whole or in pieces; and that what can't be kept is
// not asked.
func TestSwapBegins(t *testing.T) {
	begun, asked := make(chan meter.Usage, 10), make(chan meter.Usage, 10)
	var no error
	var x *swapping
	x = newSwapping(t, func(sw *Swap) {
		sw.Begin = func(_ context.Context, u meter.Usage) (Call, error) {
			begun <- u
			return call{asked: func(u meter.Usage) error { asked <- u; return no }, used: func(u meter.Usage) { x.used <- u }}, nil
		}
	})
	var got int
	x.api.Instead = func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return // half a question
		}
		if got = len(b); len(asked) != 1 {
			t.Errorf("%d bytes went out, and %d times was told what they ask", got, len(asked))
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, event0+speaks+used9000+lastEvent) //nolint:errcheck // the test tells
	}
	short := `{"model":"claude-test","max_tokens":7,"system":"a"}`
	long := `{"model":"claude-test","max_tokens":7,"system":"` + strings.Repeat("a", 2*maxWhole) + `"}`
	all := meter.Usage{Input: meter.MostRead, Output: meter.MostWritten, Estimate: true}
	for _, c := range []struct {
		name, body   string
		known        bool
		status, used int
	}{{"short", short, true, 200, 1}, {"long", long, false, 200, 1}, {"short and unkept", short, true, 502, 0}, {"long and unkept", long, false, 502, 0}} {
		if no, got = nil, 0; c.status != 200 {
			no = errors.New("The disk is full.") //nolint:staticcheck // a sentence
		}
		res, err := x.client(x.ca.PEM(), true).Do(post(t, messagesURL, c.body, "X-Api-Key", placeholder))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body) //nolint:errcheck // the status counts
		res.Body.Close()
		if res.StatusCode != c.status || no != nil && !strings.Contains(string(body), "The disk is full.") {
			t.Errorf("%s: %d, %s", c.name, res.StatusCode, body)
		}
		whole := meter.Usage{Model: "claude-test", Input: int64(len(c.body) / 4), Output: 7, Estimate: true}
		first := all
		if c.known {
			first = whole
		}
		if len(begun) != 1 || len(asked) != 1 || len(x.used) != c.used {
			t.Fatalf("%s: begun %d times, asked %d times, booked %d times", c.name, len(begun), len(asked), len(x.used))
		}
		if b, a := <-begun, <-asked; b != first || a != whole {
			t.Errorf("%s: begun with %+v, asked %+v", c.name, b, a)
		}
		if c.used > 0 {
			<-x.used
			if got != len(c.body) {
				t.Errorf("%s: %d bytes went out", c.name, got)
			}
		}
	}
}

package netpolicy

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"gurtos/netpolicy/meter"
)

// What an answer is taken to have used that nobody told of. tokensPerSecond is about twice
// what the quickest models of the service are measured at from outside (artificialanalysis.ai,
// 2025: Opus 45, Sonnet 63, Haiku 97 tokens a second); mostWritten and mostRead are the
// longest answer and the longest prompt that any of them takes.
const (
	tokensPerSecond = 200
	mostWritten     = 128_000
	mostRead        = 1_000_000
)

// bill is one request that asks a model, for what it cost. The program may go away, the
// task may end and the service may break off at any time, and what was used is to be paid
// all the same.
type bill struct {
	asked   meter.Asked // whole once sent is set
	meter   *meter.Meter
	told    bool      // what it used
	refused bool      // the service did nothing for it
	begun   time.Time // when a stream of an answer began

	mu   sync.Mutex
	sent time.Time // when the last byte of the request was; zero before
}

type billKey struct{}

// bill gives the context in which a request is passed on, and what is to be called when
// it has ended. A model's request is then told of, if it wasn't.
func (x *swapper) bill(ctx context.Context, r *http.Request) (_ context.Context, settle func()) {
	if x.sw.Metered == nil || !x.sw.asksModel(r) {
		return ctx, func() {}
	}
	b := &bill{}
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = readCloser{io.TeeReader(r.Body, &b.asked), r.Body}
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(w httptrace.WroteRequestInfo) {
		if w.Err == nil {
			b.mu.Lock()
			b.sent = time.Now()
			b.mu.Unlock()
		}
	}})
	return context.WithValue(ctx, billKey{}, b), func() {
		if u, ok := b.unsaid(time.Now()); ok {
			x.sw.Metered(u)
		}
	}
}

// billOf is the bill of a request that asks a model, or nil.
func billOf(r *http.Request) *bill {
	b, _ := r.Context().Value(billKey{}).(*bill)
	return b
}

// answered takes an answer's head.
func (b *bill) answered(r *http.Response, now time.Time) *meter.Meter {
	b.begun, b.meter, b.refused = now, meter.For(r), r.StatusCode/100 != 2
	return b.meter
}

// whole adds to what a stream said before it was broken off what it may have written
// unseen.
func (b *bill) whole(u meter.Usage, now time.Time) meter.Usage {
	b.told = true
	if !u.Estimate {
		return u
	}
	if b.meter.Hidden() {
		u.Output = max(u.Output, written(now.Sub(b.begun)))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	u.Output = min(u.Output, b.most())
	return u
}

// unsaid is what a request used of which nothing was said; ok is false when it used
// nothing, or that was told.
func (b *bill) unsaid(now time.Time) (u meter.Usage, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.told || b.refused || b.sent.IsZero() || b.meter != nil && b.meter.Failed() {
		return meter.Usage{}, false
	}
	return meter.Usage{
		Model: b.asked.Model, Input: min(meter.Tokens(b.asked.Bytes), mostRead),
		Output: min(written(now.Sub(b.sent)), b.most()), Estimate: true,
	}, true
}

// most is the longest that the answer may be. It is called with mu held.
func (b *bill) most() int64 {
	if b.sent.IsZero() || b.asked.Most == 0 {
		return mostWritten
	}
	return b.asked.Most
}

// written is how much a model is taken to write in a time.
func written(d time.Duration) int64 { return max(0, int64(d.Seconds()*tokensPerSecond)) }

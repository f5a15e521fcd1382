package netpolicy

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"gurtos/netpolicy/meter"
)

// tokensPerSecond is how much an answer is taken to have used that nobody told of, about
// twice what the quickest models of the service are measured at from outside
// (artificialanalysis.ai, 2025: Opus 45, Sonnet 63, Haiku 97 tokens a second).
const tokensPerSecond = 200

// Call is one request that asks a model, from Swap.Begin to its end.
type Call interface {
	// Asked is told what the request uses at most, once, before the last byte of its
	// question is passed on. Its error is a sentence; the request then ends.
	Asked(most meter.Usage) error
	// Used is told, once at most, what its answer used, before the program sees its end,
	// also of a broken-off one; or an estimate of what a question used that was passed on
	// and never answered.
	Used(u meter.Usage)
	// Over is told, once and last: it will use no more.
	Over()
}

// bill is one request that asks a model, for what it cost. The program may go away, the
// task may end and the service may break off at any time, and what was used is to be paid
// all the same.
//
// What counts is the question, not the body that it comes in: a service that reads one
// JSON object may work on it once it is whole, though more white space is said to follow
// and never comes. Half a question is none.
type bill struct {
	call Call // of Swap.Begin

	meter   *meter.Meter
	told    bool      // what it used
	refused bool      // the service did nothing for it
	begun   time.Time // when an answer began

	mu    sync.Mutex
	asked meter.Asked
	last  bool      // the body has come to its end
	known bool      // call.Asked was told
	over  bool      // call.Over was
	out   int64     // bytes of the body that were passed on
	sent  time.Time // when the last byte of the question was; zero before
}

// begin asks for room for what the request may cost, with what came of its body so far.
func (b *bill) begin(ctx context.Context, sw *Swap) (err error) {
	b.mu.Lock()
	most := b.asked.AtMost()
	b.mu.Unlock()
	b.call, err = sw.Begin(ctx, most)
	return err
}

// end tells that nothing more of the request is to come. What of its body is still being
// read then, where the service answered before it was all there, is passed on no further.
func (b *bill) end() {
	if b == nil {
		return
	}
	b.mu.Lock()
	over := b.over
	b.over = true
	b.mu.Unlock()
	if !over {
		b.call.Over()
	}
}

var errOver = errors.New("the request is over")

// came takes a piece of the body before it is passed on; last says that it has no more.
func (b *bill) came(p []byte, last bool) error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked.Write(p) //nolint:errcheck // it never fails
	b.last = b.last || last
	return b.tell()
}

// tell tells what is asked, once that is known. mu is held.
func (b *bill) tell() error {
	if b.known || b.call == nil || b.asked.End == 0 && !b.last {
		return nil
	}
	if b.over {
		return errOver
	}
	b.known = true
	if err := b.call.Asked(b.asked.AtMost()); err != nil {
		return &unkept{err}
	}
	return nil
}

// unkept is why the box can't take a request upon itself now, a sentence.
type unkept struct{ error }

// passed takes how many bytes of the body are passed on, and whether that was all.
func (b *bill) passed(n int, last bool) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out += int64(n)
	if b.sent.IsZero() && (last || b.asked.End > 0 && b.out >= b.asked.End) {
		b.sent = time.Now()
	}
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
		u.Output = max(u.Output, Written(now.Sub(b.begun)))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	u.Output = min(u.Output, b.most())
	return u
}

// settle tells what the request used when it has ended and nobody said.
func (b *bill) settle() {
	if u, ok := b.unsaid(time.Now()); ok {
		b.call.Used(u)
	}
}

// unsaid is what a request used of which nothing was said; ok is false when it used
// nothing, or that was told.
func (b *bill) unsaid(now time.Time) (u meter.Usage, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	began := b.sent
	if began.IsZero() {
		began = b.begun // it was answered before it was all asked
	}
	if b.told || b.refused || began.IsZero() || b.meter != nil && b.meter.Failed() {
		return meter.Usage{}, false
	}
	return meter.Usage{
		Model: b.asked.Model, Input: b.asked.Input(), Output: min(Written(now.Sub(began)), b.most()), Estimate: true,
	}, true
}

// most is the longest that the answer may be. It is called with mu held.
func (b *bill) most() int64 {
	if b.asked.Most == 0 || b.asked.End == 0 && !b.last {
		return meter.MostWritten
	}
	return b.asked.Most
}

// Written is how much a model is taken to write in a time, in tokens.
func Written(d time.Duration) int64 { return max(0, int64(d.Seconds()*tokensPerSecond)) }

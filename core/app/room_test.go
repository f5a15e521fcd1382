package app_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gurtos/core/app"
)

// What callers send has a room of its own in memory, and strangers a smaller one: who
// finds it full is told to come again, and an answer that goes on holds none of it.
func TestRoomOfBodies(t *testing.T) {
	w := newWorld(t, map[string]string{"web": track("web", `openRoutes: ['POST /wait'], routes: {
		'POST /wait': (req) => new Promise<Response>((done) => req.signal.addEventListener('abort', () => done(new Response('')))),
		'POST /now': () => new Response('now'),
		'POST /stream': () => new Response(new ReadableStream({ start(c) { c.enqueue(new Uint8Array(1)); } })),
	}`)}, func(o *app.Options) { o.RouteTime = time.Hour }) // those that wait wait for the end
	w.on("web")
	ctx, cancel := context.WithCancel(t.Context())
	var open sync.WaitGroup
	defer open.Wait()
	defer cancel()
	post := func(ctx context.Context, path, who string, size int, rec *flushed) {
		req := httptest.NewRequest("POST", "/t/web"+path, strings.NewReader(strings.Repeat("x", size))).WithContext(ctx)
		req.Header.Set("X-Box-Caller", who)
		route, _ := w.apps.Route("web", "POST", path)
		defer func() { recover() }() //nolint:errcheck // a stream that is cut off
		w.apps.Serve(rec, req, "web", route)
	}
	told := func(path, who string, size int) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		post(t.Context(), path, who, size, &flushed{ResponseRecorder: rec, on: func() {}})
		return rec
	}
	// Answers that go on: their requests, of 70 MB, are over.
	for range 7 {
		begun := make(chan struct{})
		rec := &flushed{ResponseRecorder: httptest.NewRecorder(), on: sync.OnceFunc(func() { close(begun) })}
		open.Go(func() {
			post(ctx, "/stream", "owner", 10<<20, rec)
			rec.on()
		})
		<-begun
		if rec.Code != 200 {
			t.Fatalf("a stream: %d", rec.Code)
		}
	}
	// Strangers who wait fill their room, and nobody else's.
	var refused atomic.Int32
	for range 16 {
		open.Go(func() {
			rec := httptest.NewRecorder()
			if post(ctx, "/wait", "none", 1<<20, &flushed{ResponseRecorder: rec, on: func() {}}); rec.Code == 503 {
				refused.Add(1)
			}
		})
	}
	w.until("they wait", func() bool { return w.apps.Calls("web") == 16 || refused.Load() > 0 })
	if rec := told("/wait", "none", 1); rec.Code != 503 || !strings.Contains(rec.Body.String(), "the box has too many requests at once: try again in a moment") {
		t.Errorf("one more stranger: %d %s", rec.Code, rec.Body)
	}
	if rec := told("/now", "owner", 10<<20); rec.Code != 200 {
		t.Errorf("the owner meanwhile: %d %s", rec.Code, rec.Body)
	}
	cancel()
	open.Wait()
	if refused.Load() != 0 {
		t.Errorf("%d strangers were refused", refused.Load())
	}
	if rec := told("/now", "none", 1<<20); rec.Code != 200 {
		t.Errorf("a stranger once the others went: %d %s", rec.Code, rec.Body)
	}
}

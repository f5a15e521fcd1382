package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"gurtos/core/app/declare"
)

// Limits of routes.
const (
	maxBody     = 10 << 20  // bytes of a request's body
	maxStranger = 1 << 20   // the same when the caller is none
	bodyPiece   = 256 << 10 // bytes of it in one message
	drain       = 64 << 20  // of a body that is too large, read and thrown away
	bodyRoom    = 64 << 20  // of all bodies that are in memory at once
	strangeRoom = 16 << 20  // of those of callers who are none
	maxRoutes   = 64        // requests of an app that wait for its Response at once
)

// room counts the bytes of bodies in memory, so that many callers can't take it all.
type room struct {
	mu   sync.Mutex
	used int64 // by all
	none int64 // by callers who are none
}

// take books n more bytes of a caller's, unless they are too many; free gives all back
// that it took.
func (r *room) take(stranger bool, n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n > 0 && (r.used+n > bodyRoom || stranger && r.none+n > strangeRoom) {
		return false
	}
	r.used += n
	if stranger {
		r.none += n
	}
	return true
}

// body is a request's, until the app has read it.
type body struct {
	mu   sync.Mutex
	left []byte
}

func (h *host) nextPiece(_ context.Context, p struct{ Call int64 }) (any, error) {
	h.mu.Lock()
	c := h.calls[p.Call]
	h.mu.Unlock()
	if c == nil || c.body == nil {
		return nil, errors.New("the request is over")
	}
	c.body.mu.Lock()
	defer c.body.mu.Unlock()
	n := min(len(c.body.left), bodyPiece)
	piece := c.body.left[:n]
	c.body.left = c.body.left[n:]
	return map[string]any{"data": piece, "done": len(c.body.left) == 0}, nil
}

func (r *Registry) route(name, method, path string) (Route, bool) {
	a := r.on(name)
	if a == nil {
		return Route{}, false
	}
	r.mu.Lock()
	m := a.build.made
	r.mu.Unlock()
	key := method + " " + path
	if !slices.Contains(m.Routes, key) {
		return Route{}, false
	}
	return Route{Key: key, Open: slices.Contains(m.Open, key), OwnOrigin: slices.Contains(m.OwnOrigin, key)}, true
}

// head is what an app says before its Response's body.
type head struct {
	Status  int         `json:"status"`
	Headers [][2]string `json:"headers"`
	Body    []byte      `json:"body"`
	More    bool        `json:"more"` // the body comes piece by piece
}

// hopByHop are headers that speak of one connection and not of the request or answer.
var hopByHop = []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Date"}

func (r *Registry) serve(w http.ResponseWriter, req *http.Request, name string, route Route) {
	a := r.on(name)
	if a == nil {
		refuse(w, http.StatusNotFound, fmt.Sprintf("there is no app %s that is on", declare.Clip(name)))
		return
	}
	sent, free, err := r.room.read(req)
	if err != nil {
		var too *Refusal
		if errors.As(err, &too) {
			refuse(w, too.Status, too.Sentence)
		}
		return
	}
	free = sync.OnceFunc(free)
	defer free()
	if err := a.soon(); err != nil {
		refuse(w, http.StatusServiceUnavailable, a.says(err))
		return
	}
	h, err := a.ready(req.Context())
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, a.says(err))
		return
	}
	if err := h.enter(req.Context()); err != nil {
		return
	}
	answered := sync.OnceFunc(h.leave)
	defer answered()
	c := &call{what: "the route " + route.Key, limit: r.opt.RouteTime, body: &body{left: sent}}
	params := map[string]any{"key": route.Key, "method": req.Method, "url": address(req), "headers": headers(req), "body": len(sent) > 0 && req.Method != "GET" && req.Method != "HEAD"}
	var out head
	if err := h.run(req.Context(), c, "route", params, &out); err != nil {
		if req.Context().Err() == nil {
			a.threw(c, err)
			refuse(w, http.StatusInternalServerError, a.says(err))
		}
		return
	}
	answered()
	c.body.mu.Lock()
	c.body.left = nil // the request is over for the app: a long answer holds no room
	c.body.mu.Unlock()
	free()
	if out.Status < 200 || out.Status > 599 {
		refuse(w, http.StatusInternalServerError, fmt.Sprintf("%s: the route %s gave the status %d", name, route.Key, out.Status))
		h.abort(c, errors.New("the status is none"))
		return
	}
	for _, pair := range out.Headers {
		if key := http.CanonicalHeaderKey(pair[0]); !slices.Contains(hopByHop, key) && validHeader(pair[0], pair[1]) {
			w.Header().Add(key, pair[1])
		}
	}
	w.WriteHeader(out.Status)
	if len(out.Body) > 0 {
		if _, err := w.Write(out.Body); err != nil {
			h.abort(c, errors.New("the caller went away"))
			return
		}
	}
	if out.More {
		h.stream(w, req, c)
	}
}

// stream passes the rest of a Response's body on, as the caller takes it.
func (h *host) stream(w http.ResponseWriter, req *http.Request, c *call) {
	flush := http.NewResponseController(w).Flush
	for {
		flush() //nolint:errcheck // the next write says it
		var piece struct {
			Data []byte `json:"data"`
			Done bool   `json:"done"`
		}
		ctx, stop := context.WithCancel(req.Context())
		gone := context.AfterFunc(h.ctx, stop)
		err := h.p.main.call(ctx, "chunk", map[string]any{"call": c.id}, &piece)
		gone()
		stop()
		if err == nil && piece.Done {
			return
		}
		if err == nil {
			_, err = w.Write(piece.Data)
		}
		if err != nil {
			h.abort(c, errors.New("the caller went away"))
			// The head is out: only a connection that breaks off says that something is
			// missing.
			panic(http.ErrAbortHandler)
		}
	}
}

// enter waits until the app has room for a request.
func (h *host) enter(ctx context.Context) error {
	select {
	case h.requests <- struct{}{}:
		return nil
	case <-h.ctx.Done():
		return errGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (h *host) leave() { <-h.requests }

// read reads a request's body, and holds it to its limit before the app hears of the
// request.
func (r *room) read(req *http.Request) (b []byte, free func(), err error) {
	stranger, most := false, int64(maxBody)
	if req.Header.Get("X-Box-Caller") == "none" {
		stranger, most = true, maxStranger
	}
	var taken int64
	free = func() { r.take(stranger, -taken) }
	refused := func(status int, format string, args ...any) error {
		free()
		io.CopyN(io.Discard, req.Body, drain) //nolint:errcheck // a client reads the answer only once it could send
		return &Refusal{status, fmt.Sprintf(format, args...)}
	}
	if req.ContentLength > most {
		return nil, nil, refused(http.StatusRequestEntityTooLarge, "a request to an app is at most %d MB", most>>20)
	}
	for piece := make([]byte, 32<<10); ; {
		n, err := req.Body.Read(piece)
		if n > 0 && !r.take(stranger, int64(n)) {
			return nil, nil, refused(http.StatusServiceUnavailable, "the box has too many requests at once: try again in a moment")
		}
		taken += int64(n)
		b = append(b, piece[:n]...)
		switch {
		case taken > most:
			return nil, nil, refused(http.StatusRequestEntityTooLarge, "a request to an app is at most %d MB", most>>20)
		case errors.Is(err, io.EOF):
			return b, free, nil
		case err != nil:
			free()
			return nil, nil, err
		}
	}
}

// address is the request's, without the token of the window that it may carry.
func address(req *http.Request) string {
	u := url.URL{Scheme: "http", Host: req.Host, Path: req.URL.Path, RawPath: req.URL.RawPath, RawQuery: req.URL.RawQuery}
	if req.TLS != nil {
		u.Scheme = "https"
	}
	if u.Host == "" {
		u.Host = "box"
	}
	if strings.Contains(u.RawQuery, "access_token") {
		q := u.Query()
		q.Del("access_token")
		u.RawQuery = q.Encode()
	}
	return u.String()
}

// headers are the request's, without those of the connection.
func headers(req *http.Request) [][2]string {
	out := [][2]string{}
	for key, values := range req.Header {
		if slices.Contains(hopByHop, key) {
			continue
		}
		for _, v := range values {
			if validHeader(key, v) {
				out = append(out, [2]string{strings.ToLower(key), v})
			}
		}
	}
	return out
}

// validHeader says whether the other side can take a header. Bytes above 127 mean
// something else to Go than to Node.
func validHeader(key, value string) bool {
	for _, s := range []string{key, value} {
		for i := range len(s) {
			if s[i] < ' ' && s[i] != '\t' || s[i] >= 0x7f {
				return false
			}
		}
	}
	return key != "" && !strings.ContainsAny(key, " :")
}

// refuse answers with a sentence.
func refuse(w http.ResponseWriter, status int, sentence string) {
	if r, ok := w.(Refuser); ok {
		r.Refuse(status, sentence)
		return
	}
	b, err := json.Marshal(map[string]string{"error": sentence})
	if err != nil {
		b = []byte(`{"error":"the box could not write its answer"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(b, '\n')) //nolint:errcheck // the caller went away
}

package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/app"
	"gurtos/core/permission"
	"gurtos/core/task"
	windows "gurtos/core/window"
)

// Body limits of apps' routes and webhooks.
const (
	appBody      = 10 << 20
	strangerBody = 1 << 20 // of a caller who is nobody
)

// appMethods are those that an app's route can have, besides the HEAD of a GET.
var appMethods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// appGate finds the app's route and holds the caller to it, before anything of the
// body is read.
func (s *Server) appGate(c *call) error {
	name, path := c.r.PathValue("app"), "/"+c.r.PathValue("path")
	if c.caller.kind == window && c.caller.app != name {
		return errWindow
	}
	a, err := s.appOn(name)
	route, found := app.Route{}, false
	if err == nil {
		route, found = s.appRoute(c, path)
	}
	if c.caller.kind == none {
		if !found || !route.Open {
			return errNoToken // before it is told what there is
		}
		if err := s.strangers(c, a); err != nil {
			return err
		}
	}
	switch {
	case err != nil:
		return err
	case !found:
		return s.noRoute(name, path)
	case c.r.Header.Get("Service-Worker") != "":
		return refuse("an app's page has no service worker")
	}
	c.app, c.appRoute = a, route
	return nil
}

// appRoute finds a request's route; a HEAD without one of its own is a GET's.
func (s *Server) appRoute(c *call, path string) (app.Route, bool) {
	route, ok := s.opt.Apps.Route(c.r.PathValue("app"), c.r.Method, path)
	if !ok && c.r.Method == http.MethodHead {
		route, ok = s.opt.Apps.Route(c.r.PathValue("app"), http.MethodGet, path)
	}
	return route, ok
}

// noRoute tells a path that the app hasn't from a method that it hasn't there.
func (s *Server) noRoute(name, path string) error {
	var allow []string
	for _, m := range appMethods {
		if _, ok := s.opt.Apps.Route(name, m, path); ok {
			allow = append(allow, m)
		}
	}
	if allow == nil {
		return notFound("the app %s has nothing at %s", name, shown(path))
	}
	if slices.Contains(allow, http.MethodGet) {
		allow = append(allow, http.MethodHead)
	}
	list := strings.Join(append(allow, http.MethodOptions), ", ")
	return &Error{
		Status:   http.StatusMethodNotAllowed,
		Sentence: fmt.Sprintf("the app %s takes %s at %s", name, list, shown(path)),
		header:   http.Header{"Allow": {list}},
	}
}

// refusalEvery is how often the log tells that one app turned strangers away: they
// could fill it otherwise.
const refusalEvery = time.Minute

// refusals is when each app's last one went into the log.
type refusals struct {
	mu sync.Mutex
	at map[string]time.Time // guarded by mu; by app
}

// due says whether the next one is to be told, and counts it as told.
func (r *refusals) due(app string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.at[app]; ok && now.Sub(last) < refusalEvery {
		return false
	}
	if r.at == nil {
		r.at = map[string]time.Time{}
	}
	r.at[app] = now
	return true
}

// strangers holds an open route to what the owner lets the app do: where it may not
// answer strangers, its open routes need a token like the others.
func (s *Server) strangers(c *call, a app.Info) error {
	rights, err := s.opt.Tasks.Rights(c.r.Context(), a.Name)
	if err != nil {
		return err
	}
	if rights.Allowed(permission.Strangers) {
		return s.opt.Tasks.Used(c.r.Context(), a.Name, permission.Strangers)
	}
	if s.refused.due(a.Name, time.Now()) {
		data := map[string]any{"app": a.Name, "item": permission.Strangers}
		if err := s.opt.Tasks.Note(c.r.Context(), task.NoteRefused, data, ""); err != nil {
			return err
		}
	}
	return &Error{Status: http.StatusUnauthorized, Sentence: permission.Refusal(a.Title, permission.Strangers), header: bearer}
}

// appPage answers by an app's route. The call ends with the caller's right, with the
// window's life and with boxd.
func (s *Server) appPage(c *call) error {
	if to := s.exchange(c); to != "" {
		c.w.Header().Set("Location", to)
		c.w.Header().Set("Cache-Control", "no-store")
		c.w.WriteHeader(http.StatusSeeOther)
		return nil
	}
	ctx, stop := context.WithCancel(c.r.Context())
	if !c.caller.until.IsZero() {
		ctx, stop = context.WithDeadline(ctx, c.caller.until)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() {
		select {
		case <-c.caller.gone:
		case <-s.ending:
		case <-ctx.Done():
		}
		stop()
	})
	req := c.r.WithContext(ctx)
	c.forApp(req.Header)
	if method, _, _ := strings.Cut(c.appRoute.Key, " "); method != req.Method {
		req.Method = method // of a HEAD that a GET's route answers
	}
	f := &frame{s: s, c: c, head: http.Header{}}
	s.opt.Apps.Serve(f, req, c.app.Name, c.appRoute)
	if !f.sent {
		return s.unanswered(c)
	}
	f.end()
	return nil
}

// unanswered says why an app was not heard: its caller did not send the whole request, or
// had no right any more before the answer came.
func (s *Server) unanswered(c *call) error {
	if l, ok := c.r.Body.(*limited); ok && l.over {
		return &http.MaxBytesError{Limit: l.most}
	}
	select {
	case <-c.caller.gone:
		return &Error{Status: http.StatusUnauthorized, Sentence: windows.ErrExpired.Error(), header: bearer}
	case <-s.ending:
		return actionlog.ErrClosed
	default:
		return fmt.Errorf("the app %s was not heard: %w", c.app.Name, context.Canceled)
	}
}

// exchange gives a browser that opens a page with more than a window's right the
// address with a window's token instead: the page could read a device's token out of
// its own address, and has none to carry where the connection was the right.
func (s *Server) exchange(c *call) string {
	if c.r.Method != http.MethodGet || !navigates(c.r) || c.caller.kind&(window|none) != 0 {
		return ""
	}
	token, _ := s.windows.Open(c.app.Name, c.caller)
	return withToken(c.r.URL, token)
}

// navigates says that a browser opens the request's address as a page. Over plain HTTP
// from elsewhere than the box it doesn't say so, but asks for HTML.
func navigates(r *http.Request) bool {
	if mode := r.Header.Get("Sec-Fetch-Mode"); mode != "" {
		return mode == "navigate"
	}
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}

// withToken is an address on the box with a token in it.
func withToken(u *url.URL, token string) string {
	query := u.RawQuery
	if query != "" {
		query += "&"
	}
	out := url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: query + "access_token=" + token, Fragment: u.Fragment}
	return out.String()
}

// forApp makes the headers those that an app may see: who calls, as the box says it, and
// nothing that is the box's own, the browser's for it, or about this connection alone.
func (c *call) forApp(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, "X-Box-") {
			h.Del(name)
		}
	}
	for _, name := range []string{
		"Cookie", "Proxy-Authorization", "Accept-Encoding",
		"Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect", "Proxy-Connection",
	} {
		h.Del(name)
	}
	if strings.Contains(h.Get("Referer"), "access_token") {
		h.Del("Referer")
	}
	h.Set("X-Box-Caller", c.caller.header())
}

// hookGate finds the app before anything of the body is read.
func (s *Server) hookGate(c *call) (err error) {
	c.app, err = s.appOn(c.r.PathValue("app"))
	return err
}

// hook hands a request to an app's webhook.
func (s *Server) hook(c *call) error {
	body, err := c.all()
	if err != nil {
		return err
	}
	switch {
	case len(strings.TrimSpace(string(body))) == 0:
		body = []byte("null")
	case !json.Valid(body):
		return bad("the body is not JSON, which a webhook needs")
	}
	c.forApp(c.r.Header)
	headers := map[string]string{}
	for name, values := range c.r.Header {
		headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	out, err := s.opt.Apps.Hook(c.r.Context(), c.app.Name, c.r.PathValue("name"), headers, body)
	if err != nil {
		return err
	}
	if len(out) == 0 {
		out = []byte("null") // the handler gave nothing
	}
	return c.json(http.StatusOK, out)
}

// limited is a body that ends with an error at its limit. What the client still sends
// then is read and dropped for a while: a browser reads no answer before it could send.
type limited struct {
	io.ReadCloser
	c    *call
	left int64 // bytes that may still come
	most int64
	over bool
}

func (l *limited) Read(p []byte) (int, error) {
	if l.over {
		return 0, &http.MaxBytesError{Limit: l.most}
	}
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.ReadCloser.Read(p)
	if int64(n) <= l.left {
		l.left -= int64(n)
		return n, err
	}
	l.over = true
	l.c.drain(l.ReadCloser)
	return int(l.left), &http.MaxBytesError{Limit: l.most}
}

// drain reads what is left of a body that is too large, and ends the connection with
// the answer.
func (c *call) drain(body io.Reader) {
	if c.r.Header.Get("Expect") == "" {
		io.CopyN(io.Discard, body, drain)
	}
	if !c.w.started {
		c.w.Header().Set("Connection", "close")
	}
}

package netpolicy

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"gurtos/netpolicy/authority"
	"gurtos/netpolicy/meter"
)

// Swap is a key that the program does not have: it sends a placeholder, and the
// box puts the key in its place, in one header towards a few hosts.
type Swap struct {
	Hosts       []string // normalised names; TLS on port 443 only
	Header      string   // the one header that may carry the placeholder
	Placeholder string
	Authority   *authority.Authority // what the program was told to trust

	// Requests are all that is passed on, Empty is answered with an empty JSON object
	// instead, and anything else is refused. Each is "METHOD /path", or "METHOD /path/"
	// for all that is below. Without Requests everything else is passed on.
	Requests, Empty []string
	// Models are those of Requests that ask a model: each waits for Allow, and Metered
	// is told what its answer used. Without Models all of them do.
	Models []string

	// Key is the key as it is now, and what takes that key out again: clean gives a
	// writer that takes it out of what is written, in any encoding and over the borders
	// of writes, and passes the rest on to w as soon as it can; its Close passes on what
	// it still holds. The error is a sentence that the program reads where a key is
	// needed; clean is there all the same.
	Key func() (key string, clean func(w io.Writer) io.WriteCloser, err error)
	// Rejected is told that the real host answered 401 to a request that carried the key.
	// It may be nil.
	Rejected func()
	// Allow is asked before a model is, and may wait as long as it likes. Its error is a
	// sentence that the program reads. It may be nil.
	Allow func(ctx context.Context) error
	// Over is told of each request that Allow let through, once: when Metered has been told
	// what it used, or when it has ended. It may be nil.
	Over func()
	// Metered is told what an answer used before the program sees its end, also of a
	// broken-off one. It may be nil.
	Metered func(meter.Usage)

	// Roots are the authorities that the real hosts are checked against; nil
	// means the machine's.
	Roots *x509.CertPool
}

// matches says whether a list of "METHOD /path" has a request. A path that servers
// could read in two ways is on no list.
func matches(list []string, r *http.Request) bool {
	path := r.URL.EscapedPath()
	if strings.ContainsAny(path, "%\\;") || strings.Contains(path, "//") || strings.Contains(path, "/.") {
		return false
	}
	ask := r.Method + " " + path
	return slices.ContainsFunc(list, func(l string) bool {
		return ask == l || strings.HasSuffix(l, "/") && strings.HasPrefix(ask, l)
	})
}

// asksModel says whether a request asks a model.
func (sw *Swap) asksModel(r *http.Request) bool { return sw.Models == nil || matches(sw.Models, r) }

// maxSwapping is how many requests of one namespace are judged and passed on with a
// key at once, each with up to maxWhole of its body; more wait.
const maxSwapping = 64

// maxWhole is how much of a request's body is judged before any of it is passed on, and
// maxHolding of how many requests of one namespace the box holds that much at once. The
// bound is each namespace's own, so that none waits for another's slow bodies.
const (
	maxWhole   = 1 << 20
	maxHolding = 8
)

// swapFor gives the swap that a target falls under, or nil.
func (s *Space) swapFor(t target) *Swap {
	if t.port != 443 || t.name == "" {
		return nil
	}
	for i := range s.p.Swaps {
		for _, h := range s.p.Swaps[i].Hosts {
			if h == t.name {
				return &s.p.Swaps[i]
			}
		}
	}
	return nil
}

// swapped answers TLS in the target's place and passes each request on with the
// key put in.
func (s *Space) swapped(k *conn, t target, sw *Swap, in *peeker) {
	k.aim(t) // first, or a rule that goes now would not close it
	rule, err := t.verdict(s.set.Load())
	if err != nil {
		s.tell.refused(t.String())
		reset(k.down)
		return
	}
	f := &flow{s: s, k: k, t: t, in: in}
	err = in.fill()
	if err == nil && in.buf[0] != 0x16 {
		err = &Refused{"it is not TLS"}
	}
	if err == nil {
		err = f.checkHello()
	}
	if err != nil {
		if no, differs := errors.AsType[*Refused](err); differs {
			s.n.log.Debug("a connection was closed", "to", t.String(), "why", no.Why)
			s.tell.refused(t.String())
		}
		reset(k.down)
		return
	}
	st, al := s.account(t, rule)
	st.conns.Add(1)
	x := &swapper{s: s, k: k, t: t, sw: sw, exact: rule.Exact(), st: st, al: al}
	x.serve(k.down, in)
}

// swapper is one connection whose TLS is answered here.
type swapper struct {
	s     *Space
	k     *conn
	t     target
	sw    *Swap
	exact bool
	st    *stat
	al    *allowance

	mu       sync.Mutex
	ended    bool           // no request may begin any more
	requests sync.WaitGroup // added to with mu held and ended false
}

// begin counts a request in, unless the connection has ended.
func (x *swapper) begin() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.ended {
		x.requests.Add(1)
	}
	return !x.ended
}

// end waits for the requests that run.
func (x *swapper) end() {
	x.mu.Lock()
	x.ended = true
	x.mu.Unlock()
	x.requests.Wait()
}

// serve speaks HTTP on the connection until it ends.
func (x *swapper) serve(c *net.TCPConn, in *peeker) {
	leaf, err := x.sw.Authority.Leaf(x.t.name)
	if err != nil {
		x.s.n.log.Error("answer TLS for a task", "err", err)
		reset(c)
		return
	}
	tr := &http.Transport{
		DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return x.dial(ctx) },
		TLSClientConfig:        &tls.Config{RootCAs: x.sw.Roots, ServerName: x.t.name},
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		TLSHandshakeTimeout:    dialTimeout,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: maxHead,
	}
	defer tr.CloseIdleConnections()
	ended := make(chan struct{})
	one := &oneListener{conn: &ahead{TCPConn: c, buf: in.buf, closed: sync.OnceFunc(func() { close(ended) })}, ended: ended}
	srv := &http.Server{
		Handler:           x.handler(quiet{tr}),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{*leaf}, NextProtos: []string{"h2", "http/1.1"}},
		ReadHeaderTimeout: dialTimeout,
		MaxHeaderBytes:    maxHead,
		// A space has 256 connections: what each may send ahead is the box's memory.
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: maxSwapping, MaxReceiveBufferPerConnection: 256 << 10, MaxReceiveBufferPerStream: 128 << 10},
		ErrorLog:    discardLog,
		BaseContext: func(net.Listener) context.Context { return x.s.ctx },
	}
	srv.ServeTLS(one, "", "") //nolint:errcheck // it ends when the one connection has
	srv.Close()
	x.end()
}

func (x *swapper) dial(ctx context.Context) (net.Conn, error) {
	c, err := x.s.n.dial.dial(ctx, x.t.name, x.t.port, x.exact)
	if _, refused := errors.AsType[*Refused](err); refused {
		x.s.tell.refused(x.t.String())
	}
	if err != nil {
		return nil, err
	}
	x.k.leads(c)
	if !x.k.allowed(x.s.set.Load()) {
		c.Close()
		return nil, errNoRule
	}
	return &counted{TCPConn: c, x: x}, nil
}

// handler judges a request and passes it on.
func (x *swapper) handler(tr http.RoundTripper) http.Handler {
	proxy := &httputil.ReverseProxy{
		Transport:     tr,
		FlushInterval: -1,
		ErrorLog:      discardLog,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "https", x.t.name, r.In.Host
			r.Out.Header.Set("Accept-Encoding", "identity") // what is packed can't be cleaned
			for _, h := range otherPaths {
				r.Out.Header.Del(h)
			}
		},
		ModifyResponse: x.clean,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if no, refused := errors.AsType[*Refused](err); refused {
				say(w, http.StatusForbidden, "The box refuses this request: "+no.Why+".")
				return
			}
			say(w, http.StatusBadGateway, fmt.Sprintf("The box can't reach %s: %v.", x.t, err))
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !x.begin() {
			return
		}
		defer x.requests.Done()
		select {
		case x.s.swapping <- struct{}{}:
			defer func() { <-x.s.swapping }()
		case <-r.Context().Done():
			return
		}
		r, over, ok := x.judge(w, r)
		defer over()
		if ok {
			ctx, end := x.outlive(r)
			defer end()
			proxy.ServeHTTP(w, r.WithContext(ctx))
		}
	})
}

// maxAfter and maxAfterBytes are how long and how much of an answer is read on for what
// it used, when its program went away.
const (
	maxAfter      = 2 * time.Minute
	maxAfterBytes = 10 << 20
)

// outlive is the context in which a request is passed on. A model's, whose cost stands in
// its answer, goes on for a while when its program goes away; end ends it.
func (x *swapper) outlive(r *http.Request) (ctx context.Context, end func()) {
	if x.sw.Metered == nil || !x.sw.asksModel(r) {
		return r.Context(), func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	var late *time.Timer
	gone := make(chan struct{})
	stop := context.AfterFunc(r.Context(), func() {
		late = time.AfterFunc(maxAfter, cancel)
		close(gone)
	})
	closed := context.AfterFunc(x.s.ctx, cancel)
	return ctx, func() {
		if !stop() {
			<-gone
			late.Stop()
		}
		closed()
		cancel()
	}
}

// otherPaths are fields that make some servers answer another request than the one
// that was judged.
var otherPaths = []string{"X-Original-Url", "X-Rewrite-Url", "X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}

// judge says whether a request goes on, with what it then is; one that does not is
// answered. over is to be called when it has ended.
func (x *swapper) judge(w http.ResponseWriter, r *http.Request) (out *http.Request, over func(), ok bool) {
	over = func() {}
	sw := x.sw
	switch {
	case !x.t.is(r.Host):
		x.s.tell.refused(x.t.String())
		say(w, http.StatusMisdirectedRequest, "This connection is for "+x.t.name+" alone.")
		return nil, over, false
	case matches(sw.Empty, r):
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "{}") //nolint:errcheck // the program went away
		return nil, over, false
	case sw.Requests != nil && !matches(sw.Requests, r):
		x.s.tell.refused(x.t.String())
		say(w, http.StatusForbidden, fmt.Sprintf("The box refuses this request: %s %.200q of %s is not for tasks.", r.Method, r.URL.Path, x.t.name))
		return nil, over, false
	}
	places, err := x.places(r)
	if err != nil {
		say(w, http.StatusForbidden, "The box refuses this request: "+err.Error()+".")
		return nil, over, false
	}
	if sw.Allow != nil && sw.asksModel(r) {
		if err := sw.Allow(r.Context()); err != nil {
			say(w, http.StatusPaymentRequired, err.Error())
			return nil, over, false
		}
		if sw.Over != nil {
			over = sync.OnceFunc(sw.Over)
		}
	}
	if err := x.body(r); err != nil { // last: an OK may take hours
		say(w, http.StatusForbidden, "The box refuses this request: "+err.Error()+".")
		return nil, over, false
	}
	key, clean, err := sw.Key()
	if err != nil && len(places) > 0 {
		say(w, http.StatusUnauthorized, err.Error())
		return nil, over, false
	}
	for _, p := range places {
		*p = strings.Replace(*p, sw.Placeholder, key, 1)
	}
	return r.WithContext(context.WithValue(r.Context(), carriedKey{}, carried{clean, len(places) > 0, over})), over, true
}

type carriedKey struct{}

// carried is what a request's context holds for its answer: what takes the key out of
// it, as the key may be another one by then, and whether the key went out.
type carried struct {
	clean func(w io.Writer) io.WriteCloser
	key   bool
	over  func() // what it used has been told
}

// errorKinds are the kinds of errors of the Messages API, which clients of it show in
// words, by their status.
var errorKinds = map[int]string{
	http.StatusUnauthorized: "authentication_error", http.StatusPaymentRequired: "billing_error", http.StatusForbidden: "permission_error",
	http.StatusMisdirectedRequest: "invalid_request_error", http.StatusBadGateway: "api_error",
}

// say answers in the box's own words.
func say(w http.ResponseWriter, status int, sentence string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"type": "error", "error": map[string]string{"type": errorKinds[status], "message": sentence}}) //nolint:errcheck // the program went away
}

// places are the values of the declared header that hold the placeholder. A request
// that has it anywhere else in its head is refused.
func (x *swapper) places(r *http.Request) (found []*string, err error) {
	p := x.sw.Placeholder
	if r.Method == http.MethodConnect {
		return nil, &Refused{"it asks an HTTP server to connect onwards"}
	}
	if len(r.Header.Values("Upgrade")) > 0 {
		return nil, &Refused{"a connection that carries a key stays HTTP"}
	}
	where := r.RequestURI
	if u, err := url.PathUnescape(where); err == nil {
		where += "\n" + u
	}
	if strings.Contains(where, p) {
		return nil, &Refused{"the placeholder of a key stands in its address"}
	}
	for name, values := range r.Header {
		for i, v := range values {
			if !strings.Contains(v, p) && !strings.Contains(name, p) {
				continue
			}
			if !strings.EqualFold(name, x.sw.Header) || strings.Count(v, p) != 1 {
				return nil, &Refused{fmt.Sprintf("the placeholder of a key stands in %s", name)}
			}
			found = append(found, &values[i])
		}
	}
	return found, x.whole(r, found)
}

// whole refuses a declared header that is more or less than the placeholder: the service
// would not accept it, and the owner would be told that the key is bad.
func (x *swapper) whole(r *http.Request, found []*string) error {
	if len(found) == 0 {
		return nil
	}
	want := x.sw.Placeholder
	if strings.EqualFold(x.sw.Header, "Authorization") {
		want = "Bearer " + want
	}
	if *found[0] != want || len(r.Header.Values(x.sw.Header)) != 1 {
		return &Refused{fmt.Sprintf("its %s is not the placeholder of a key alone", x.sw.Header)}
	}
	for _, v := range r.Header.Values("Connection") {
		for name := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(name), x.sw.Header) {
				return &Refused{fmt.Sprintf("its Connection field keeps %s from being passed on", x.sw.Header)}
			}
		}
	}
	return nil
}

// body reads the start of a request's body and refuses one that has the placeholder in it.
func (x *swapper) body(r *http.Request) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	select {
	case x.s.holding <- struct{}{}:
	case <-r.Context().Done():
		return &Refused{"its program went away"}
	}
	free := sync.OnceFunc(func() { <-x.s.holding })
	context.AfterFunc(r.Context(), free)
	p := []byte(x.sw.Placeholder)
	start, err := io.ReadAll(io.LimitReader(r.Body, maxWhole))
	if err != nil {
		return &Refused{"its body can't be read"}
	}
	if bytes.Contains(start, p) {
		return errInBody
	}
	r.Body = &watched{start: start, free: free, r: r.Body, find: p, x: x}
	return nil
}

var errInBody = &Refused{"the placeholder of a key stands in its body"}

// watched is a request's body that ends with an error before any byte of the
// placeholder's end is passed on.
type watched struct {
	start []byte // judged already
	free  func() // once nothing of start is held any more
	r     io.ReadCloser
	find  []byte
	x     *swapper

	tail []byte // the last bytes passed on, fewer than the placeholder has
	err  error
}

func (w *watched) Read(b []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	var n int
	var err error
	if len(w.start) > 0 {
		n = copy(b, w.start)
		if w.start = w.start[n:]; len(w.start) == 0 {
			w.start = nil
			w.free()
		}
	} else {
		n, err = w.r.Read(b)
	}
	seen := append(w.tail, b[:n]...)
	if bytes.Contains(seen, w.find) {
		w.err = errInBody
		return 0, w.err
	}
	w.tail = bytes.Clone(seen[max(0, len(seen)-len(w.find)+1):])
	return n, err
}

func (w *watched) Close() error { return w.r.Close() }

// clean takes the key out of an answer.
func (x *swapper) clean(r *http.Response) error {
	c := r.Request.Context().Value(carriedKey{}).(carried)
	with := c.clean
	if r.StatusCode == http.StatusUnauthorized && c.key && x.sw.Rejected != nil {
		x.sw.Rejected()
	}
	cleanFields(r.Header, with)
	body := r.Body
	switch enc := strings.ToLower(r.Header.Get("Content-Encoding")); enc {
	case "", "identity":
	case "gzip":
		z, err := gzip.NewReader(body)
		if err != nil {
			return fmt.Errorf("unpack the answer: %w", err)
		}
		body = readCloser{z, body}
		r.Header.Del("Content-Encoding")
	default:
		return fmt.Errorf("the answer is packed as %q, which can't be cleaned", enc)
	}
	r.Header.Del("Content-Length")
	r.ContentLength = -1
	var m *meter.Meter
	if x.sw.Metered != nil && x.sw.asksModel(r.Request) {
		m = meter.For(r)
	}
	r.Body = newCleaned(body, with, m, func(u meter.Usage) { x.sw.Metered(u); c.over() }, func() { cleanFields(r.Trailer, with) })
	return nil
}

func cleanFields(h http.Header, with func(w io.Writer) io.WriteCloser) {
	for name, values := range h {
		if cleanText(name, with) != name {
			delete(h, name)
			continue
		}
		for i, v := range values {
			values[i] = cleanText(v, with)
		}
	}
}

// quiet passes no answers on that come ahead of the answer (100 to 199): they
// would not be cleaned.
type quiet struct{ http.RoundTripper }

func (q quiet) RoundTrip(r *http.Request) (*http.Response, error) {
	if t := httptrace.ContextClientTrace(r.Context()); t != nil {
		t.Got1xxResponse = nil // httputil.ReverseProxy set it for this request alone
	}
	return q.RoundTripper.RoundTrip(r)
}

func cleanText(s string, with func(w io.Writer) io.WriteCloser) string {
	var b strings.Builder
	w := with(&b)
	if _, err := io.WriteString(w, s); err != nil {
		return ""
	}
	if w.Close() != nil {
		return ""
	}
	return b.String()
}

// cleaned is an answer's body with the key taken out, metered on its way.
type cleaned struct {
	r     io.ReadCloser
	w     io.WriteCloser // cleans into out
	out   bytes.Buffer
	meter *meter.Meter
	ended func() // the answer's trailer has come
	tell  func()
	err   error
	chunk []byte
}

func newCleaned(r io.ReadCloser, with func(w io.Writer) io.WriteCloser, m *meter.Meter, metered func(meter.Usage), ended func()) *cleaned {
	c := &cleaned{r: r, meter: m, ended: ended}
	c.w = with(&c.out)
	c.tell = sync.OnceFunc(func() {
		if m == nil {
			return
		}
		if u, ok := m.Usage(); ok {
			metered(u)
		}
	})
	return c
}

func (c *cleaned) Read(b []byte) (int, error) {
	for c.out.Len() == 0 && c.err == nil {
		if c.chunk == nil {
			c.chunk = make([]byte, 16<<10)
		}
		n, err := c.r.Read(c.chunk)
		if c.meter != nil {
			c.meter.Write(c.chunk[:n]) //nolint:errcheck // it never fails
			if c.meter.Ended() {
				c.tell() // before the program can know that it is over and tell of it too
			}
		}
		if _, werr := c.w.Write(c.chunk[:n]); werr != nil {
			err = werr
		}
		if err != nil {
			if cerr := c.w.Close(); cerr != nil && err == io.EOF {
				err = cerr
			}
			c.err = err
			c.ended()
			c.tell()
		}
	}
	if c.out.Len() > 0 {
		return c.out.Read(b)
	}
	return 0, c.err
}

// Close reads on for what an answer in one piece used: that stands at its end. A stream
// told of it on its way.
func (c *cleaned) Close() error {
	if c.meter != nil && c.meter.Whole() && c.err == nil {
		io.Copy(c.meter, io.LimitReader(c.r, maxAfterBytes)) //nolint:errcheck // what came is all there is
	}
	c.tell()
	return c.r.Close()
}

// readCloser reads from one and closes the other.
type readCloser struct {
	io.Reader
	io.Closer
}

// counted counts what goes to the real host.
type counted struct {
	*net.TCPConn
	x *swapper
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	c.x.st.received.Add(int64(n))
	return n, err
}

func (c *counted) Write(b []byte) (int, error) {
	f := flow{s: c.x.s, st: c.x.st, al: c.x.al, up: c.TCPConn}
	if err := f.send(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// ahead is a connection some of whose bytes were read already.
type ahead struct {
	*net.TCPConn
	buf    []byte
	closed func()
}

func (a *ahead) Read(b []byte) (int, error) {
	if len(a.buf) > 0 {
		n := copy(b, a.buf)
		a.buf = a.buf[n:]
		return n, nil
	}
	return a.TCPConn.Read(b)
}

func (a *ahead) Close() error {
	defer a.closed()
	return a.TCPConn.Close()
}

// oneListener accepts one connection and ends when it does.
type oneListener struct {
	mu    sync.Mutex
	conn  *ahead
	given bool
	ended chan struct{}
}

func (l *oneListener) Accept() (net.Conn, error) {
	l.mu.Lock()
	given := l.given
	l.given = true
	l.mu.Unlock()
	if given {
		<-l.ended
		return nil, net.ErrClosed
	}
	return l.conn, nil
}

func (l *oneListener) Close() error   { return nil }
func (l *oneListener) Addr() net.Addr { return l.conn.LocalAddr() }

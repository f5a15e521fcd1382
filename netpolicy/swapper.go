package netpolicy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"
)

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
			r.Out.Trailer = nil                             // what stands behind a body is not judged
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
			if no, unkept := errors.AsType[*unkept](err); unkept {
				say(w, http.StatusBadGateway, no.Error())
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
		r, b, ok := x.judge(w, r)
		defer b.end()
		if !ok {
			return
		}
		if b != nil {
			ctx, end := x.outlive(r)
			defer end()
			defer b.settle()
			r = r.WithContext(ctx)
		}
		proxy.ServeHTTP(w, r)
	})
}

// maxAfter and maxAfterBytes are how long and how much of an answer is read on for what
// it used, when its program went away.
const (
	maxAfter      = 2 * time.Minute
	maxAfterBytes = 10 << 20
)

// outlive is the context in which a model's request is passed on, whose cost stands in its
// answer: it goes on for a while when its program goes away; end ends it.
func (x *swapper) outlive(r *http.Request) (ctx context.Context, end func()) {
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

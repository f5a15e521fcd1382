package guest

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"
)

// relay serves a loopback port of this machine and passes every request on to the box's own listener for the network, as a router at its door
// would: with the address it came from in X-Forwarded-For, so that the box never takes it for its own screen.
type relay struct {
	server *http.Server
	done   chan struct{}
}

// listen takes the port, before a box is started in vain.
func listen(port int) (net.Listener, error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, fmt.Errorf("port %d of this machine is taken (is another box or boxd running?): %w", port, err)
	}
	return l, nil
}

// newRelay passes what comes in on l to the box at the address to.
func newRelay(l net.Listener, to string) *relay {
	target := &url.URL{Scheme: "http", Host: to}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // the box compares it with Origin
			r.SetXForwarded()      // instead of whatever the caller claims
		},
		FlushInterval: -1, // events as they come
		ErrorLog:      log.New(discard{}, "", 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "the box doesn't answer: "+err.Error(), http.StatusBadGateway)
		},
	}
	r := &relay{server: &http.Server{Handler: proxy, ReadHeaderTimeout: 30 * time.Second}, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.server.Serve(l)
	}()
	return r
}

func (r *relay) close() {
	r.server.Close()
	<-r.done
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

package netpolicy

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"time"

	"gurtos/netpolicy/meter"
)

// clean takes the key out of an answer.
func (x *swapper) clean(r *http.Response) error {
	c := r.Request.Context().Value(carriedKey{}).(carried)
	with := c.clean
	var m *meter.Meter
	b := c.bill
	if b != nil {
		m = b.answered(r, time.Now())
	}
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
	r.Body = newCleaned(body, with, m, func(u meter.Usage) { b.call.Used(b.whole(u, time.Now())); b.end() }, func() { cleanFields(r.Trailer, with) })
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

// Close reads on for what an answer used: that stands at its end.
func (c *cleaned) Close() error {
	if c.meter != nil && c.err == nil {
		c.readOn()
	}
	c.tell()
	return c.r.Close()
}

// readOn reads what is left of an answer, for its meter alone. A stream's connection may
// stay open beyond its end.
func (c *cleaned) readOn() {
	rest := io.LimitReader(c.r, maxAfterBytes)
	b := make([]byte, 16<<10)
	for !c.meter.Ended() {
		n, err := rest.Read(b)
		c.meter.Write(b[:n]) //nolint:errcheck // it never fails
		if err != nil {
			return // what came is all there is
		}
	}
}

// readCloser reads from one and closes the other.
type readCloser struct {
	io.Reader
	io.Closer
}

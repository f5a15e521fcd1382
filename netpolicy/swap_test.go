package netpolicy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gurtos/netpolicy/authority"
	"gurtos/netpolicy/meter"
	"gurtos/test/fixtures/messages"
)

const (
	trueKey     = `sk-ant-api03-"very"/secret+key_0123456789`
	placeholder = "placeholder-for-the-key"
)

// masked takes the key out by its plain text alone; what core/leak does with every
// spelling is that package's own test. It holds everything back, as the worst does.
type masked struct {
	w   io.Writer
	key string
	buf bytes.Buffer
}

func (m *masked) Write(b []byte) (int, error) { return m.buf.Write(b) }

func (m *masked) Close() error {
	s := m.buf.String()
	quoted, _ := json.Marshal(m.key) //nolint:errcheck // a string
	for _, k := range []string{m.key, base64.StdEncoding.EncodeToString([]byte(m.key)), hex.EncodeToString([]byte(m.key)), strings.Trim(string(quoted), `"`)} {
		if k != "" {
			s = strings.ReplaceAll(s, k, "[KEY]")
		}
	}
	_, err := io.WriteString(m.w, s)
	return err
}

// swapping is a namespace whose hosts model.example.com and example.com are allowed,
// and the first gets the key.
type swapping struct {
	*internet
	program
	api  *messages.API
	ca   *authority.Authority
	used chan meter.Usage
	keys sync.Mutex
	key  func() (string, error) // guarded by keys
	more func(*Swap)            // what a test wants otherwise
}

func newSwapping(t *testing.T, more ...func(*Swap)) *swapping {
	i := outside(t)
	i.name("example.com", webAddr)
	const modelAddr = "192.0.2.80"
	i.name("model.example.com", modelAddr)
	i.addr(t, modelAddr)
	x := &swapping{internet: i, api: &messages.API{Key: trueKey}, used: make(chan meter.Usage, 10), key: func() (string, error) { return trueKey, nil }}
	x.more = func(sw *Swap) {
		for _, f := range more {
			f(sw)
		}
	}
	ln, err := i.listenRaw(modelAddr + ":443")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: x.api, TLSConfig: i.tls(), ErrorLog: discardLog} //nolint:gosec // only the test asks
	go srv.ServeTLS(ln, "", "")                                                   //nolint:errcheck // until it is closed
	t.Cleanup(func() { srv.Close() })
	dir := t.TempDir()
	if x.ca, err = authority.Open(dir); err != nil {
		t.Fatal(err)
	}
	x.attach(t)
	return x
}

// call is a model call whose parts a test may leave out.
type call struct {
	asked func(meter.Usage) error
	used  func(meter.Usage)
	over  func()
}

func (c call) Asked(u meter.Usage) error {
	if c.asked == nil {
		return nil
	}
	return c.asked(u)
}

func (c call) Used(u meter.Usage) { c.used(u) }

func (c call) Over() {
	if c.over != nil {
		c.over()
	}
}

// billing lets each call begin.
func billing(used func(meter.Usage), over func()) func(context.Context, meter.Usage) (Call, error) {
	return func(context.Context, meter.Usage) (Call, error) { return call{used: used, over: over}, nil }
}

func (x *swapping) setKey(key string) {
	x.keys.Lock()
	defer x.keys.Unlock()
	x.key = func() (string, error) { return key, nil }
}

// attach makes the namespace; again is what a restart does.
func (x *swapping) attach(t *testing.T) {
	told := make(chan string, 100)
	sw := Swap{
		Hosts: []string{"model.example.com"}, Header: "X-Api-Key", Placeholder: placeholder, Authority: x.ca,
		Key: func() (string, func(io.Writer) io.WriteCloser, error) {
			x.keys.Lock()
			key, err := x.key()
			x.keys.Unlock()
			return key, func(w io.Writer) io.WriteCloser { return &masked{w: w, key: key} }, err
		},
		Begin: billing(func(u meter.Usage) { x.used <- u }, nil), Roots: x.pool,
	}
	x.more(&sw)
	x.program = program{t, attached(t, Policy{Hosts: []string{"model.example.com", "example.com"}, Blocked: func(h string, _ int) { told <- h }, Swaps: []Swap{sw}})}
}

// client trusts the authority that the program was told to trust.
func (x *swapping) client(ca []byte, h2 bool) *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: h2, DialContext: func(_ context.Context, _, addr string) (net.Conn, error) {
		host, _, _ := net.SplitHostPort(addr)
		return x.connect(host, 443, false)
	}}
	x.program.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func post(t testing.TB, url, body string, header ...string) *http.Request {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k := 0; k < len(header); k += 2 {
		r.Header.Add(header[k], header[k+1])
	}
	return r
}

func ask(stream, abort bool, header string, say ...string) string {
	var q messages.Request
	q.Model, q.Stream, q.Metadata.Say, q.Metadata.Abort, q.Metadata.Header = "claude-test", stream, say, abort, header
	b, err := json.Marshal(q)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TestSwap holds that the key is put in, that it never comes back, and that what was
// used is told: as JSON and as events, whole and broken off, in HTTP/1 and HTTP/2.
func TestSwap(t *testing.T) {
	x := newSwapping(t)
	const all = "https://model.example.com/v1/messages"
	spellings := []string{trueKey, base64.StdEncoding.EncodeToString([]byte(trueKey)), hex.EncodeToString([]byte(trueKey)), trueKey[:10], trueKey[10:]}
	for _, h2 := range []bool{false, true} {
		for _, stream := range []bool{false, true} {
			for _, abort := range []bool{false, true} {
				t.Run(fmt.Sprintf("h2 %v, stream %v, abort %v", h2, stream, abort), func(t *testing.T) {
					x.program.t = t
					var ahead []string
					ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
						ahead = append(ahead, fmt.Sprint(code, h))
						return nil
					}})
					q := ask(stream, abort, trueKey, spellings...)
					res, err := x.client(x.ca.PEM(), h2).Do(post(t, all, q, "X-Api-Key", placeholder).WithContext(ctx))
					if err != nil {
						t.Fatal(err)
					}
					defer res.Body.Close()
					body, err := io.ReadAll(res.Body)
					if (err != nil) != abort || res.StatusCode != http.StatusOK {
						t.Errorf("status %d, %v", res.StatusCode, err)
					}
					if res.ProtoMajor != map[bool]int{false: 1, true: 2}[h2] {
						t.Errorf("it came by %s", res.Proto)
					}
					whole := string(body) + fmt.Sprint(res.Header, res.Trailer, ahead)
					for _, s := range spellings[:3] {
						if strings.Contains(whole, s) {
							t.Errorf("the key comes back as %q in %q", s, whole)
						}
					}
					if k := x.api.Keys(); k[len(k)-1] != trueKey {
						t.Errorf("the API was sent %q", k)
					}
					want := meter.Usage{Model: "claude-test", Input: 25, Output: 12, CacheWrite: 7, CacheRead: 100}
					switch {
					case abort && stream: // nobody said how much was written, so it is what came
						want.Output, want.Estimate = int64(len(strings.Join(spellings, ""))/4), true
					case abort: // half a JSON object says nothing
						want = meter.Usage{Model: "claude-test", Input: int64(len(q) / 4), Estimate: true}
					}
					select {
					case u := <-x.used:
						if abort && !stream {
							want.Output = u.Output // as long as it took
						}
						if u != want {
							t.Errorf("metered %+v, want %+v", u, want)
						}
					case <-t.Context().Done():
					case <-time.After(time.Minute):
						t.Error("nothing was metered")
					}
				})
			}
		}
	}
	if raw := x.bytes(); strings.Contains(raw, placeholder) {
		t.Error("the placeholder went out")
	}
}

// TestSwapRefuses holds that the placeholder goes nowhere but into the declared
// header, and the key to nobody but the declared host.
func TestSwapRefuses(t *testing.T) {
	x := newSwapping(t)
	c := x.client(x.ca.PEM(), true)
	const base = "https://model.example.com"
	ok := ask(false, false, "")
	for _, v := range []struct {
		name string
		r    *http.Request
		want int
	}{
		{"in the body", post(t, base, ok+placeholder, "X-Api-Key", placeholder), 403},
		{"in a long body", post(t, base, ok+strings.Repeat(" ", 3<<20)+placeholder), 0},
		{"in the query", post(t, base+"/?k="+placeholder, ok), 403},
		{"in the query, escaped", post(t, base+"/?k=%70laceholder-for-the-key", ok), 403},
		{"in the path", post(t, base+"/"+placeholder, ok), 403},
		{"in the path, escaped", post(t, base+"/%70laceholder-for-the-key", ok), 403},
		{"in another header", post(t, base, ok, "Authorization", "Bearer "+placeholder), 403},
		{"in another header too", post(t, base, ok, "X-Api-Key", placeholder, "X-Other", placeholder), 403},
		{"in a cookie", post(t, base, ok, "Cookie", "a="+placeholder), 403},
		{"in a header's name", post(t, base, ok, "X-"+placeholder, "1"), 200},
		{"twice in the header", post(t, base, ok, "X-Api-Key", placeholder+placeholder), 403},
		{"with an upgrade", post(t, base, ok, "X-Api-Key", placeholder, "Upgrade", "websocket", "Connection", "upgrade"), 403},
		{"packed", post(t, base, "\x1f\x8b", "X-Api-Key", placeholder, "Content-Encoding", "gzip"), 403},
		{"said to be packed", post(t, base, ok, "X-Api-Key", placeholder, "Content-Encoding", "identity, br"), 403},
		{"not packed", post(t, base, ok, "X-Api-Key", "mine", "Content-Encoding", "Identity"), 401},
		{"no placeholder at all", post(t, base, ok, "X-Api-Key", "mine"), 401},
		{"to another Host", func() *http.Request {
			r := post(t, base, ok, "X-Api-Key", placeholder)
			r.Host = "example.com"
			return r
		}(), 421},
		{"asked to connect onwards", func() *http.Request { r := post(t, base, ok); r.Method = "CONNECT"; return r }(), 0},
	} {
		if v.name == "in a header's name" {
			continue // its letters' case is not kept, so it is not the placeholder any more
		}
		x.program.t = t
		cl := c
		if v.name == "with an upgrade" {
			cl = x.client(x.ca.PEM(), false)
		}
		res, err := cl.Do(v.r)
		if err != nil {
			if v.want != 0 {
				t.Errorf("%s: %v", v.name, err)
			}
			continue
		}
		body, _ := io.ReadAll(res.Body) //nolint:errcheck // the status counts
		res.Body.Close()
		if res.StatusCode != v.want && v.want != 0 || v.want == 0 && res.StatusCode < 400 {
			t.Errorf("%s: status %d, %s", v.name, res.StatusCode, body)
		}
	}
	if k := x.api.Keys(); slices.Contains(k, trueKey) || slices.Contains(k, placeholder) {
		t.Errorf("the API was sent %q", k)
	}
	// The other host keeps its own certificate, and gets the placeholder as it is.
	res, err := x.client(x.cert.PEM(), false).Do(post(t, "https://example.com/", "", "X-Api-Key", placeholder))
	if err != nil {
		t.Fatalf("another host: %v", err)
	}
	res.Body.Close()
	if _, err := x.client(x.ca.PEM(), false).Do(post(t, "https://example.com/", "")); err == nil {
		t.Error("another host is answered with the tasks' authority")
	}
	x.key = func() (string, error) { return "", errors.New("The vault has no KEY.") } //nolint:staticcheck // a sentence
	res, err = c.Do(post(t, base, ok, "X-Api-Key", placeholder))
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(res.Body); res.StatusCode != 401 || string(body) != `{"error":{"message":"The vault has no KEY.","type":"authentication_error"},"type":"error"}`+"\n" { //nolint:errcheck // the text counts
		t.Errorf("without a key: %d, %s", res.StatusCode, body)
	}
	res.Body.Close()
	a, err := x.lookup("model.example.com", false)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.s.SetHosts([]string{"example.com"}); err != nil {
		t.Fatal(err)
	}
	if _, err := x.dial("tcp", netip.AddrPortFrom(a, 443).String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("without its rule the host is connected to: %v", err)
	}
	if _, err := x.client(x.ca.PEM(), false).Do(post(t, base, ok)); err == nil {
		t.Error("the swap outlives its host's rule")
	}
}

// TestSwapLasts holds that the swap works after a restart with the same authority,
// for a program that never looked anything up again, and after the key has changed.
func TestSwapLasts(t *testing.T) {
	x := newSwapping(t)
	x.attach(t)
	x.key = func() (string, error) { return "another", nil }
	res, err := x.client(x.ca.PEM(), true).Do(post(t, "https://model.example.com", ask(false, false, ""), "X-Api-Key", placeholder))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if k := x.api.Keys(); !slices.Equal(k, []string{"another"}) {
		t.Errorf("the API was sent %q", k)
	}
}

// TestSwapByProxy holds that CONNECT changes nothing.
func TestSwapByProxy(t *testing.T) {
	x := newSwapping(t)
	c, err := x.dial("tcp", fmt.Sprintf("127.0.0.1:%d", proxyPort))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, "CONNECT model.example.com:443 HTTP/1.1\r\n\r\n") //nolint:errcheck // the answer tells
	read(t, c, len(established200))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(x.ca.PEM())
	tc := tls.Client(c, &tls.Config{RootCAs: pool, ServerName: "model.example.com"})
	r := post(t, "https://model.example.com/v1/messages", ask(false, false, ""), "X-Api-Key", placeholder)
	if err := r.Write(tc); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(tc), r)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", res, err)
	}
	res.Body.Close()
}

// TestAuthority holds that the authority is made once, with a key that root alone
// may read, and that a loose key file is refused.
func TestAuthority(t *testing.T) {
	dir := t.TempDir()
	one, err := authority.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	two, err := authority.Open(dir)
	if err != nil || !bytes.Equal(one.PEM(), two.PEM()) {
		t.Errorf("it was made twice: %v", err)
	}
	st, err := os.Stat(dir + "/ca.key")
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	a, err := one.Leaf("a.example")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := one.Leaf("a.example"); err != nil || a != b {
		t.Errorf("the leaf is made anew: %v", err)
	}
	if err := os.Chmod(dir+"/ca.key", 0o644); err != nil { //nolint:gosec // the point
		t.Fatal(err)
	}
	if _, err := authority.Open(dir); err == nil || !strings.Contains(err.Error(), "0600") {
		t.Errorf("a loose key file: %v", err)
	}
}

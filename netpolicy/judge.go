package netpolicy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// otherPaths are fields that make some servers answer another request than the one
// that was judged.
var otherPaths = []string{"X-Original-Url", "X-Rewrite-Url", "X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}

// judge says whether a request goes on, with what it then is; one that does not is
// answered. b is what it may cost, nil for one that asks no model or is not let through;
// its end is to be called.
func (x *swapper) judge(w http.ResponseWriter, r *http.Request) (out *http.Request, b *bill, ok bool) {
	sw := x.sw
	switch {
	case !x.t.is(r.Host):
		x.s.tell.refused(x.t.String())
		say(w, http.StatusMisdirectedRequest, "This connection is for "+x.t.name+" alone.")
		return nil, nil, false
	case matches(sw.Empty, r):
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "{}") //nolint:errcheck // the program went away
		return nil, nil, false
	case sw.Requests != nil && !matches(sw.Requests, r):
		x.s.tell.refused(x.t.String())
		say(w, http.StatusForbidden, fmt.Sprintf("The box refuses this request: %s %.200q of %s is not for tasks.", r.Method, r.URL.Path, x.t.name))
		return nil, nil, false
	}
	places, err := x.places(r)
	if err != nil {
		say(w, http.StatusForbidden, "The box refuses this request: "+err.Error()+".")
		return nil, nil, false
	}
	model := sw.asksModel(r)
	if sw.Allow != nil && model {
		if err := sw.Allow(r.Context()); err != nil {
			say(w, http.StatusPaymentRequired, err.Error())
			return nil, nil, false
		}
	}
	if sw.Begin != nil && model {
		b = &bill{}
	}
	if err := x.body(r, b); err != nil { // last: an OK may take hours
		say(w, http.StatusForbidden, "The box refuses this request: "+err.Error()+".")
		return nil, nil, false
	}
	if b != nil {
		if err := b.begin(r.Context(), sw); err != nil {
			say(w, http.StatusPaymentRequired, err.Error())
			return nil, nil, false
		}
		if err := b.came(nil, false); err != nil {
			say(w, http.StatusBadGateway, err.Error())
			return nil, b, false
		}
	}
	key, clean, err := sw.Key()
	if err != nil && len(places) > 0 {
		say(w, http.StatusUnauthorized, err.Error())
		return nil, b, false
	}
	for _, p := range places {
		*p = strings.Replace(*p, sw.Placeholder, key, 1)
	}
	return r.WithContext(context.WithValue(r.Context(), carriedKey{}, carried{clean, len(places) > 0, b})), b, true
}

type carriedKey struct{}

// carried is what a request's context holds for its answer: what takes the key out of
// it, as the key may be another one by then, and whether the key went out.
type carried struct {
	clean func(w io.Writer) io.WriteCloser
	key   bool
	bill  *bill // nil for one that asks no model
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
func (x *swapper) body(r *http.Request, b *bill) error {
	if r.Body == nil || r.Body == http.NoBody {
		return b.came(nil, true)
	}
	for _, enc := range r.Header.Values("Content-Encoding") {
		if enc != "" && !strings.EqualFold(enc, "identity") {
			return &Refused{fmt.Sprintf("its body is packed as %.20q, and what is packed can't be judged", enc)}
		}
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
	r.Body = &watched{start: start, free: free, r: r.Body, find: p, bill: b}
	return b.came(start, len(start) < maxWhole)
}

var errInBody = &Refused{"the placeholder of a key stands in its body"}

// watched is a request's body that ends with an error before any byte of the
// placeholder's end is passed on.
type watched struct {
	start []byte // judged already
	free  func() // once nothing of start is held any more
	r     io.ReadCloser
	find  []byte
	bill  *bill

	tail []byte // the last bytes passed on, fewer than the placeholder has
	err  error
}

func (w *watched) Read(b []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	var n int
	var err error
	var fresh bool
	if len(w.start) > 0 {
		n = copy(b, w.start)
		if w.start = w.start[n:]; len(w.start) == 0 {
			w.start = nil
			w.free()
		}
	} else {
		n, err = w.r.Read(b)
		fresh = true
	}
	seen := append(w.tail, b[:n]...)
	if bytes.Contains(seen, w.find) {
		w.err = errInBody
		return 0, w.err
	}
	w.tail = bytes.Clone(seen[max(0, len(seen)-len(w.find)+1):])
	if fresh {
		if w.err = w.bill.came(b[:n], err == io.EOF); w.err != nil {
			return 0, w.err
		}
	}
	w.bill.passed(n, err == io.EOF)
	return n, err
}

func (w *watched) Close() error { return w.r.Close() }

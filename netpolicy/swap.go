package netpolicy

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

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
	// Models are those of Requests that ask a model: each waits for Allow and for Begin,
	// whose Call is told what it used. Without Models all of them do.
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
	// Allow is asked before a model is, and may wait as long as it likes: nothing of the
	// request's body is held meanwhile. Its error is a sentence that the program reads. It
	// may be nil.
	Allow func(ctx context.Context) error
	// Begin is asked next, with what the request uses at most as far as the start of its
	// body tells, and may wait until there is room for that beside others. Its error is a
	// sentence that the program reads. It may be nil: then nobody hears what was used.
	Begin func(ctx context.Context, most meter.Usage) (Call, error)

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

package netpolicy

import (
	"io"
	"strconv"
	"strings"
	"sync"
)

// answers follows what an HTTP/1 server sends back, to know which answer belongs
// to a request that asked to change the protocol: only after a real 101 are the
// program's bytes no HTTP any more. It judges nothing: answers that can't be
// followed are passed on all the same, and then no change of protocol is possible.
type answers struct {
	f *flow

	mu      sync.Mutex
	pending []*request
	http    bool // a request went out
	gone    bool // answers can't be followed any more
}

// maxPending is how many requests may go out ahead of their answers and still be
// told apart; a program that sends more can't change the protocol any more.
const maxPending = 1024

// request is one that has no answer yet.
type request struct {
	method   string
	switches chan string // the new protocol or "", told once; nil when it asked for none
}

// asked says whether the connection has shown to be HTTP/1.
func (a *answers) asked() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.http
}

// expect notes a request before it goes out. The result is not nil when it asks
// for another protocol.
func (a *answers) expect(h *head) *request {
	r := &request{method: h.first[0]}
	if len(h.get("upgrade")) > 0 {
		r.switches = make(chan string, 1)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.http = true
	if len(a.pending) >= maxPending {
		a.lose()
	}
	if !a.gone {
		a.pending = append(a.pending, r)
	} else if r.switches != nil {
		r.switches <- ""
	}
	if r.switches == nil {
		return nil
	}
	return r
}

// upgraded waits for the answer to r and says which protocol follows, "" for HTTP.
func (a *answers) upgraded(r *request) (string, error) {
	select {
	case p := <-r.switches:
		return p, nil
	case <-a.f.s.ctx.Done():
		return "", io.ErrUnexpectedEOF
	}
}

// next takes the request that an answer belongs to.
func (a *answers) next() *request {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.pending) == 0 {
		return nil
	}
	r := a.pending[0]
	a.pending = a.pending[1:]
	return r
}

// lost ends following: whoever waits for a change of protocol gets none.
func (a *answers) lost() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lose()
}

// lose is lost with a.mu held.
func (a *answers) lose() {
	a.gone = true
	for _, r := range a.pending {
		if r.switches != nil {
			r.switches <- ""
		}
	}
	a.pending = nil
}

// follow passes answers on until one can't be followed, the protocol changes or
// the server ends; what then still comes is for the caller to pass on.
func (a *answers) follow() error {
	p := &peeker{c: a.f.up}
	defer func() { a.f.write(p.buf) }() //nolint:errcheck // the next write to the program fails too
	for {
		r := a.next()
		done := false
		for !done {
			h, err := readHead(p)
			if err != nil {
				return endOf(err)
			}
			status := h.first[1]
			if r == nil {
				r = a.next()
			}
			if r == nil || !strings.HasPrefix(h.first[0], "HTTP/1.") || len(status) != 3 {
				return a.f.write(h.raw)
			}
			if err := a.f.write(h.raw); err != nil {
				return err
			}
			if status == "101" {
				if r.switches != nil {
					r.switches <- strings.Join(h.get("upgrade"), ",")
				}
				return nil
			}
			if done = status[0] != '1'; !done {
				continue
			}
			if r.switches != nil {
				r.switches <- ""
			}
			if more, err := a.content(p, h, r); err != nil || !more {
				return endOf(err)
			}
		}
	}
}

// content passes on an answer's body; more is whether another answer may follow.
func (a *answers) content(p *peeker, h *head, r *request) (more bool, err error) {
	code, err := strconv.Atoi(h.first[1])
	if err != nil {
		return false, nil
	}
	if r.method == "HEAD" || code == 204 || code == 304 {
		return true, nil
	}
	n, chunked, err := h.body()
	if err != nil || n < 0 && !chunked {
		return false, nil // it ends with the connection, or can't be followed
	}
	move := func(n int64) error { return a.f.receiveFrom(p, n) }
	if chunked {
		return true, eachChunk(p, a.f.write, a.f.write, move)
	}
	return true, move(n)
}

// endOf makes an orderly or an odd end a reason to stop following, not an error.
func endOf(err error) error {
	if _, odd := err.(*Refused); odd || err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil
	}
	return err
}

// write passes bytes back to the program.
func (f *flow) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	n, err := f.k.down.Write(b)
	f.st.received.Add(int64(n))
	return err
}

// receiveFrom passes back n bytes, those that were read ahead first.
func (f *flow) receiveFrom(p *peeker, n int64) error {
	b := p.buf[:min(int64(len(p.buf)), n)]
	if err := f.write(b); err != nil {
		return err
	}
	p.discard(len(b))
	for n -= int64(len(b)); n > 0; {
		m, err := f.receive(n)
		if err != nil {
			return err
		}
		if m == 0 {
			return io.ErrUnexpectedEOF
		}
		n -= m
	}
	return nil
}

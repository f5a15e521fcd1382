package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of what an app's process sends.
const (
	maxMessage   = 12 << 20         // bytes of one message; a tool's output has at most 8 MB
	maxCalls     = 256              // calls of the app's that are answered at once
	maxAsked     = 32 << 20         // bytes of what they were asked with, together
	maxLarge     = 2                // of those whose answers may be large, until the app has taken them
	maxAbandoned = 256              // calls that were given up and that the app never answered
	writeTime    = 30 * time.Second // for the app to take a message
)

// largeMethods give what tasks and questions hold, which may be some megabytes.
var largeMethods = []string{"task", "tasks", "approvals", "answer"}

// errGone says that the process ended before it answered.
var errGone = errors.New("its process ended before it answered")

// unsent is why the app's process never got a call.
type unsent struct{ error }

func (e unsent) Unwrap() error { return e.error }

// thrown is an error that the app's code threw.
type thrown struct {
	message string
	code    string // Node's or the system's, such as ERR_ACCESS_DENIED
	odd     bool   // it was no Error
	done    bool   // the function came to its end, and what it gave back can't be sent
}

// tampered says whether it comes of what no app in order does: reaching behind its
// fence, running out of its store, or throwing what is no error.
func (e *thrown) tampered() bool {
	return e.odd || slices.Contains([]string{"ERR_ACCESS_DENIED", "EACCES", "EPERM", "EROFS", "ENOSPC", "EDQUOT", "EMFILE", "EAGAIN"}, e.code)
}

func (e *thrown) Error() string { return e.message }

// message is one of JSON-RPC 2.0.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      *int64          `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    struct {
		Code string `json:"code,omitempty"`
		Odd  bool   `json:"odd,omitempty"`
		Done bool   `json:"done,omitempty"`
	} `json:"data,omitzero"`
}

// wire is a socket to an app's process. What the process does wrong ends the wire with
// a sentence about it.
type wire struct {
	conn  net.Conn
	serve func(ctx context.Context, method string, params json.RawMessage) (any, error)
	blame func(what string) // is told what the process did wrong
	ctx   context.Context   // of the calls that the app makes; ends with the wire
	end   context.CancelFunc
	calls sync.WaitGroup // and what of the box's own calls goes out beside
	slots chan struct{}
	large chan struct{}
	asks  atomic.Int64 // bytes of the calls that are being answered

	write sync.Mutex // one message at a time

	mu        sync.Mutex
	last      int64
	waiting   map[int64]chan message // nil for a call that was given up
	abandoned int
	broken    error // why no call gets an answer any more
}

// newWire makes a wire whose read is to be run by its owner.
func newWire(conn net.Conn, serve func(context.Context, string, json.RawMessage) (any, error)) *wire {
	w := &wire{conn: conn, blame: func(string) {}, serve: serve, waiting: map[int64]chan message{}, slots: make(chan struct{}, maxCalls), large: make(chan struct{}, maxLarge)}
	w.ctx, w.end = context.WithCancel(context.Background())
	return w
}

// close ends the wire and waits for the calls of the app that are being answered.
func (w *wire) close(why error) {
	w.mu.Lock()
	if w.broken == nil {
		w.broken = why
		for _, c := range w.waiting {
			if c != nil {
				close(c)
			}
		}
		w.waiting = map[int64]chan message{}
	}
	w.mu.Unlock()
	w.end()
	w.conn.Close()
	w.calls.Wait()
}

// call calls the app and waits for what it gives back. Ends ctx first, the call is
// given up, and what the app says to it later is dropped.
func (w *wire) call(ctx context.Context, method string, params, into any) error {
	p, err := w.begin(method, params)
	if err != nil {
		return err
	}
	select {
	case m, ok := <-p.answer:
		return p.decode(m, ok, into)
	case err := <-p.unsent:
		return err
	case <-ctx.Done():
		w.giveUp(p.id)
		return context.Cause(ctx)
	}
}

// pending is a call that is on its way. One of its channels gets something, or the first
// is closed, where the wire ends.
type pending struct {
	id     int64
	answer chan message
	unsent chan error // why the app never got it; nil where it has it already
}

// decode is what came of the call.
func (pending) decode(m message, ok bool, into any) error {
	switch {
	case !ok:
		return errGone
	case m.Error != nil:
		return &thrown{m.Error.Message, m.Error.Data.Code, m.Error.Data.Odd, m.Error.Data.Done}
	case into == nil:
		return nil
	}
	if raw, ok := into.(*json.RawMessage); ok && m.Result != nil {
		*raw = m.Result
		return nil
	}
	if err := json.Unmarshal(m.Result, into); err != nil {
		return fmt.Errorf("what it answered is of another shape: %w", err)
	}
	return nil
}

// begin makes a call and waits for nothing, an app that is slow to take it included: what
// the socket doesn't hold goes out beside. Mostly it holds all of it, and then no other
// goroutine has to be woken on the call's way.
func (w *wire) begin(method string, params any) (pending, error) {
	p := pending{answer: make(chan message, 1)}
	w.mu.Lock()
	if w.broken != nil {
		w.mu.Unlock()
		return p, unsent{errGone}
	}
	w.last++
	p.id = w.last
	w.waiting[p.id] = p.answer
	w.mu.Unlock()
	b, err := encode(message{ID: &p.id, Method: method}, params)
	if err != nil {
		w.drop(p.id)
		return p, unsent{err}
	}
	locked := w.write.TryLock()
	if locked {
		n, err := w.now(b)
		if err != nil || n == len(b) {
			w.write.Unlock()
		}
		if err != nil {
			w.giveUp(p.id)
			return p, unsent{err}
		}
		if b = b[n:]; len(b) == 0 {
			return p, nil
		}
	}
	p.unsent = make(chan error, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		if locked {
			w.write.Unlock()
		}
		return p, unsent{errGone}
	}
	w.calls.Go(func() {
		if !locked {
			w.write.Lock()
		}
		defer w.write.Unlock()
		if err := w.slowly(b); err != nil {
			w.giveUp(p.id)
			p.unsent <- unsent{err}
		}
	})
	return p, nil
}

// drop forgets a call that the app has heard nothing of.
func (w *wire) drop(id int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiting, id)
}

func (w *wire) giveUp(id int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.waiting[id]; ok {
		w.waiting[id] = nil
		if w.abandoned++; w.abandoned == maxAbandoned {
			w.blame(fmt.Sprintf("it left %d calls without an answer", maxAbandoned))
			w.conn.Close()
		}
	}
}

// tell sends what needs no answer.
func (w *wire) tell(method string, params any) error { return w.send(message{Method: method}, params) }

func (w *wire) send(m message, params any) error {
	b, err := encode(m, params)
	if err != nil {
		return err
	}
	return w.put(b)
}

// encode is a call's line.
func encode(m message, params any) ([]byte, error) {
	b, err := plain(struct {
		Version string `json:"jsonrpc"`
		ID      *int64 `json:"id,omitempty"`
		Method  string `json:"method"`
		Params  any    `json:"params,omitempty"`
	}{"2.0", m.ID, m.Method, params})
	return append(b, '\n'), err
}

// put sends a line, and waits for the app to take it.
func (w *wire) put(b []byte) error {
	w.write.Lock()
	defer w.write.Unlock()
	n, err := w.now(b)
	if err != nil || n == len(b) {
		return err
	}
	return w.slowly(b[n:])
}

// now sends as much as the socket holds; w.write is held.
func (w *wire) now(b []byte) (n int, err error) {
	raw, err := w.conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return 0, errGone
	}
	var sent error
	err = raw.Write(func(fd uintptr) bool {
		n, sent = unix.Write(int(fd), b)
		return true
	})
	if errors.Is(sent, unix.EAGAIN) || errors.Is(sent, unix.EINTR) {
		sent = nil
	}
	if err != nil || sent != nil {
		w.conn.Close()
		return 0, errGone
	}
	return max(n, 0), nil
}

// slowly sends the rest of a line, for at most writeTime; w.write is held.
func (w *wire) slowly(b []byte) error {
	err := w.conn.SetWriteDeadline(time.Now().Add(writeTime))
	if err == nil {
		_, err = w.conn.Write(b)
	}
	if err == nil {
		w.conn.SetWriteDeadline(time.Time{}) //nolint:errcheck // it fails on a socket that was closed since, and the line is out all the same
		return nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		w.blame(fmt.Sprintf("it took nothing of what the box sends for %s", span(writeTime)))
	}
	// Half a message may be out: nothing more can be said.
	w.conn.Close()
	return errGone
}

// plain is JSON in which text stands as it is.
func plain(v any) (json.RawMessage, error) {
	if raw, ok := v.(json.RawMessage); ok {
		return raw, nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// read reads until the socket ends, and gives the sentence about what the app did
// wrong, or nil.
func (w *wire) read() error {
	in := bufio.NewReaderSize(w.conn, 64<<10)
	for {
		line, err := readLine(in)
		if errors.Is(err, errLong) {
			return fmt.Errorf("it sent a message of more than %d MB", maxMessage>>20)
		}
		if err != nil {
			return nil
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			return errors.New("it wrote something else than the box's messages to its socket")
		}
		if err := w.take(m); err != nil {
			return err
		}
		if m.Method == "" {
			runtime.Gosched() // who waits for it goes on first, and not once this found that there is no more to read
		}
	}
}

// take deals with one message.
func (w *wire) take(m message) error {
	switch {
	case m.ID == nil:
		return errors.New("it sent a message without a number")
	case m.Method != "":
		return w.asked(m)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c, ok := w.waiting[*m.ID]
	delete(w.waiting, *m.ID)
	switch {
	case !ok:
		return errors.New("it answered a call that the box did not make")
	case c == nil:
		w.abandoned--
	default:
		c <- m
	}
	return nil
}

// asked answers a call of the app's, unless it has too many under way, or too much in
// them. It never waits: an answer that a call under way needs may be the next message.
func (w *wire) asked(m message) error {
	size := int64(len(m.Params))
	if w.asks.Add(size) > maxAsked {
		w.asks.Add(-size)
		w.reply(*m.ID, nil, fmt.Errorf("more than %d MB in calls at once: wait for some of them first", maxAsked>>20))
		return nil
	}
	select {
	case w.slots <- struct{}{}:
	default:
		w.asks.Add(-size)
		w.reply(*m.ID, nil, fmt.Errorf("more than %d calls at once: wait for some of them first", maxCalls))
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil { // who closed it may wait for the calls already
		<-w.slots
		w.asks.Add(-size)
		return nil
	}
	w.calls.Go(func() {
		defer func() { <-w.slots }()
		if slices.Contains(largeMethods, m.Method) {
			select {
			case w.large <- struct{}{}:
				defer func() { <-w.large }()
			case <-w.ctx.Done():
				return
			}
		}
		out, err := w.serve(w.ctx, m.Method, m.Params)
		w.asks.Add(-size)
		w.reply(*m.ID, out, err)
	})
	return nil
}

func (w *wire) reply(id int64, out any, err error) {
	m := message{ID: &id}
	if err == nil {
		m.Result, err = plain(out)
	}
	if err != nil {
		m.Result, m.Error = nil, &rpcError{Code: -32000, Message: err.Error()}
	}
	m.Version = "2.0"
	b, err := plain(m)
	if err == nil {
		err = w.put(append(b, '\n'))
	}
	if err != nil {
		w.end() // it is gone
	}
}

// serveOne answers the calls of a socket that has one at a time.
func (w *wire) serveOne() error {
	in := bufio.NewReaderSize(w.conn, 4<<10)
	for {
		line, err := readLine(in)
		if errors.Is(err, errLong) {
			return fmt.Errorf("it sent a message of more than %d MB", maxMessage>>20)
		}
		if err != nil {
			return nil
		}
		var m message
		if json.Unmarshal(line, &m) != nil || m.ID == nil || m.Method == "" {
			return errors.New("it wrote something else than the box's messages to its socket")
		}
		out, err := w.serve(w.ctx, m.Method, m.Params)
		w.reply(*m.ID, out, err)
	}
}

var errLong = errors.New("a line is too long")

// readLine reads up to a newline, at most maxMessage bytes.
func readLine(in *bufio.Reader) ([]byte, error) {
	var whole []byte
	for {
		part, err := in.ReadSlice('\n')
		if whole == nil && err == nil {
			return part, nil // valid until the next read: it is decoded before that
		}
		if len(whole)+len(part) > maxMessage {
			return nil, errLong
		}
		whole = append(whole, part...)
		if err == nil {
			return whole, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}

package api

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// writer is a ResponseWriter that knows what it answered and that gives a client
// the grace for each write, so that one who doesn't read is let go.
type writer struct {
	http.ResponseWriter
	rc      *http.ResponseController
	status  int
	started bool
}

func newWriter(w http.ResponseWriter) *writer {
	return &writer{ResponseWriter: w, rc: http.NewResponseController(w), status: http.StatusOK}
}

func (w *writer) WriteHeader(status int) {
	w.status, w.started = status, true
	w.extend()
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(b []byte) (int, error) {
	w.started = true
	w.extend()
	return w.ResponseWriter.Write(b)
}

func (w *writer) flush() error {
	w.started = true
	w.extend()
	return w.rc.Flush()
}

// extend moves the deadline. net/http takes none back by itself when a
// connection goes on to its next request.
func (w *writer) extend() {
	w.rc.SetWriteDeadline(time.Now().Add(grace)) // a recorder in tests has none
}

// body is a request's body that must arrive at slowest bytes a second on the
// whole, after a grace.
type body struct {
	io.ReadCloser
	rc    *http.ResponseController
	began time.Time
	read  int64
	over  bool
}

func (b *body) Read(p []byte) (int, error) {
	b.rc.SetReadDeadline(b.began.Add(grace + time.Duration(b.read)*time.Second/slowest))
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if errors.Is(err, io.EOF) {
		// A deadline that stays would end a long handler's context.
		b.over = true
		b.rc.SetReadDeadline(time.Time{})
	}
	return n, err
}

// end bounds how long net/http may go on discarding what the handler left.
func (b *body) end() {
	if !b.over {
		b.rc.SetReadDeadline(time.Now().Add(endTime))
	}
}

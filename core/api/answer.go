package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/core/actionlog"
	"gurtos/core/app"
	"gurtos/core/device"
	"gurtos/core/settings"
	"gurtos/core/strict"
	"gurtos/core/task"
	"gurtos/core/vault"
	"gurtos/core/workspace"
	"gurtos/sandbox/layers"
)

// Error is an answer that is no success.
type Error struct {
	Status   int
	Sentence string
	More     map[string]any // other fields of the answer
	header   http.Header    // headers that go with it
}

func (e *Error) Error() string { return e.Sentence }

func notFound(format string, a ...any) error {
	return &Error{Status: http.StatusNotFound, Sentence: fmt.Sprintf(format, a...)}
}

func bad(format string, a ...any) error {
	return &Error{Status: http.StatusBadRequest, Sentence: fmt.Sprintf(format, a...)}
}

// asError turns what the box's parts say into an answer. What it doesn't know
// is a 500, whose cause goes to the box's own log alone.
func asError(err error) *Error {
	var (
		is       *Error
		tooLarge *http.MaxBytesError
		missing  *task.NotFound
		gone     *task.Gone
		off      *task.Forbidden
		slow     *device.Slow
		blamed   *app.Refusal
	)
	switch {
	case errors.As(err, &is):
		return is
	case errors.As(err, &tooLarge):
		return &Error{Status: http.StatusRequestEntityTooLarge, Sentence: fmt.Sprintf("the body is larger than %s", size(tooLarge.Limit))}
	case errors.As(err, &missing):
		return &Error{Status: http.StatusNotFound, Sentence: err.Error()}
	case errors.As(err, &gone):
		return &Error{Status: http.StatusGone, Sentence: err.Error()}
	case errors.As(err, &off):
		return &Error{Status: http.StatusForbidden, Sentence: err.Error()}
	case errors.As(err, &blamed):
		return &Error{Status: blamed.Status, Sentence: blamed.Sentence}
	case errors.As(err, &slow):
		h := http.Header{"Retry-After": {strconv.Itoa(int(slow.After/time.Second) + 1)}}
		return &Error{Status: http.StatusTooManyRequests, Sentence: err.Error(), header: h}
	case errors.Is(err, vault.ErrMissing), errors.Is(err, device.ErrMissing), errors.Is(err, workspace.ErrMissing):
		return &Error{Status: http.StatusNotFound, Sentence: err.Error()}
	case isMistake(err):
		return &Error{Status: http.StatusBadRequest, Sentence: err.Error()}
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return &Error{Status: http.StatusInsufficientStorage, Sentence: "the box's disk is full: undo tasks that are not needed (box task undo), which deletes their files, or set keepDays lower, and try again"}
	case errors.Is(err, unix.EROFS):
		return &Error{Status: http.StatusServiceUnavailable, Sentence: "the box's disk can only be read: nothing can be changed until it is mended. Restart the box"}
	case errors.Is(err, actionlog.ErrClosed):
		return &Error{Status: http.StatusServiceUnavailable, Sentence: "the box is shutting down"}
	}
	return nil
}

// isMistake says that the one who asked got something wrong.
func isMistake(err error) bool {
	var (
		a *task.Invalid
		b *task.Refused
		c *task.Over
		d *strict.Error
		e *settings.Invalid
		f *vault.Invalid
		g *device.Invalid
		h *device.Wrong
		i *layers.PathError
	)
	return errors.As(err, &a) || errors.As(err, &b) || errors.As(err, &c) || errors.As(err, &d) ||
		errors.As(err, &e) || errors.As(err, &f) || errors.As(err, &g) || errors.As(err, &h) || errors.As(err, &i) ||
		errors.Is(err, workspace.ErrName) || errors.Is(err, workspace.ErrExists)
}

// fail encodes an error.
func (s *Server) fail(c *call, err error) {
	gone := c.r.Context().Err() != nil && errors.Is(err, context.Canceled) // the client went away, or boxd ends
	if c.w.started {
		// The status is out; only an ended connection can tell that it went wrong.
		if !gone {
			s.opt.Log.Error("answer broken off", "route", c.route.name(), "err", err)
		}
		panic(http.ErrAbortHandler)
	}
	e := asError(err)
	switch {
	case e != nil:
	case gone:
		panic(http.ErrAbortHandler)
	case s.opt.Broken != nil && s.opt.Broken() != nil:
		s.opt.Log.Error("request failed", "route", c.route.name(), "err", err)
		e = &Error{Status: http.StatusServiceUnavailable, Sentence: "the action log can't be written, so the box takes no work: " + s.opt.Broken().Error()}
	default:
		s.opt.Log.Error("request failed", "route", c.route.name(), "err", err)
		e = &Error{Status: http.StatusInternalServerError, Sentence: "something went wrong inside the box; its own log tells what"}
	}
	h := c.w.Header()
	for name, v := range e.header {
		h[name] = v
	}
	for _, name := range []string{"Content-Disposition", "ETag", "Last-Modified", "Content-Length"} {
		h.Del(name)
	}
	if foreign(c.r.URL.Path) {
		h.Set("Content-Security-Policy", sandboxed)
		if c.r.Method == http.MethodGet && navigates(c.r) && s.failPage(c, e) == nil {
			return
		}
	}
	body := map[string]any{"error": e.Sentence}
	for k, v := range e.More {
		body[k] = v
	}
	c.json(e.Status, body)
}

// json answers with a JSON value.
func (c *call) json(status int, v any) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text) // it ends with a line break
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encoding the answer: %w", err)
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(text.Len()))
	h.Set("Cache-Control", "no-store")
	c.w.WriteHeader(status)
	if c.r.Method != http.MethodHead {
		c.w.Write(text.Bytes()) // a failed write is the client's loss
	}
	return nil
}

func size(n int64) string {
	switch {
	case n >= 1<<30 && n%(1<<30) == 0:
		return fmt.Sprintf("%d GB", n>>30)
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

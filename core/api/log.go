package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"gurtos/core/actionlog"
)

const (
	chunk     = 64 << 10         // of a streamed answer
	heartbeat = 15 * time.Second // between comments on a quiet stream
)

// errEnough ends the reading of the log early.
var errEnough = errors.New("enough")

// log streams lines as they stand in the file: none is decoded unless a task is
// asked for and its id stands in the line.
func (s *Server) log(c *call) error {
	q, err := c.query()
	if err != nil {
		return err
	}
	after, err := whole(q, "after", 0, 0, maxSeq)
	if err != nil {
		return err
	}
	limit, err := whole(q, "limit", maxSeq, 1, maxSeq)
	if err != nil {
		return err
	}
	keep, err := ofTask(q.Get("task"), q.Has("task"))
	if err != nil {
		return err
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	if c.r.Method == http.MethodHead {
		return nil
	}
	out := bufio.NewWriterSize(c.w, chunk)
	sep := "["
	err = s.opt.Events.Read(c.r.Context(), after, func(line []byte, _ func() (actionlog.Event, error)) error {
		if limit == 0 {
			return errEnough
		}
		if ok, err := keep(line); err != nil || !ok {
			return err
		}
		limit--
		if _, err := out.WriteString(sep); err != nil {
			return err
		}
		sep = ",\n"
		_, err := out.Write(line)
		return err
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	if sep == "[" {
		out.WriteString(sep)
	}
	out.WriteString("]\n")
	return out.Flush()
}

// ofTask says which lines are a task's.
func ofTask(id string, only bool) (func(line []byte) (bool, error), error) {
	if !only {
		return func([]byte) (bool, error) { return true, nil }, nil
	}
	if id == "" || len(id) > 64 || strings.ContainsAny(id, `"\`) {
		return nil, bad("task: a task's id is needed")
	}
	mark := []byte(`"` + id + `"`)
	return func(line []byte) (bool, error) {
		if !bytes.Contains(line, mark) {
			return false, nil
		}
		var ev struct {
			Task string `json:"task"`
		}
		if err := json.Unmarshal(line, &ev); err != nil {
			return false, fmt.Errorf("a line of the log can't be read: %w", err)
		}
		return ev.Task == id, nil
	}, nil
}

// forDevice says which lines a device that is no owner may follow: what becomes
// of tasks and approvals.
func forDevice(line []byte) (bool, error) {
	var ev struct {
		Type actionlog.Type `json:"type"`
	}
	if err := json.Unmarshal(line, &ev); err != nil {
		return false, fmt.Errorf("a line of the log can't be read: %w", err)
	}
	switch ev.Type {
	case actionlog.TypeTaskCreated, actionlog.TypeTaskState, actionlog.TypeTaskStep,
		actionlog.TypeApprovalAsked, actionlog.TypeApprovalAnswered:
		return true, nil
	}
	return false, nil
}

// events streams the log live. It ends with the client, the device's pairing or
// boxd.
func (s *Server) events(c *call) error {
	q, err := c.query()
	if err != nil {
		return err
	}
	after, err := whole(q, "after", 0, 0, maxSeq)
	if err != nil {
		return err
	}
	if last := c.r.Header.Get("Last-Event-ID"); last != "" {
		if after, err = strconv.ParseInt(last, 10, 64); err != nil || after < 0 {
			return bad("Last-Event-ID: a whole number of 0 or more is needed")
		}
	}
	keep := func([]byte) (bool, error) { return true, nil }
	if c.caller.kind == member {
		keep = forDevice
	}
	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	c.w.WriteHeader(http.StatusOK)
	if c.r.Method == http.MethodHead {
		return nil
	}
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
	f := newFeed()
	ended := make(chan error, 1)
	go func() {
		ended <- s.opt.Events.Follow(ctx, after, func(line []byte, _ func() (actionlog.Event, error)) error {
			if ok, err := keep(line); err != nil || !ok {
				return err
			}
			return f.put(ctx, line)
		})
	}()
	if c.stream(ctx, s.ending, f, ended) {
		return nil
	}
	cancel()
	<-ended
	return nil
}

// stream sends what comes until somebody ends it; true when that was the log.
func (c *call) stream(ctx context.Context, ending <-chan struct{}, f *feed, ended <-chan error) bool {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	out := []byte("retry: 2000\n\n")
	for {
		if _, err := c.w.Write(out); err != nil {
			return false // the client went away; it comes back with Last-Event-ID
		}
		if err := c.w.flush(); err != nil {
			return false
		}
		select {
		case <-f.wake:
			out = f.take(out)
			beat.Reset(heartbeat)
		case <-beat.C:
			out = append(out[:0], ": still here\n\n"...)
		case <-c.caller.gone:
			return false
		case <-ending:
			return false
		case <-ctx.Done():
			return false
		case <-ended:
			return true
		}
	}
}

// feed is the events between the log's reader and the client. Neither waits for
// the other while there is room.
type feed struct {
	wake chan struct{} // there is something to take
	room chan struct{} // something was taken

	mu  sync.Mutex
	buf []byte // guarded by mu
}

func newFeed() *feed { return &feed{wake: make(chan struct{}, 1), room: make(chan struct{}, 1)} }

// put appends a line as an event.
func (f *feed) put(ctx context.Context, line []byte) error {
	seq, err := seqOf(line)
	if err != nil {
		return err
	}
	for {
		f.mu.Lock()
		if len(f.buf) < chunk {
			f.buf = append(strconv.AppendInt(append(f.buf, "id: "...), seq, 10), "\ndata: "...)
			f.buf = append(append(f.buf, line...), "\n\n"...)
			f.mu.Unlock()
			ring(f.wake)
			return nil
		}
		f.mu.Unlock()
		select {
		case <-f.room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// take gives all that is there for a buffer to fill next.
func (f *feed) take(empty []byte) []byte {
	f.mu.Lock()
	full := f.buf
	f.buf = empty[:0]
	f.mu.Unlock()
	ring(f.room)
	return full
}

func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// seqOf reads the number that a line of the log begins with.
func seqOf(line []byte) (int64, error) {
	var ev struct {
		Seq int64 `json:"seq"`
	}
	if rest, ok := bytes.CutPrefix(line, []byte(`{"seq":`)); ok {
		if n, err := strconv.ParseInt(string(rest[:max(0, bytes.IndexAny(rest, ",}"))]), 10, 64); err == nil {
			return n, nil
		}
	}
	if err := json.Unmarshal(line, &ev); err != nil {
		return 0, fmt.Errorf("a line of the log can't be read: %w", err)
	}
	return ev.Seq, nil
}

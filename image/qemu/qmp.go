package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
)

var errGone = errors.New("the virtual machine has ended")

// qmp is a connection to QEMU's machine protocol: one command at a time.
type qmp struct {
	conn net.Conn
	busy sync.Mutex // held over a command and its answer

	answers chan answer // closed at the end of the connection

	mu     sync.Mutex // guards events and changed
	events []string
	change chan struct{} // closed and renewed at each event
}

type answer struct {
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Desc string `json:"desc"`
	} `json:"error"`
	Event string `json:"event"`
}

func newQMP(c net.Conn) (*qmp, error) {
	q := &qmp{conn: c, answers: make(chan answer, 1), change: make(chan struct{})}
	dec := json.NewDecoder(c)
	var greeting json.RawMessage
	if err := dec.Decode(&greeting); err != nil {
		return nil, fmt.Errorf("qmp greeting: %w", err)
	}
	go q.read(dec)
	return q, q.command(context.Background(), "qmp_capabilities", nil, nil)
}

// read ends with the connection.
func (q *qmp) read(dec *json.Decoder) {
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		close(q.answers)
		close(q.change)
		q.change = nil
	}()
	for {
		var a answer
		if dec.Decode(&a) != nil {
			return
		}
		if a.Event == "" {
			q.answers <- a
			continue
		}
		q.mu.Lock()
		q.events = append(q.events, a.Event)
		close(q.change)
		q.change = make(chan struct{})
		q.mu.Unlock()
	}
}

func (q *qmp) close() { q.conn.Close() }

func (q *qmp) command(ctx context.Context, name string, args, result any) error {
	q.busy.Lock()
	defer q.busy.Unlock()
	m := map[string]any{"execute": name}
	if args != nil {
		m["arguments"] = args
	}
	if err := json.NewEncoder(q.conn).Encode(m); err != nil {
		return errGone
	}
	var a answer
	var ok bool
	select {
	case a, ok = <-q.answers:
	case <-ctx.Done():
		q.close() // the answer may still come: nobody could tell whose it is
		return fmt.Errorf("qmp %s: %w", name, context.Cause(ctx))
	}
	switch {
	case !ok:
		return errGone
	case a.Error != nil:
		return fmt.Errorf("qmp %s: %s", name, a.Error.Desc)
	case result != nil:
		return json.Unmarshal(a.Return, result)
	}
	return nil
}

func (q *qmp) event(ctx context.Context, name string) error {
	for {
		q.mu.Lock()
		i, change := slices.Index(q.events, name), q.change
		if i >= 0 {
			q.events = slices.Delete(q.events, i, i+1)
		}
		q.mu.Unlock()
		if i >= 0 {
			return nil
		}
		if change == nil {
			return errGone
		}
		select {
		case <-change:
		case <-ctx.Done():
			return fmt.Errorf("no %s event: %w", name, context.Cause(ctx))
		}
	}
}

package daemon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

// eventPatience is how long a box may be silent while a test waits for it.
const eventPatience = 5 * time.Minute

// client keeps no connection: the box would count it.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// Call sends a request from the box's own screen, which has to go well.
func (h *Home) Call(method, path string, in, out any) {
	h.t.Helper()
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			h.t.Fatal(err)
		}
	}
	text := h.send(method, path, body)
	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			h.t.Fatalf("%s %s: %v in %s", method, path, err, text)
		}
	}
}

// Get is what a path of the API answers.
func (h *Home) Get(path string) string {
	h.t.Helper()
	return string(h.send("GET", path, nil))
}

func (h *Home) send(method, path string, body []byte) []byte {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.URL()+path, bytes.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		h.t.Fatalf("%s %s: %s %s %v", method, path, resp.Status, text, err)
	}
	return text
}

// Event is what tests read of a line of the log.
type Event struct {
	Seq   int64           `json:"seq"`
	Type  string          `json:"type"`
	Task  string          `json:"task"`
	State string          `json:"state"`
	Error string          `json:"error"`
	Data  json.RawMessage `json:"data"`
}

// Events are the log's lines as they come.
type Events struct {
	body  io.Closer
	lines *bufio.Reader
	stop  context.CancelFunc
}

// Follow reads the log from its end on.
func (h *Home) Follow() *Events {
	h.t.Helper()
	var box struct{ LogHead struct{ Seq int64 } }
	h.Call("GET", "/api/box", nil, &box)
	ctx, stop := context.WithCancel(h.t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("%s/api/events?after=%d", h.URL(), box.LogHead.Seq), nil)
	if err != nil {
		h.t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	return &Events{resp.Body, bufio.NewReader(resp.Body), stop}
}

// Next is the next line that fits.
func (e *Events) Next(t testing.TB, fits func(Event) bool) Event {
	t.Helper()
	late := time.AfterFunc(eventPatience, e.stop)
	defer late.Stop()
	for {
		line, err := e.lines.ReadBytes('\n')
		if err != nil {
			t.Fatalf("waiting for a line of the log: %v", errors.Join(err, t.Context().Err()))
		}
		data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: "))
		if !ok {
			continue
		}
		var ev Event
		if err := json.Unmarshal(data, &ev); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		if fits(ev) {
			return ev
		}
	}
}

// Close ends the reading.
func (e *Events) Close() {
	e.stop()
	e.body.Close()
}

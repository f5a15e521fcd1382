package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"gurtos/core/strict"
	"gurtos/core/task"
)

// Limits of what a task sends, in bytes.
const (
	drain      = 64 << 20 // bytes of a body that is too large, read and thrown away
	maxBody    = 10 << 20 // of any request
	maxSmall   = 64 << 10 // of a POST other than /call
	maxWritten = 20 << 20 // of all POST bodies of a task since the box started
)

// maxPosts is how many bodies of one task are read and worked on in memory at once;
// more wait.
const maxPosts = 16

// maxSteps is how many answers of GET /task are made and sent at once; more wait. Each
// holds all steps, up to 20 MB of them, for as long as its reader takes.
const maxSteps = 2

// maxLarge is how many answers with a long output are made and sent at once, to one task;
// more wait. Each holds the output a few times, for as long as its reader takes.
const (
	maxLarge = 2
	large    = 64 << 10 // bytes of an output
)

// desk answers the requests of one task.
type desk struct {
	*Broker
	id    string
	posts chan struct{}
	steps chan struct{}
	large chan struct{}
}

// placed is an answer that holds a place until it is sent.
type placed struct {
	body any
	free func()
}

// reply is what a handler answers, as JSON.
type reply struct {
	status int // 200 when 0
	body   any
}

func (d *desk) routes() http.Handler {
	mux := http.NewServeMux()
	get := func(path string, h func(ctx context.Context) (any, error)) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			v, err := h(r.Context())
			d.answer(w, v, err)
		})
	}
	post := func(path string, most int64, h func(ctx context.Context, body []byte) (any, error)) {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			body, err := d.body(w, r, most)
			if err != nil {
				d.answer(w, nil, err)
				return
			}
			v, err := h(r.Context(), body)
			if h, ok := v.(placed); ok {
				defer h.free()
				v = h.body
			}
			d.answer(w, v, err)
		})
	}
	mux.HandleFunc("GET /task", func(w http.ResponseWriter, r *http.Request) {
		select {
		case d.steps <- struct{}{}:
			defer func() { <-d.steps }()
		case <-r.Context().Done():
			return
		}
		v, err := d.task(r.Context())
		d.answer(w, v, err)
	})
	get("/tools", d.tools)
	post("/step", maxSmall, d.step)
	post("/call", maxBody, d.call)
	post("/ask", maxSmall, d.ask)
	post("/cost", maxSmall, d.cost)
	post("/usage", maxSmall, d.usage)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		d.answer(w, nil, &refusal{http.StatusNotFound, "the broker has no " + r.Method + " " + clip(r.URL.Path)})
	})
	return mux
}

// refusal is an error with a status of its own; every other one is 400.
type refusal struct {
	status   int
	sentence string
}

func (e *refusal) Error() string { return e.sentence }

// body reads a POST's body and counts it. Only maxPosts are read at once, so that
// many large ones can't fill the box's memory.
func (d *desk) body(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	select {
	case d.posts <- struct{}{}:
		defer func() { <-d.posts }()
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	var long *http.MaxBytesError
	if errors.As(err, &long) {
		io.CopyN(io.Discard, r.Body, drain) // a client reads the answer only once it could send
	}
	// The server's limit is for the request. Left in place it would end the wait for an
	// answer, since the server goes on reading to see whether the client is there.
	if derr := http.NewResponseController(w).SetReadDeadline(time.Time{}); derr != nil && err == nil {
		err = derr
	}
	switch {
	case errors.As(err, &long) && most == maxSmall:
		return nil, &refusal{http.StatusRequestEntityTooLarge, "a step, question or cost is at most 64 KB"}
	case errors.As(err, &long):
		return nil, &refusal{http.StatusRequestEntityTooLarge, "a request is at most 10 MB"}
	case err != nil:
		return nil, fmt.Errorf("the request broke off: %w", err)
	}
	return b, d.count(int64(len(b)))
}

// count books what the task writes and refuses what is too much in all.
func (d *desk) count(n int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.written[d.id]+n > maxWritten {
		return &refusal{http.StatusTooManyRequests, "this task has written 20 MB to the action log; it may write no more"}
	}
	d.written[d.id] += n
	return nil
}

func (d *desk) answer(w http.ResponseWriter, v any, err error) {
	status := http.StatusOK
	if err != nil {
		status = http.StatusBadRequest
		var own *refusal
		if errors.As(err, &own) {
			status = own.status
		}
		v = map[string]string{"error": err.Error()}
	}
	b, merr := json.Marshal(v)
	if merr != nil {
		d.opt.Slog.Error("an answer could not be written as JSON", "task", d.id, "why", merr)
		http.Error(w, `{"error":"the box could not write its answer"}`, http.StatusInternalServerError)
		return
	}
	b = append(b, '\n')
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, err = w.Write(b)
	// Sent before the handler returns: a task that was caught is killed right after.
	if ferr := http.NewResponseController(w).Flush(); err != nil || ferr != nil {
		d.opt.Slog.Debug("a worker went away before its answer", "task", d.id, "why", errors.Join(err, ferr))
	}
}

// read decodes a body strictly.
func read(body []byte, into any) error {
	err := strict.Decode(body, into)
	var bad *strict.Error
	if errors.As(err, &bad) {
		return &task.Invalid{Field: bad.Field, Sentence: bad.Sentence}
	}
	return err
}

func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

func (d *desk) task(ctx context.Context) (any, error) {
	t, steps, err := d.opt.Tasks.Steps(ctx, d.id)
	if err != nil {
		return nil, err
	}
	if steps == nil {
		steps = []task.Step{}
	}
	out := map[string]any{"task": t, "steps": steps}
	text, err := d.opt.Tasks.Context(d.id)
	if err != nil {
		return nil, err
	}
	if text != "" {
		out["context"] = text // from the task's apps, for its prompt
	}
	return out, nil
}

type listed struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Input       json.RawMessage `json:"input"`
	Spends      bool            `json:"spends"`
}

func (d *desk) tools(ctx context.Context) (any, error) {
	t, err := d.opt.Tasks.Get(ctx, d.id)
	if err != nil {
		return nil, err
	}
	out := []listed{}
	for _, name := range t.Tools {
		tl, ok := d.opt.Tools.Lookup(name)
		if !ok {
			continue // its app was turned off
		}
		input := tl.Input
		if len(input) == 0 {
			input = anyObject
		}
		out = append(out, listed{tl.Name, tl.Description, input, tl.Cost != nil})
	}
	return out, nil
}

type stepRequest struct {
	Text string          `json:"text"`
	Data json.RawMessage `json:"data"`
}

func (d *desk) step(ctx context.Context, body []byte) (any, error) {
	var r stepRequest
	if err := read(body, &r); err != nil {
		return nil, err
	}
	if r.Text == "" {
		return nil, &task.Invalid{Field: "text", Sentence: "what was done is needed"}
	}
	ev, err := d.opt.Tasks.Step(ctx, d.id, r.Text, r.Data)
	if err != nil {
		return nil, err
	}
	return &ev, nil
}

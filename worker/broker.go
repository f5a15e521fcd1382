package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// Broker is the client of a task's broker. It sets no time limit: a request
// waits for as long as the box is paused or an answer is outstanding.
type Broker struct {
	http http.Client
	// Again is how long to wait before a pending request is made again. The
	// broker itself waits first, so this only keeps a broken one from being
	// asked in a loop.
	Again time.Duration
}

// Open makes the client of the broker at BOX_SOCKET.
func Open() (*Broker, error) {
	socket := os.Getenv("BOX_SOCKET")
	if socket == "" {
		return nil, errors.New("BOX_SOCKET is not set: a worker runs inside a task's sandbox only")
	}
	return New(socket), nil
}

// New makes the client of the broker at a socket.
func New(socket string) *Broker {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	return &Broker{http: http.Client{Transport: &http.Transport{DialContext: dial}}, Again: time.Second}
}

// Task is what the broker says about the task; the rest of what it sends is for
// other readers.
type Task struct {
	ID        string   `json:"id"`
	Title     string   `json:"title"`
	Prompt    string   `json:"prompt"`
	Workspace string   `json:"workspace"`
	Model     string   `json:"model"`
	Tools     []string `json:"tools"`
}

// Step is one line of progress that the task has logged.
type Step struct {
	Text string          `json:"text"`
	Data json.RawMessage `json:"data"`
}

// Task gives the task and every step that it logged in earlier runs.
func (b *Broker) Task(ctx context.Context) (Task, []Step, error) {
	var answer struct {
		Task  Task   `json:"task"`
		Steps []Step `json:"steps"`
	}
	err := b.do(ctx, http.MethodGet, "/task", nil, &answer)
	return answer.Task, answer.Steps, err
}

// Step logs a line of progress. When it returns, what the task wrote before is
// on disk.
func (b *Broker) Step(ctx context.Context, text string, data any) error {
	return b.do(ctx, http.MethodPost, "/step", map[string]any{"text": text, "data": data}, nil)
}

// Answer is how a tool call went. Raw is the whole of it as the broker sent it.
type Answer struct {
	OK      bool            `json:"ok"`
	Pending bool            `json:"pending"`
	Output  json.RawMessage `json:"output"`
	Error   string          `json:"error"`
	Raw     json.RawMessage `json:"-"`
}

// Call runs a tool. The same key gives the same result, now and after a restart.
// It waits until no OK is outstanding.
func (b *Broker) Call(ctx context.Context, tool string, input json.RawMessage, key string) (Answer, error) {
	body := map[string]any{"tool": tool, "input": input, "key": key}
	for {
		var raw json.RawMessage
		if err := b.do(ctx, http.MethodPost, "/call", body, &raw); err != nil {
			return Answer{}, err
		}
		a := Answer{Raw: raw}
		if err := json.Unmarshal(raw, &a); err != nil {
			return Answer{}, fmt.Errorf("the broker's answer to a call: %w", err)
		}
		if !a.Pending {
			return a, nil
		}
		if err := b.wait(ctx); err != nil {
			return Answer{}, err
		}
	}
}

// Ask asks the owner and waits for the answer, for as long as it takes.
func (b *Broker) Ask(ctx context.Context, question, key string) (approved bool, err error) {
	for {
		var answer struct {
			Approved *bool `json:"approved"`
			Pending  bool  `json:"pending"`
		}
		if err := b.do(ctx, http.MethodPost, "/ask", map[string]any{"question": question, "key": key}, &answer); err != nil {
			return false, err
		}
		switch {
		case answer.Approved != nil:
			return *answer.Approved, nil
		case !answer.Pending:
			return false, errors.New("the broker's answer to a question says neither yes, no nor pending")
		}
		if err := b.wait(ctx); err != nil {
			return false, err
		}
	}
}

// Cost records what the task itself spent, in US cents.
func (b *Broker) Cost(ctx context.Context, cents json.Number, what string) error {
	return b.do(ctx, http.MethodPost, "/cost", map[string]any{"cents": cents, "what": what}, nil)
}

func (b *Broker) wait(ctx context.Context) error {
	t := time.NewTimer(b.Again)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Refusal is an error that the broker answered with.
type Refusal struct {
	Status int
	Why    string
}

func (r *Refusal) Error() string { return r.Why }

// mostAnswer is more than the broker ever answers.
const mostAnswer = 64 << 20

func (b *Broker) do(ctx context.Context, method, path string, body, answer any) error {
	var send io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		send = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://box"+path, send)
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := b.http.Do(req)
	if err != nil {
		return fmt.Errorf("the broker does not answer: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	if err != nil {
		return fmt.Errorf("the broker's answer broke off: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		var e struct {
			Error string `json:"error"`
		}
		if json.Unmarshal(text, &e) != nil || e.Error == "" {
			e.Error = fmt.Sprintf("the broker answered %s to %s %s", resp.Status, method, path)
		}
		return &Refusal{resp.StatusCode, e.Error}
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("the broker's answer to %s %s: %w", method, path, err)
	}
	return nil
}

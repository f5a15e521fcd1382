package box

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/task"
)

// New starts a task of worker fake; each line is one command.
func (a *API) New(workspace, title string, lines ...string) task.Task {
	a.t.Helper()
	var made task.Task
	a.Do("POST", "/api/tasks", map[string]any{
		"title": title, "prompt": strings.Join(lines, "\n"), "workspace": workspace, "worker": "fake",
	}, &made)
	return made
}

// Task reads a task.
func (a *API) Task(id string) task.Task {
	a.t.Helper()
	var got task.Task
	a.Get("/api/tasks/"+id, &got)
	return got
}

// End waits until a task is done, failed or undone.
func (a *API) End(id string, limit time.Duration) task.Task {
	a.t.Helper()
	ended := func(s task.State) bool { return s == task.Done || s == task.Failed || s == task.Undone }
	f := a.Follow(0)
	defer f.Close()
	f.Until(limit, "the end of task "+id, func(e actionlog.Event) bool {
		return e.Task == id && e.Type == actionlog.TypeTaskState && ended(task.State(e.State))
	})
	return a.Task(id)
}

// Done runs a task of worker fake to its end, which has to be a good one.
func (a *API) Done(workspace, title string, lines ...string) task.Task {
	a.t.Helper()
	got := a.End(a.New(workspace, title, lines...).ID, 3*time.Minute)
	if got.State != task.Done {
		a.t.Fatalf("task %q is %s: %s", title, got.State, got.Error)
	}
	return got
}

// Steps are the data of a task's steps that carry a line number, in order.
func (a *API) Steps(id string) []Step {
	a.t.Helper()
	var steps []Step
	for _, e := range a.Log() {
		if e.Task != id || e.Type != actionlog.TypeTaskStep || e.Data == nil {
			continue
		}
		var s Step
		if err := json.Unmarshal(e.Data, &s); err == nil && s.Line > 0 {
			steps = append(steps, s)
		}
	}
	return steps
}

// Step is what the fake worker says of a line.
type Step struct {
	Line   int
	Exit   int
	Output string
	Text   string
}

// Log reads the whole log.
func (a *API) Log() []actionlog.Event {
	a.t.Helper()
	var events []actionlog.Event
	a.Get("/api/log", &events)
	return events
}

// Follower listens to the log as it grows.
type Follower struct {
	t      testing.TB
	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex // guards all below
	events []actionlog.Event
	err    error
	change chan struct{}
}

// Follow listens from after a line on.
func (a *API) Follow(after int64) *Follower {
	a.t.Helper()
	ctx, cancel := context.WithCancel(a.t.Context())
	f := &Follower{t: a.t, cancel: cancel, done: make(chan struct{}), change: make(chan struct{})}
	go func() {
		defer close(f.done)
		err := f.listen(ctx, a, after)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.err = err
		close(f.change)
		f.change = nil
	}()
	return f
}

func (f *Follower) listen(ctx context.Context, a *API, after int64) error {
	resp, err := a.send(ctx, "GET", fmt.Sprintf("/api/events?after=%d", after), "", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		return fmt.Errorf("GET /api/events: %s", resp.Status)
	}
	return events(resp.Body, func(e actionlog.Event) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.events = append(f.events, e)
		close(f.change)
		f.change = make(chan struct{})
	})
}

// Seen is what came so far.
func (f *Follower) Seen() []actionlog.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.events)
}

// Until waits for an event and gives it.
func (f *Follower) Until(limit time.Duration, what string, match func(actionlog.Event) bool) actionlog.Event {
	f.t.Helper()
	timeout := time.After(limit)
	for looked := 0; ; {
		f.mu.Lock()
		events, change, err := f.events, f.change, f.err
		f.mu.Unlock()
		for ; looked < len(events); looked++ {
			if match(events[looked]) {
				return events[looked]
			}
		}
		if change == nil {
			f.t.Fatalf("waiting for %s: the stream of events ended: %v", what, err)
		}
		select {
		case <-change:
		case <-timeout:
			f.t.Fatalf("%s did not come within %v; %d events came, at last %+v", what, limit, len(events), events[max(0, len(events)-1):])
		}
	}
}

// Close stops listening.
func (f *Follower) Close() {
	f.cancel()
	<-f.done
}

package task

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"

	"gurtos/core/actionlog"
)

// Create makes a task of the body of a request, a TaskSpec in JSON. What is wrong
// with it is an *Invalid, and then nothing was made.
func (t *Tasks) Create(ctx context.Context, body []byte, from Caller) (Task, error) {
	s, err := t.Check(body, from)
	if err != nil {
		return Task{}, err
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return Task{}, err
	}
	if err := t.mayCreate(ctx, s, from); err != nil {
		return Task{}, err
	}
	var made Task
	err = t.commit(ctx, func(f *fold) ([]actionlog.Event, error) {
		id := newID(f)
		evs := []actionlog.Event{{Type: actionlog.TypeTaskCreated, Task: id, Spec: raw, User: "box-" + id, App: from.App}}
		if err := t.submit(evs); err != nil {
			return nil, err
		}
		made = f.Tasks[id].part().Task
		return nil, nil
	})
	made.Spec = s
	return made, err
}

// Check reads the body of a request and returns the spec with every default filled in,
// or what is wrong with it; it makes nothing.
func (t *Tasks) Check(body []byte, from Caller) (Spec, error) {
	r, err := decode(body)
	if err != nil {
		return Spec{}, err
	}
	return t.spec(r, from)
}

// newID is t and letters and digits that no task has.
func newID(f *fold) string {
	for {
		id := "t" + strings.ToLower(rand.Text()[:12])
		if f.Tasks[id] == nil {
			return id
		}
	}
}

func (f *fold) entry(id string) (*entry, error) {
	e := f.Tasks[id]
	if e == nil {
		return nil, &NotFound{"task", shown(id)}
	}
	return e, nil
}

// Get returns one task.
func (t *Tasks) Get(ctx context.Context, id string) (Task, error) {
	var out part
	err := t.read(ctx, func(f *fold) error {
		e, err := f.entry(id)
		if err == nil {
			out = e.part()
		}
		return err
	})
	if err != nil {
		return Task{}, err
	}
	return t.wholeOf(ctx, out)
}

// MayCall returns the tools that a task may call, none once it ended: of a task that works
// that is in memory, and each of its calls asks.
func (t *Tasks) MayCall(ctx context.Context, id string) ([]string, error) {
	var out []string
	err := t.read(ctx, func(f *fold) error {
		e, err := f.entry(id)
		if err == nil {
			out = e.Tools
		}
		return err
	})
	return out, err
}

// Steps returns a task and every step that it logged so far, for a worker that
// carries on.
func (t *Tasks) Steps(ctx context.Context, id string) (Task, []Step, error) {
	var out part
	var steps []Step
	err := t.read(ctx, func(f *fold) error {
		e, err := f.entry(id)
		if err == nil {
			out, steps = e.part(), slices.Clip(e.Steps)
		}
		return err
	})
	if err != nil {
		return Task{}, nil, err
	}
	whole, err := t.wholeOf(ctx, out)
	return whole, steps, err
}

// The number of tasks that a page has.
const (
	DefaultPage = 100
	MaxPage     = 1000
)

// Filter says which tasks to list.
type Filter struct {
	State     State  // "" for all
	Workspace string // "" for all
	Before    string // only tasks created before the one of this id
	Limit     int    // DefaultPage when 0
}

// List returns tasks, newest first. Each is the same without all of them in memory.
func (t *Tasks) List(ctx context.Context, want Filter) ([]Task, error) {
	out := []Task{}
	err := t.Each(ctx, want, func(one Task) error { out = append(out, one); return nil })
	return out, err
}

func (t *Tasks) list(ctx context.Context, want Filter) ([]part, error) {
	if want.Limit == 0 {
		want.Limit = DefaultPage
	}
	var out []part
	err := t.read(ctx, func(f *fold) error {
		from := len(f.order)
		if want.Before != "" {
			e, err := f.entry(want.Before)
			if err != nil {
				return err
			}
			from = e.place
		}
		for i := from - 1; i >= 0 && len(out) < want.Limit; i-- {
			e := f.order[i]
			if (want.State == "" || e.State == want.State) && (want.Workspace == "" || e.Workspace == want.Workspace) {
				out = append(out, e.part())
			}
		}
		return nil
	})
	return out, err
}

// Package tool owns the shape of what a task may call: a name, a schema, a price and
// a function. It runs nothing and knows no app; apps make tools, the broker calls
// them.
package tool

import (
	"context"
	"encoding/json"
	"errors"

	"gurtos/core/budget"
	"gurtos/core/task"
)

// ErrCutOff is what Run wraps when nobody knows whether the work was done, such as when
// an app ends in the middle of it. Nothing is logged then, and the next try runs again
// with the same key, as after a power cut.
var ErrCutOff = errors.New("call again to have it run under the same key")

// CutOff is an ErrCutOff with its cause, which the owner is told where the call is never
// made again.
type CutOff struct {
	Tool string
	Why  string // goes on after "since"
}

func (e *CutOff) Error() string {
	return e.Tool + " did not come to an end, since " + e.Why + "; " + ErrCutOff.Error()
}

// Unwrap makes it an ErrCutOff.
func (e *CutOff) Unwrap() error { return ErrCutOff }

// ErrUntaken is what Run wraps when the work was done, and what came of it can't be taken,
// since it is too large or nothing that JSON holds. The call is over, at its full price.
var ErrUntaken = errors.New("what it gave back can't be taken")

// Tool is one thing that a task may call, as an app declares it.
type Tool struct {
	Name        string          // <app>.<verb>
	Description string          // shown to the model
	Input       json.RawMessage // JSON Schema of the input; empty means any object

	// Cost is what a call with this input will spend at most; nil for a tool that
	// spends nothing.
	Cost func(ctx context.Context, input json.RawMessage) (budget.Cents, error)
	// Card is who gets paid and what for, for the approval; may be nil.
	Card func(ctx context.Context, input json.RawMessage) (Card, error)
	// Run does the work. Its output goes to the task and into the log; an error fails
	// the call. ctx ends when the box does.
	Run func(ctx context.Context, input json.RawMessage, call Call) (json.RawMessage, error)
}

// Card is what an approval shows besides question and price.
type Card struct {
	Payee   string
	Purpose string
}

// Call is what a running tool may do for the call that it serves.
type Call interface {
	// Task is the task that called, as it was when the call began.
	Task() task.Task
	// Key is unique to the call and stable across a restart: for outside APIs as an
	// idempotency key.
	Key() string
	// Fresh says that this is the first time that Run is called with the key, over restarts
	// too: what it is to do can't have begun.
	Fresh() bool
	// Cost records extra spending.
	Cost(c budget.Cents, what string) error
	// Log adds a step to the task's log.
	Log(text string, data json.RawMessage) error
	// Ask asks the owner and waits, however long that takes. The same question in the
	// same call has the same answer, after a restart too.
	Ask(ctx context.Context, question, purpose string) (bool, error)
}

// Set is the tools of the apps that are on.
type Set interface {
	Lookup(name string) (Tool, bool)
}

package watch

import (
	"context"
	"errors"
)

// What a Watch looks at.
const (
	Daily = "daily" // a time of the day
	Every = "every" // a span, again and again
	Files = "files" // what becomes different in a workspace
)

// Watch is one thing that an app has the box watch, as core/contract.ts has it.
type Watch struct {
	Kind      string   `json:"kind"`
	Name      string   `json:"name"`                // the trigger's; what the box remembers its last run by
	At        string   `json:"at,omitempty"`        // daily: HH:MM in the box's time zone
	MS        int64    `json:"ms,omitempty"`        // every: milliseconds, at least 1000
	Weekdays  []string `json:"weekdays,omitempty"`  // daily and every: mon to sun; all when empty
	Workspace string   `json:"workspace,omitempty"` // files
	Paths     []string `json:"paths,omitempty"`     // files: globs; all when empty
}

// Fired is why a watch fires.
type Fired struct {
	At      string   `json:"at"`      // when it was due, or when the last change was seen; UTC
	Late    bool     `json:"late"`    // of a schedule: the box was off or busy when it was due
	Changes []Change `json:"changes"` // of files; never nil
}

// Change is one path of a workspace that is different now.
type Change struct {
	Path   string `json:"path"`
	Change string `json:"change"` // added, modified or deleted
}

// Fire hands what is due to an app and returns once the app is done with it. An
// error that is ErrNotTaken says that the app was not reached: what was due is kept
// for when the watch is added anew. Any other error is the app's own; what was due
// counts as taken then, and the log tells of the failure. ctx ends when the watch does.
type Fire func(ctx context.Context, f Fired) error

// ErrNotTaken is what a Fire wraps when the app was not reached.
var ErrNotTaken = errors.New("the app was not reached")

// Invalid is a watch that can't be: what is wrong with it, with the field's name.
type Invalid struct{ Sentence string }

func (e *Invalid) Error() string { return e.Sentence }

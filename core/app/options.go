package app

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/approval"
	"gurtos/core/budget"
	"gurtos/core/permission"
	"gurtos/core/task"
	"gurtos/core/workspace"
	"gurtos/netpolicy"
	"gurtos/sandbox"
)

// Options are what a Registry is made of. Network, Watcher, Skip and Slog have
// defaults.
type Options struct {
	Dir   string   // with an app's folder each (BOX_TRACKS); no apps where it is missing
	SDK   string   // folder with contract.ts and triggers.ts
	Node  string   // the Node program that runs apps
	Home  string   // BOX_HOME
	Skip  []string // folders that are left out

	Tasks      Tasks
	Events     Events
	Vault      Vault
	Workspaces Workspaces
	Runner     Runner
	Layers     Layers
	Network    Network // nil leaves an app a loopback of its own and nothing else
	Watcher    Watcher // nil refuses every watch

	Slog *slog.Logger
}

// Tasks is what apps do with tasks, and where the owner's decisions about apps are kept.
type Tasks interface {
	Create(ctx context.Context, body []byte, from task.Caller) (task.Task, error)
	Get(ctx context.Context, id string) (task.Task, error)
	List(ctx context.Context, want task.Filter) ([]task.Task, error)
	Undo(ctx context.Context, id, by string) (task.Task, error)
	Approvals(ctx context.Context, state approval.State) ([]approval.Approval, error)
	Answer(ctx context.Context, id string, approved bool, by, reason string) (approval.Approval, error)
	Cost(ctx context.Context, id string, c budget.Cents, what, model string, tokens json.RawMessage) (actionlog.Event, error)
	Rights(ctx context.Context, app string) (permission.Rights, error)
	Note(ctx context.Context, what string, data map[string]any, task string) error
	AppNote(ctx context.Context, app string, data json.RawMessage, task string) error
}

// Events is the action log as readers see it.
type Events interface {
	Head() (seq int64, hash string)
	Read(ctx context.Context, after int64, fn actionlog.Reader) error
}

// Vault has the keys, and takes them out of what apps say.
type Vault interface {
	Get(name string) (string, bool)
	Redact(text string) string
	RedactJSON(raw json.RawMessage) json.RawMessage
}

// Workspaces makes the folders that tasks work on.
type Workspaces interface {
	Make(name string) (workspace.Workspace, error)
}

// Runner starts sandboxes.
type Runner interface {
	Start(ctx context.Context, spec sandbox.Spec) (Sandbox, error)
}

// Sandbox is a started one.
type Sandbox interface {
	Wait() sandbox.Exit
	Stop(grace time.Duration)
	Kill()
}

// Layers makes the folders that an app may write in.
type Layers interface{ Create(dir string) error }

// Network gives an app's sandbox its network.
type Network interface {
	Attach(ns sandbox.Namespace, p netpolicy.Policy) (Space, error)
}

// Space is one app's network.
type Space interface {
	Stats() []netpolicy.HostStat
	Close() error
}

// Watcher watches the clock and files for the triggers of apps.
type Watcher interface {
	// Watch calls fire whenever w says so, one call after the other, until stop is
	// called, which waits for a call that is on its way. It remembers by the app's and
	// the watch's name what it has called for; an error of fire is not called for again.
	// ctx ends with the app. The error is a sentence about w.
	Watch(ctx context.Context, app string, w Watch, fire func(ctx context.Context, f Fired) error) (stop func(), err error)
}

// Watch is what is watched, as contract.ts types it.
type Watch struct {
	Kind      string   `json:"kind"` // "daily", "every" or "files"
	Name      string   `json:"name"`
	At        string   `json:"at,omitempty"`       // daily: HH:MM
	MS        int64    `json:"ms,omitempty"`       // every: milliseconds, at least 1000
	Weekdays  []string `json:"weekdays,omitempty"` // "mon" to "sun"; none for all
	Workspace string   `json:"workspace,omitempty"`
	Paths     []string `json:"paths,omitempty"` // globs; none for all
}

// Fired says why a watch fires.
type Fired struct {
	At      string   `json:"at"` // ISO 8601
	Late    bool     `json:"late"`
	Changes []Change `json:"changes"`
}

// Change is one changed path.
type Change struct {
	Path   string `json:"path"`
	Change string `json:"change"` // "added", "modified" or "deleted"
}

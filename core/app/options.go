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
	"gurtos/core/watch"
	"gurtos/core/workspace"
	"gurtos/netpolicy"
	"gurtos/sandbox"
)

// Options are what a Registry is made of. Network, Watcher, Zone, Skip and Slog have
// defaults.
type Options struct {
	Dir   string   // with an app's folder each (BOX_TRACKS); no apps where it is missing
	SDK   string   // folder with contract.ts and triggers.ts
	Stamp string   // tells one Node of the sandboxes from another: what one made is made anew by another
	Home  string   // BOX_HOME
	Skip  []string // folders that are left out

	Tasks      Tasks
	Events     Events
	Vault      Vault
	Workspaces Workspaces
	Runner     Runner
	Layers     Layers
	Network    Network       // nil leaves an app a loopback of its own and nothing else
	Watcher    Watcher       // nil refuses every watch
	Zone       func() string // the name of the box's time zone; nil for UTC

	// How long an app may take; the defaults when 0.
	RunTime   time.Duration // for a tool or model job
	RouteTime time.Duration // for a route up to its Response, a webhook, a log reader's line, a watch
	LoadTime  time.Duration // of a processor, for what its code does outside of its functions
	OpenTime  time.Duration // that Open waits for apps that are read for the first time

	Slog *slog.Logger
}

// Tasks is what apps do with tasks, and where the owner's decisions about apps are kept.
type Tasks interface {
	Create(ctx context.Context, body []byte, from task.Caller) (task.Task, error)
	Get(ctx context.Context, id string) (task.Task, error)
	Each(ctx context.Context, want task.Filter, fn func(task.Task) error) error
	Undo(ctx context.Context, id, by string) (task.Task, error)
	EachApproval(ctx context.Context, state approval.State, from int, fn func(approval.Approval) error) error
	Answer(ctx context.Context, id string, approved bool, by, reason string) (approval.Approval, error)
	Ask(ctx context.Context, a approval.Approval) (approval.Approval, error)
	Await(ctx context.Context, id string, most time.Duration) (approval.Approval, error)
	ToolCost(ctx context.Context, id, tool string, c budget.Cents, what string) error
	AppCost(ctx context.Context, app string, c budget.Cents, what string) error
	ToolStep(ctx context.Context, id, text string, data json.RawMessage) error
	Apps(ctx context.Context) (map[string]bool, error)
	Rights(ctx context.Context, app string) (permission.Rights, error)
	Allowed(ctx context.Context, app, item, tool, task string) error
	Used(ctx context.Context, app, item string) error
	Note(ctx context.Context, what string, data map[string]any, task string) error
	AppNote(ctx context.Context, app string, data json.RawMessage, task string) error
}

// Events is the action log as readers see it.
type Events interface {
	Head() (seq int64, hash string)
	Follow(ctx context.Context, after int64, fn actionlog.Reader) error
}

// Vault has the keys, and takes them out of what apps say.
type Vault interface {
	Get(name string) (string, bool)
	Redact(text string) string
	RedactJSON(raw json.RawMessage) json.RawMessage
}

// Workspaces makes the folders that tasks work on.
type Workspaces interface {
	Get(name string) (workspace.Workspace, error)
	Fill(name string, fill func(dir string) error) (workspace.Workspace, error)
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
	CPU() time.Duration // that its processes have used so far
}

// Layers makes the folders that an app may write in.
type Layers interface {
	Create(dir string) error
	Recover(dir string) error // finishes what a power cut left half done
}

// Network gives an app's sandbox its network.
type Network interface {
	Attach(ns sandbox.Namespace, p netpolicy.Policy) (Space, error)
}

// Space is one app's network.
type Space interface {
	SetRules(hosts []string, anyPublic bool) error
	Close() error
}

// Watcher watches the clock and files for the triggers of apps.
type Watcher interface {
	Add(ctx context.Context, app string, w watch.Watch, fire watch.Fire) (stop func(), err error)
	Off(ctx context.Context, app string) error // what is due from now on is nobody's
}

package task

import "gurtos/core/budget"

// Spec is what is asked for when a task is made, with every default filled in.
type Spec struct {
	Title       string       `json:"title"`             // for people, at most 200 characters
	Prompt      string       `json:"prompt"`            // at most 100,000 characters; for worker fake one command a line
	Workspace   string       `json:"workspace"`         // folder in BOX_HOME/workspaces, default "home"
	Worker      string       `json:"worker"`            // "droid" (default) or "fake"
	Model       string       `json:"model,omitempty"`   // exact model id, worker droid only
	Tools       []string     `json:"tools"`             // names that it may call
	Hosts       []string     `json:"hosts"`             // normalised host rules, at most 50
	BudgetCents budget.Cents `json:"budgetCents"`       // whole, 0 to 100000; above it the task waits for an OK
	Source      string       `json:"source"`            // who started it: the app's name, "api", "schedule"
	Seat        string       `json:"seat,omitempty"`    // agent seat, at most 60 characters; stored and shown
	Droid       *Droid       `json:"droid,omitempty"`   // how Droid works on it
	Folder      string       `json:"folder,omitempty"`  // GurtOS Personal; refused in this edition
	Folders     []string     `json:"folders,omitempty"` // GurtOS Personal; refused in this edition
}

// Droid says how Droid works on a task. Worker fake ignores it.
type Droid struct {
	Plan     bool   `json:"plan,omitempty"`     // a plan first, started once the owner approved it
	Autonomy string `json:"autonomy,omitempty"` // "low", "medium" or "high"
}

// Task is a Spec and what became of it.
type Task struct {
	Spec
	ID        string       `json:"id"` // t and letters and digits
	State     State        `json:"state"`
	User      string       `json:"user"`   // box-<id>
	Layers    []string     `json:"layers"` // done tasks whose changes it saw when it started, newest first
	CostCents budget.Cents `json:"costCents"`
	Step      string       `json:"step,omitempty"` // the latest step, at most 200 characters
	CreatedAt string       `json:"createdAt"`
	UpdatedAt string       `json:"updatedAt"`
	Error     string       `json:"error,omitempty"`
	Summary   string       `json:"summary,omitempty"`
	App       string       `json:"app,omitempty"` // the app whose box started it
}

// State says where a task stands; the table in state.go says what may follow.
type State string

// The states of a task.
const (
	Queued  State = "queued"  // created, not started
	Running State = "running" // the worker is working
	Waiting State = "waiting" // paused until an approval is answered
	Done    State = "done"    // finished; its layer is part of the workspace
	Failed  State = "failed"  // stopped with an error; its layer is never seen
	Undone  State = "undone"  // removed; other tasks keep their changes
)

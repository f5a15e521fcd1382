package actionlog

import "encoding/json"

// Type names what happened. The log has these eleven and no others; what the
// box itself has to say is a TypeNote with track "box".
type Type string

// The event types. Each comment lists the fields of Event that the type carries
// besides Seq, At, Task, Type and Prev; a question mark marks one that may be absent.
const (
	TypeTaskCreated      Type = "task.created"      // Spec, User, App?
	TypeTaskState        Type = "task.state"        // State, Layers?, Error?, Summary?
	TypeTaskStep         Type = "task.step"         // Text, Data?
	TypeToolCall         Type = "tool.call"         // Key, Tool, Input
	TypeToolResult       Type = "tool.result"       // Key, OK, Output?, Error?, Cents?
	TypeApprovalAsked    Type = "approval.asked"    // Approval
	TypeApprovalAnswered Type = "approval.answered" // ID, Approved, By, Reason?
	TypeCost             Type = "cost"              // Cents, What, Model?, Tokens?; Task may be absent
	TypeNetBlocked       Type = "net.blocked"       // Host, Count?
	TypeKeep             Type = "keep"              // GurtOS Personal; never written by this edition
	TypeNote             Type = "note"              // Track, Data; Task may be absent
)

// Event is one line of the log. It is flat: a type uses the fields that its
// constant lists, and only those are written.
type Event struct {
	Seq  int64  `json:"seq"`            // line number, from 1
	At   string `json:"at"`             // UTC, RFC 3339 with milliseconds
	Type Type   `json:"type"`           //
	Task string `json:"task,omitempty"` // id of the task, absent where the box itself speaks

	Spec json.RawMessage `json:"spec,omitempty"` // the TaskSpec with every default filled in
	User string          `json:"user,omitempty"` // Linux user, box-<id>
	App  string          `json:"app,omitempty"`  // app whose box started the task

	State   string   `json:"state,omitempty"`
	Layers  []string `json:"layers,omitempty"` // done tasks whose layers it sees, newest first
	Error   string   `json:"error,omitempty"`
	Summary string   `json:"summary,omitempty"`

	Text string          `json:"text,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`

	Key    string          `json:"key,omitempty"`
	Tool   string          `json:"tool,omitempty"`
	Input  json.RawMessage `json:"input,omitempty"`
	OK     *bool           `json:"ok,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`

	Cents  json.Number     `json:"cents,omitempty"` // US cents, exact decimal
	What   string          `json:"what,omitempty"`
	Model  string          `json:"model,omitempty"`
	Tokens json.RawMessage `json:"tokens,omitempty"` // input, output, cacheWrite, cacheRead

	Approval json.RawMessage `json:"approval,omitempty"`
	ID       string          `json:"id,omitempty"` // the approval's
	Approved *bool           `json:"approved,omitempty"`
	By       string          `json:"by,omitempty"`
	Reason   string          `json:"reason,omitempty"`

	Host  string `json:"host,omitempty"`  // host:port
	Count int    `json:"count,omitempty"` // tries that this line stands for, absent for one

	Track string `json:"track,omitempty"`

	// Clock is by how many milliseconds the wall clock was stepped between the line
	// before and this one, absent for none. At follows the step.
	Clock int64 `json:"clock,omitempty"`

	// Start is true on the first line after the log was opened: how long nobody wrote
	// before it, and whether the clock was set meanwhile, nobody knows.
	Start bool `json:"start,omitempty"`

	// Extra holds the fields that this build doesn't know, as they were read.
	Extra []Field `json:"-"`

	Prev string `json:"prev"` // hex SHA-256 of the line before, without its newline; "" on line 1
}

// Field is a field of a line that this build doesn't know.
type Field struct {
	Name  string
	Value json.RawMessage
}

// Package approval owns questions to the owner and their answers: an id names one
// question for ever, and the first answer to it holds. It never decides what an
// answer permits.
package approval

import (
	"bytes"
	"encoding/json"

	"gurtos/core/budget"
)

// Approval is one question and, once given, its answer.
type Approval struct {
	ID        string       `json:"id"`   // <task id>.task.<key>, <task id>.budget.<action>, <task id>.tool.<call key>.ask.<hash>, <task id>.upload.<host>, <task id>.resume.<line>
	Task      string       `json:"task"` // the task that asked
	Question  string       `json:"question"`
	CostCents budget.Cents `json:"costCents"` // 0 when it is not about money
	Payee     string       `json:"payee,omitempty"`
	Purpose   string       `json:"purpose,omitempty"`
	State     State        `json:"state"`
	By        string       `json:"by,omitempty"` // who answered
	Reason    string       `json:"reason,omitempty"`

	// Of a budget question: the call that runs once it is approved, so that nothing
	// else ever runs on the answer.
	Key   string          `json:"key,omitempty"`
	Tool  string          `json:"tool,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
}

// State says whether a question was answered and how.
type State string

// The states of an approval; the last two never change.
const (
	Pending  State = "pending"
	Approved State = "approved"
	Denied   State = "denied"
)

// Plain is JSON without the escapes that only HTML needs: an input in it keeps its
// bytes, and what is shown for approval is what runs.
func Plain(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"gurtos/core/approval"
	"gurtos/core/budget"
	"gurtos/core/task"
)

// maxKey is how many characters a key may have.
const maxKey = 500

func checkKey(raw json.RawMessage) (string, error) {
	if raw == nil || string(raw) == "null" || string(raw) == `""` {
		return "", &task.Invalid{Sentence: "a key is required"}
	}
	var key string
	if err := json.Unmarshal(raw, &key); err != nil {
		return "", &task.Invalid{Field: "key", Sentence: "a string is needed"}
	}
	if n := utf8.RuneCountInString(key); n > maxKey {
		return "", &task.Invalid{Field: "key", Sentence: fmt.Sprintf("at most %d characters, this has %d", maxKey, n)}
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
		return "", &task.Invalid{Field: "key", Sentence: "control characters can't be in it"}
	}
	return key, nil
}

type askRequest struct {
	Question  string          `json:"question"`
	Key       json.RawMessage `json:"key"`
	CostCents json.RawMessage `json:"costCents"`
	Payee     string          `json:"payee"`
	Purpose   string          `json:"purpose"`
}

type pendingAnswer struct {
	Pending bool `json:"pending"`
}

type askAnswer struct {
	Approved bool   `json:"approved"`
	Reason   string `json:"reason,omitempty"` // what the one who answered had to say
}

func (d *desk) ask(ctx context.Context, body []byte) (any, error) {
	var r askRequest
	if err := read(body, &r); err != nil {
		return nil, err
	}
	key, err := checkKey(r.Key)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(r.Question) == "" {
		return nil, &task.Invalid{Field: "question", Sentence: "what is asked is needed"}
	}
	a := approval.Approval{ID: d.id + ".task." + key, Task: d.id, Question: r.Question, Payee: r.Payee, Purpose: r.Purpose}
	if r.CostCents != nil {
		c, err := budget.ParseCents(strings.TrimSpace(string(r.CostCents)))
		if err != nil || c.Sign() < 0 {
			return nil, &task.Invalid{Field: "costCents", Sentence: "a cost of 0 or more"}
		}
		a.CostCents = c
	}
	if _, err := d.opt.Tasks.WorkerAsks(ctx, a); err != nil {
		return nil, err
	}
	got, err := d.opt.Tasks.Await(ctx, a.ID, d.opt.Wait)
	switch {
	case err != nil:
		return nil, err
	case got.State == approval.Pending:
		return pendingAnswer{true}, nil
	}
	return askAnswer{got.State == approval.Approved, got.Reason}, nil
}

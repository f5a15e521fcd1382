package broker

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"gurtos/core/budget"
	"gurtos/core/task"
)

type costRequest struct {
	Cents json.RawMessage `json:"cents"`
	What  string          `json:"what"`
}

// errCents is the refusal that the specification words.
var errCents = &task.Invalid{Field: "cents", Sentence: "a cost of 0 or more"}

func (d *desk) cost(ctx context.Context, body []byte) (any, error) {
	var r costRequest
	if err := read(body, &r); err != nil {
		return nil, err
	}
	c, err := budget.ParseCents(strings.TrimSpace(string(r.Cents)))
	if err != nil || c.Sign() < 0 {
		return nil, errCents
	}
	if r.What == "" {
		return nil, &task.Invalid{Field: "what", Sentence: "what the cost is for is needed"}
	}
	ev, err := d.opt.Tasks.Cost(ctx, d.id, c, r.What)
	if err != nil {
		return nil, err
	}
	return &ev, nil
}

// count is a number of tokens, in whatever form JSON has for it: 12000, 12000.0 or 1.2e4.
func count(raw json.RawMessage) (n int64, ok bool) {
	c, err := budget.ParseCents(strings.TrimSpace(string(raw)))
	if err != nil || !c.IsWhole() || c.Sign() < 0 || c.Cmp(budget.Whole(budget.MaxTokens)) > 0 {
		return 0, false
	}
	n, err = strconv.ParseInt(c.String(), 10, 64)
	return n, err == nil
}

type usageRequest struct {
	Model  string `json:"model"`
	What   string `json:"what"`
	Tokens *struct {
		Input      json.RawMessage `json:"input"`
		Output     json.RawMessage `json:"output"`
		CacheWrite json.RawMessage `json:"cacheWrite"`
		CacheRead  json.RawMessage `json:"cacheRead"`
	} `json:"tokens"`
}

func (d *desk) usage(ctx context.Context, body []byte) (any, error) {
	r := usageRequest{What: "model"}
	if err := read(body, &r); err != nil {
		return nil, err
	}
	if r.Model == "" {
		return nil, &task.Invalid{Field: "model", Sentence: "the model's name is needed"}
	}
	if r.Tokens == nil {
		return nil, &task.Invalid{Field: "tokens", Sentence: "the counts are needed: input, output, cacheWrite, cacheRead"}
	}
	var n budget.Tokens
	for _, f := range []struct {
		name string
		raw  json.RawMessage
		to   *int64
	}{
		{"input", r.Tokens.Input, &n.Input}, {"output", r.Tokens.Output, &n.Output},
		{"cacheWrite", r.Tokens.CacheWrite, &n.CacheWrite}, {"cacheRead", r.Tokens.CacheRead, &n.CacheRead},
	} {
		if f.raw == nil {
			continue
		}
		var ok bool
		if *f.to, ok = count(f.raw); !ok {
			return nil, &task.Invalid{Field: "tokens." + f.name, Sentence: "a whole number of 0 or more is needed"}
		}
	}
	ev, err := d.opt.Tasks.Usage(ctx, d.id, r.What, r.Model, n)
	if err != nil {
		return nil, err
	}
	return &ev, nil
}

package broker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"

	"gurtos/core/broker"
	"gurtos/core/budget"
	"gurtos/core/leak"
	"gurtos/core/tool"
	"gurtos/test/planted"
)

// toolSet is the tools of apps, by name.
type toolSet map[string]tool.Tool

func (s toolSet) Lookup(name string) (tool.Tool, bool) { t, ok := s[name]; return t, ok }
func (s toolSet) Has(name string) bool                 { _, ok := s[name]; return ok }
func (s toolSet) Title(app string) string              { return strings.ToUpper(app[:1]) + app[1:] }

// secrets is a vault with these values.
func secrets(v planted.Values) broker.Vault {
	var all []leak.Secret
	for name, value := range v {
		all = append(all, leak.Secret{Name: name, Value: value})
	}
	return found{leak.NewSet(all...)}
}

type found struct{ set *leak.Set }

func (f found) Redact(s string) string                         { return f.set.Replace(s) }
func (f found) RedactJSON(raw json.RawMessage) json.RawMessage { return f.set.ReplaceJSON(raw) }

type noVault struct{}

func (noVault) Redact(s string) string                         { return s }
func (noVault) RedactJSON(raw json.RawMessage) json.RawMessage { return raw }

// till is a tool that spends what its input says, counts its runs by key, and can be
// held.
type till struct {
	mu   sync.Mutex
	runs map[string]int
	hold chan struct{} // when set, Run waits until it is closed
	out  func(call tool.Call, input json.RawMessage) (json.RawMessage, error)
}

func (s *till) count(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[key]
}

func (s *till) total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.runs {
		n += c
	}
	return n
}

func (s *till) tool(name string) tool.Tool {
	var in struct {
		Cents budget.Cents `json:"cents"`
	}
	return tool.Tool{
		Name: name, Description: "Pays.",
		Input: json.RawMessage(`{"type":"object","properties":{"cents":{"type":"number"},"n":{}},"required":["cents"],"additionalProperties":false}`),
		Cost: func(_ context.Context, raw json.RawMessage) (budget.Cents, error) {
			v := in
			err := json.Unmarshal(raw, &v)
			return v.Cents, err
		},
		Card: func(context.Context, json.RawMessage) (tool.Card, error) {
			return tool.Card{Payee: "Shop", Purpose: "Things"}, nil
		},
		Run: func(ctx context.Context, raw json.RawMessage, call tool.Call) (json.RawMessage, error) {
			s.mu.Lock()
			if s.runs == nil {
				s.runs = map[string]int{}
			}
			s.runs[call.Key()]++
			hold := s.hold
			s.mu.Unlock()
			if hold != nil {
				select {
				case <-hold:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			if s.out != nil {
				return s.out(call, raw)
			}
			return bytes.Clone(raw), nil
		},
	}
}

package broker

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"

	"gurtos/core/schema"
)

// anyObject is the schema of a tool that declares none.
var anyObject = json.RawMessage(`{"type":"object"}`)

// schemas are compiled once for each text that there is.
type schemas struct {
	mu       sync.Mutex
	compiled map[[32]byte]*schema.Schema
}

func (s *schemas) get(raw json.RawMessage) (*schema.Schema, error) {
	if len(raw) == 0 {
		raw = anyObject
	}
	sum := sha256.Sum256(raw)
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := s.compiled[sum]; got != nil {
		return got, nil
	}
	got, err := schema.Compile(raw)
	if err != nil {
		return nil, err
	}
	if s.compiled == nil {
		s.compiled = map[[32]byte]*schema.Schema{}
	}
	s.compiled[sum] = got
	return got, nil
}

// check holds an input against a tool's schema. The error is a sentence that names
// the place in the input.
func (s *schemas) check(of, input json.RawMessage) error {
	sch, err := s.get(of)
	if err != nil {
		return fmt.Errorf("the tool's own schema can't be used: %w", err)
	}
	return sch.Check(input)
}

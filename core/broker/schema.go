package broker

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// anyObject is the schema of a tool that declares none.
var anyObject = json.RawMessage(`{"type":"object"}`)

// schemas are compiled once for each text that there is.
type schemas struct {
	mu       sync.Mutex
	compiled map[[32]byte]*jsonschema.Schema
}

// noLoader refuses every reference that leads out of a schema.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s: a schema may refer only to itself", url)
}

func (s *schemas) get(raw json.RawMessage) (*jsonschema.Schema, error) {
	if len(raw) == 0 {
		raw = anyObject
	}
	sum := sha256.Sum256(raw)
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := s.compiled[sum]; got != nil {
		return got, nil
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource("box:///input", doc); err != nil {
		return nil, err
	}
	got, err := c.Compile("box:///input")
	if err != nil {
		return nil, err
	}
	if s.compiled == nil {
		s.compiled = map[[32]byte]*jsonschema.Schema{}
	}
	s.compiled[sum] = got
	return got, nil
}

// check holds an input against a tool's schema. The error is a sentence that names
// the place in the input.
func (s *schemas) check(schema, input json.RawMessage) error {
	sch, err := s.get(schema)
	if err != nil {
		return fmt.Errorf("the tool's own schema can't be used: %w", err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(input))
	if err != nil {
		return fmt.Errorf("input: %w", err)
	}
	err = sch.Validate(v)
	var bad *jsonschema.ValidationError
	if !errors.As(err, &bad) {
		return err
	}
	for len(bad.Causes) > 0 {
		bad = bad.Causes[0]
	}
	at := "input"
	for _, p := range bad.InstanceLocation {
		at += "." + clip(p)
	}
	why := bad.ErrorKind.LocalizedString(message.NewPrinter(language.English))
	return fmt.Errorf("%s: %s", at, strings.ToValidUTF8(clip(why), ""))
}

package task

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"gurtos/core/strict"
)

// request is a TaskSpec as it is sent: a nil field was not named. Its names are all
// that a request may have; id, state, user, app and requestedBy are not among them.
type request struct {
	Title       *string         `json:"title"`
	Prompt      *string         `json:"prompt"`
	Workspace   *string         `json:"workspace"`
	Worker      *string         `json:"worker"`
	Model       *string         `json:"model"`
	Tools       []string        `json:"tools"`
	Hosts       []string        `json:"hosts"`
	BudgetCents json.RawMessage `json:"budgetCents"`
	Source      *string         `json:"source"`
	Seat        *string         `json:"seat"`
	Droid       *droidRequest   `json:"droid"`
	Folder      json.RawMessage `json:"folder"`
	Folders     json.RawMessage `json:"folders"`
}

type droidRequest struct {
	Plan     *bool   `json:"plan"`
	Autonomy *string `json:"autonomy"`
}

// decode reads a request strictly. What is wrong with it is an *Invalid.
func decode(body []byte) (request, error) {
	var r request
	err := strict.Decode(body, &r)
	var bad *strict.Error
	if errors.As(err, &bad) {
		return r, &Invalid{bad.Field, bad.Sentence}
	}
	if err != nil {
		return r, &Invalid{"", err.Error()}
	}
	// A pointer takes null, but the contract has no field that may be null.
	if err := noNull(body, reflect.TypeFor[request](), ""); err != nil {
		return r, err
	}
	return r, nil
}

func noNull(body []byte, t reflect.Type, path string) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(body, &raw); err != nil {
		return &Invalid{strings.TrimSuffix(path, "."), "an object is needed"}
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("json")
		v, ok := raw[name]
		switch {
		case !ok:
		case bytes.Equal(bytes.TrimSpace(v), []byte("null")):
			return &Invalid{path + name, fmt.Sprintf("%s is needed, not null", wanted(f.Type))}
		case f.Type == reflect.TypeFor[*droidRequest]():
			if err := noNull(v, f.Type.Elem(), name+"."); err != nil {
				return err
			}
		}
	}
	return nil
}

func wanted(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[*string]():
		return "a string"
	case reflect.TypeFor[*bool]():
		return "true or false"
	case reflect.TypeFor[[]string]():
		return "a list of strings"
	case reflect.TypeFor[*droidRequest]():
		return "an object"
	}
	return "a value"
}

package watch

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// fields are what each kind of watch has besides its kind and name.
var fields = map[string][]string{Daily: {"at", "weekdays"}, Every: {"ms", "weekdays"}, Files: {"workspace", "paths"}}

// Read reads a watch that an app asks for. A field that its kind hasn't, one of another
// type and an empty list are refused rather than passed over: an *Invalid says what is
// wrong.
func Read(raw []byte) (Watch, error) {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil || given == nil {
		return Watch{}, &Invalid{"a watch is an object with a kind and a name, such as {kind: 'daily', name: 'morning', at: '08:00'}"}
	}
	var w Watch
	wrong := func(form string, args ...any) (Watch, error) {
		return Watch{}, &Invalid{fmt.Sprintf("trigger %q: ", cut(w.Name)) + fmt.Sprintf(form, args...)}
	}
	for _, f := range []struct {
		name, needs string
		into        any
	}{
		{"name", "a text", &w.Name}, {"kind", "a text", &w.Kind}, {"at", "a text", &w.At}, {"ms", "a whole number", &w.MS}, {"workspace", "a text", &w.Workspace},
		{"weekdays", "a list of texts", &w.Weekdays}, {"paths", "a list of texts", &w.Paths},
	} {
		raw, there := given[f.name]
		if !there {
			continue
		}
		var other *json.UnmarshalTypeError
		if err := json.Unmarshal(raw, f.into); errors.As(err, &other) || string(raw) == "null" {
			return wrong("%s: %s is needed", f.name, f.needs)
		} else if err != nil {
			return wrong("%s: %v", f.name, err)
		}
	}
	if of, known := fields[w.Kind]; known {
		of = append([]string{"kind", "name"}, of...)
		for _, name := range slices.Sorted(maps.Keys(given)) {
			if !slices.Contains(of, name) {
				return wrong("there is no %s in a watch of kind %s; there are %s", cut(name), w.Kind, strings.Join(of, ", "))
			}
		}
	}
	if w.Weekdays != nil && len(w.Weekdays) == 0 {
		return wrong("weekdays names no day, so it would never run")
	}
	if w.Paths != nil && len(w.Paths) == 0 {
		return wrong("paths names no path, so it would never run")
	}
	return w, nil
}

package watch_test

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"gurtos/core/watch"
)

// The sentences for watches that can't be are one table for the box and for the test box
// of test/sdk.
func TestRead(t *testing.T) {
	text, err := os.ReadFile("testdata/watches.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Watch json.RawMessage
		Says  string // "" for one that can be
	}
	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, "UTC", "2026-12-01 07:00")
	for _, row := range rows {
		said := ""
		one, err := watch.Read(row.Watch)
		if err == nil {
			var stop func()
			if stop, err = w.ws.Add(t.Context(), "hello", one, nil); err == nil {
				stop()
			}
		}
		if err != nil {
			said = err.Error()
			if bad := new(watch.Invalid); !errors.As(err, &bad) {
				t.Errorf("%s: %v is no sentence about the watch", row.Watch, err)
			}
		}
		if said != row.Says {
			t.Errorf("%s:\n%s\n%s is due", row.Watch, said, row.Says)
		}
	}
}

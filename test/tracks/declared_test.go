package tracks

import (
	"encoding/json"
	"os"
	"testing"

	"gurtos/core/app/declare"
)

// TestDeclared holds the box to the sentences that test/sdk/testbox.test.ts holds the test box to.
func TestDeclared(t *testing.T) {
	raw, err := os.ReadFile("../sdk/declared.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Says string
		App  json.RawMessage
	}
	if err := json.Unmarshal(raw, &rows); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		_, err := declare.Read("x", t.TempDir(), row.App)
		if got := said(err); got != row.Says {
			t.Errorf("%s: %q, not %q", row.App, got, row.Says)
		}
	}
}

func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

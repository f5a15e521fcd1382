package settings

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// A refusal names the setting and says one thing after it.
func TestRefusalsInWords(t *testing.T) {
	hosts := "[" + strings.Repeat(`"example.com",`, 50) + `"example.org"]`
	for _, c := range []struct{ name, value, says string }{
		{"defaultHosts", hosts, "defaultHosts: at most 50 hosts, not 51"},
		{"defaultHosts", `["*.com"]`, `defaultHosts: [0] "*.com": a wildcard over com`},
		{"", `1`, `"": the box has no setting of this name`},
		{"keepdays", `1`, "keepdays: the box has no setting of this name"},
		{strings.Repeat("x", 200), `1`, strings.Repeat("x", 100) + "…: the box has no setting"},
	} {
		s := open(t, filepath.Join(t.TempDir(), "settings.json"))
		if _, err := s.Change(map[string]json.RawMessage{c.name: json.RawMessage(c.value)}); err == nil || !strings.HasPrefix(err.Error(), c.says) {
			t.Errorf("%s %s: %v, want %q", c.name, c.value, err, c.says)
		}
	}
}

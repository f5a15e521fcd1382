package fake

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/script.md lists each command with its arguments, and none that isn't there.
func TestDocsListTheCommands(t *testing.T) {
	text, err := os.ReadFile("../../docs/script.md")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z]+) ([A-Z ]+)` \\| .+ \\|$").FindAllStringSubmatch(string(text), -1) {
		w, ok := words[m[1]]
		if !ok || told[m[1]] {
			t.Errorf("%s is told of twice, or is no command", m[1])
			continue
		}
		told[m[1]] = true
		args := regexp.MustCompile(`\b[A-Z]{2,}\b`).FindAllString(w.usage, -1)
		if !slices.Equal(args, strings.Fields(m[2])) {
			t.Errorf("%s takes %q, the page says %q", m[1], args, m[2])
		}
	}
	for name := range words {
		if !told[name] {
			t.Errorf("docs/script.md lacks %s", name)
		}
	}
}

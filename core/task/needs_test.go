package task

import (
	"fmt"
	"testing"
)

// Every worker but fake can run commands.
func TestNeeds(t *testing.T) {
	for _, row := range []struct {
		worker  string
		hosts   []string
		folders bool
		want    string
	}{
		{"fake", nil, false, "[]"},
		{"droid", nil, false, "[shell]"},
		{"another", nil, false, "[shell]"},
		{"fake", []string{"example.com", "example.org:80"}, false, "[host:example.com host:example.org:80]"},
		{"droid", []string{"example.com"}, true, "[shell folders host:example.com]"},
	} {
		if got := fmt.Sprint(needs(row.worker, row.hosts, row.folders)); got != row.want {
			t.Errorf("%+v: %s", row, got)
		}
	}
}

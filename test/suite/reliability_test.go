package suite

import (
	"strings"
	"testing"
)

func TestReliability(t *testing.T) {
	first := reliability(nil, "", "a1, monday", []Finding{
		{"gurtos/test/kill", "TestKilled", "reliability", "200 kills"},
		{"gurtos/core/actionlog", "TestCut", "reliability", "cut at | every byte"},
		{"gurtos/core/actionlog", "TestCut", "other", "no row"},
	})
	for _, want := range []string{"| cut at \\| every byte | core/actionlog TestCut | a1, monday |\n| 200 kills | test/kill TestKilled | a1, monday |\n"} {
		if !strings.HasSuffix(string(first), want) {
			t.Errorf("got\n%s\nwhich does not end in\n%s", first, want)
		}
	}
	for _, c := range []struct {
		match string
		found []Finding
		rows  string
	}{
		{"test/kill", []Finding{{"gurtos/test/kill", "TestKilled", "reliability", "300 kills"}}, "| cut at \\| every byte | core/actionlog TestCut | a1, monday |\n| 300 kills | test/kill TestKilled | b2, tuesday |\n"},
		{"core/", nil, "| 200 kills | test/kill TestKilled | a1, monday |\n"},
		{"nothing", nil, "| cut at \\| every byte | core/actionlog TestCut | a1, monday |\n| 200 kills | test/kill TestKilled | a1, monday |\n"},
		{"", []Finding{{"gurtos/x", "TestX", "reliability", "all"}}, "| all | x TestX | b2, tuesday |\n"},
	} {
		if got := string(reliability(first, c.match, "b2, tuesday", c.found)); got != reliabilityHead+c.rows {
			t.Errorf("after a run of %q:\n%s\nwant the rows\n%s", c.match, got, c.rows)
		}
	}
}

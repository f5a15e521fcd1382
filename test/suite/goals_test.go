package suite

import (
	"strings"
	"testing"
)

func TestGoals(t *testing.T) {
	rows := []Row{
		{"Sandbox/at-once=1/gurtos-cold", "min 10 ms · p50 26 ms"}, {"Sandbox/at-once=1/runc-1.5.3-equal", "p50 44 ms"}, {"Sandbox/at-once=1/crun-equal", "p50 20 ms"},
		{"Files/git-status", "bare 9 ms · layer 10 ms · layer 0.9 share · layers100 20 ms"},
	}
	got := string(judged(rows))
	for _, want := range []string{
		"runc 1.5.3's time | 0.59 | met |", "no more than crun's | 1.30 | missed: half of it is libcontainer", "(git-status) | 0.90 | met |", "over 100 layers (git-status) | 0.45 | missed: overlayfs",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if strings.Contains(got, "bubblewrap") {
		t.Error("a goal without figures is told")
	}
	if judged(nil) != nil {
		t.Error("goals without a run")
	}
}

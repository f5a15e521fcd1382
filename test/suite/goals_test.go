package suite

import (
	"strings"
	"testing"
)

func TestGoals(t *testing.T) {
	rows := []Row{
		{"Sandbox/at-once=1/gurtos-cold", "min 10 ms · p50 26 ms"}, {"Sandbox/at-once=1/runc-1.5.3-equal", "p50 44 ms"}, {"Sandbox/at-once=1/crun-equal", "p50 20 ms"},
		{"Files/git-status", "bare 9 ms · layer 10 ms · layer 0.9 share · layers100 20 ms"},
		{"Appends/writers=8/gurtos", "51891 appends/s"}, {"Appends/writers=8/bbolt", "103782 appends/s"}, {"Appends/writers=8/sqlite", "6463 appends/s"},
		{"Network/unshaped/gurtos", "1698.00 MB/s · cpu 0.8 s/GB"}, {"Network/unshaped/direct", "2257.49 MB/s · cpu 0.5 s/GB"},
		{"AppCall", "p50 1.557 times-plain · p50 175.9 µs · plain 113.0 p50-µs"}, {"AppMemory", "PSS 131.3 MB · plain 126.3 PSS-MB"},
	}
	got := string(judged(rows))
	for _, want := range []string{
		"runc 1.5.3's time | 0.59 | met |", "no more than crun's | 1.30 | missed: half of it is libcontainer", "(git-status) | 0.90 | met |", "over 100 layers (git-status) | 0.45 | missed: overlayfs",
		"8 writers sooner than SQLite's | 8.03 | met |", "and than bbolt's | 0.50 | missed: ", "time of a direct connection | 1.60 | met |", "over stdio | 1.56 | missed: ",
		"150 MB together | 131.30 MB | met |",
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

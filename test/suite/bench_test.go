package suite

import (
	"slices"
	"strings"
	"testing"
)

func TestParseBench(t *testing.T) {
	got := parseBench(strings.NewReader(`goos: linux
BenchmarkStart/warm-2         	     300	   3612345 ns/op	         3.6 p50-ms	         5.1 p95-ms
BenchmarkPlain-2	 1000	 1234567 ns/op
BenchmarkPost_to_first_step/8_others 	 20	 9 ns/op	 12.5 p50-ms
PASS
`))
	want := []Row{{"Start/warm", "p50 3.6 ms · p95 5.1 ms"}, {"Plain", "mean 1.234ms"}, {"Post to first step/8 others", "p50 12.5 ms"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

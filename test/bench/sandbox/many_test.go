package sandbox

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"gurtos/sandbox/sandboxtest"
)

// BenchmarkRunning is what one more sandbox costs while others run: create → exit of /bin/true, and how much the machine's free memory and this process's own
// shrink for each that runs.
func BenchmarkRunning(b *testing.B) {
	asOnABox(b)
	for _, others := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			h := sandboxtest.OpenAs(b, config(b))
			free, own := available(b), figure("/proc/self/status", "RssAnon:")
			for range others {
				s := emptySpec(b)
				s.Args = []string{"/bin/sleep", "100000"}
				sandboxtest.Start(b, h, s)
			}
			machine, process := float64(free-available(b))/float64(others), float64(figure("/proc/self/status", "RssAnon:")-own)/float64(others)
			var ms []float64
			for b.Loop() {
				for range 10 {
					run := ours(b, h)
					start := time.Now()
					if err := run(); err != nil {
						b.Fatal(err)
					}
					ms = append(ms, float64(time.Since(start).Microseconds())/1000)
				}
			}
			slices.Sort(ms)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(ms[0], "min-ms")
			b.ReportMetric(ms[len(ms)/2], "p50-ms")
			b.ReportMetric(machine, "machine-KB")
			b.ReportMetric(process, "boxd-KB")
		})
	}
}

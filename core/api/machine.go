package api

import (
	"fmt"
	"strings"
)

// Gauge is one figure of the machine or of its sandboxes for /metrics.
type Gauge struct {
	Name   string // gurtos_…
	Help   string // a sentence
	Labels string // such as resource="io", or ""
	Value  float64
}

// Watch has /metrics tell the gauges too; those of one name stand together. It is
// called before Serve.
func (s *Server) Watch(gauges func() []Gauge) { s.gauges = gauges }

// machineMetrics writes what Watch was given.
func (s *Server) machineMetrics(b *strings.Builder) {
	if s.gauges == nil {
		return
	}
	last := ""
	for _, g := range s.gauges() {
		if g.Name != last {
			fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s gauge\n", g.Name, g.Help, g.Name)
			last = g.Name
		}
		labels := ""
		if g.Labels != "" {
			labels = "{" + g.Labels + "}"
		}
		fmt.Fprintf(b, "%s%s %v\n", g.Name, labels, g.Value)
	}
}

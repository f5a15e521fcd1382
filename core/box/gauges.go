package box

import (
	"fmt"

	"gurtos/core/api"
	"gurtos/sandbox/cgroup"
)

// gauges are what the box's metrics tell of sandboxes and of what the machine waits for.
func (b *Box) gauges() []api.Gauge {
	f := b.host.Figures()
	out := []api.Gauge{
		{Name: "gurtos_sandboxes_running", Help: "Sandboxes in which a program runs.", Value: float64(f.Running)},
		{Name: "gurtos_sandboxes_waiting", Help: "Sandboxes made ahead for the next tasks.", Value: float64(f.Waiting)},
		{Name: "gurtos_sandbox_slots", Help: "User ids that sandboxes hold.", Value: float64(f.Slots)},
	}
	tell := func(of string, p cgroup.Pressure, ok bool) {
		if !ok {
			return
		}
		for _, r := range []struct {
			name  string
			share float64
		}{{"cpu", p.CPU}, {"memory", p.Memory}, {"io", p.IO}} {
			out = append(out, api.Gauge{
				Name: "gurtos_pressure_percent", Help: "Share of the last ten seconds in which something waited for a resource.",
				Labels: fmt.Sprintf("of=%q,resource=%q", of, r.name), Value: r.share,
			})
		}
	}
	machine, ok := cgroup.MachinePressure()
	tell("machine", machine, ok)
	tasks, ok := cgroup.PressureOf(b.group())
	tell("tasks", tasks, ok)
	return out
}

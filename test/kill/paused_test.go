package kill

import (
	"bytes"
	"testing"

	"gurtos/test/daemon"
)

// A boxd that is killed while agents are paused is followed by one that starts; its agents stand still until they may go on, where they were.
func TestKilledWhilePaused(t *testing.T) {
	home := daemon.New(t)
	boxd := home.Start()
	var task struct{ ID, State, Error string }
	post(t, home, "POST", "/api/tasks", map[string]any{"title": "Works", "worker": "fake", "prompt": "step one\nask Well?\nstep two"}, &task)
	var seen [][]byte
	until := func(text string) {
		t.Helper()
		seen = watch(t, home, seen, func(line []byte) bool { return bytes.Contains(line, []byte(text)) })
	}
	until(`"state":"waiting"`)
	post(t, home, "POST", "/api/pause", map[string]any{"paused": true}, nil)
	until(`"paused":true`)
	boxd.Kill()
	boxd = home.Start()
	var health struct{ Paused bool }
	if post(t, home, "GET", "/api/health", nil, &health); !health.Paused {
		t.Error("agents work")
	}
	post(t, home, "POST", "/api/approvals/"+task.ID+".task.2", map[string]any{"approved": true}, nil)
	until(`"state":"running"`)
	from := len(seen)
	post(t, home, "POST", "/api/pause", map[string]any{"paused": false}, nil)
	until(`"paused":false`)
	for _, line := range seen[from:] {
		if works(line) {
			t.Errorf("in the pause: %s", line)
		}
	}
	until(`"state":"done"`)
	post(t, home, "GET", "/api/tasks/"+task.ID, nil, &task)
	if task.State != "done" {
		t.Errorf("%+v", task)
	}
	boxd.Stop()
}

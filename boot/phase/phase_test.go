package phase

import (
	"bytes"
	"context"
	"errors"
	"log"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	var out bytes.Buffer
	var seen []string
	ran := func(name string, err error, must bool) Phase {
		return Phase{Name: name, Must: must, Run: func(context.Context) error { seen = append(seen, "ran "+name); return err }}
	}
	err := Run(t.Context(), log.New(&out, "", 0), []Phase{
		ran("mounts", nil, true),
		ran("network", errors.New("no port"), false),
		ran("data", errors.New("no disk"), true),
		ran("services", nil, true),
	}, func(name string) { seen = append(seen, "enter "+name) }, func(name string, err error) { seen = append(seen, name+": "+err.Error()) })

	want := "enter mounts, ran mounts, enter network, ran network, network: no port, enter data, ran data"
	if got := strings.Join(seen, ", "); got != want {
		t.Errorf("saw %s\nwant %s", got, want)
	}
	if err == nil || err.Error() != "phase data: no disk" {
		t.Errorf("Run = %v", err)
	}
	for _, line := range []string{"phase mounts (", "phase network failed (", "no port"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("the log has no %q:\n%s", line, &out)
		}
	}
}

// A shutdown that comes during a phase begins no other.
func TestRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var seen []string
	phase := func(name string, run func()) Phase {
		return Phase{Name: name, Run: func(context.Context) error { run(); seen = append(seen, name); return nil }}
	}
	err := Run(ctx, log.New(&bytes.Buffer{}, "", 0), []Phase{phase("data", cancel), phase("services", func() {})}, func(string) {}, func(string, error) {})
	if !errors.Is(err, context.Canceled) || len(seen) != 1 {
		t.Errorf("Run = %v after %v", err, seen)
	}
}

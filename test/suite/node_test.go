package suite

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Before anything is built, the demo says in one sentence what to do.
func TestDemoBeforeTheBuild(t *testing.T) {
	demo, err := os.ReadFile("../../demo")
	if err != nil {
		t.Fatal(err)
	}
	there := filepath.Join(t.TempDir(), "demo")
	if err := os.WriteFile(there, demo, 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(there).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || strings.Count(string(out), "\n") != 1 || !strings.Contains(string(out), "run `make build` first.") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestCountScripts(t *testing.T) {
	died := errors.New("exit status 1")
	for _, c := range []struct {
		holds  string
		count  func([]byte, error) Count
		output string
		ended  error
		want   Count
	}{
		{"a compiler that takes everything", countRun, "", nil, Count{Passed: 1}},
		{"one that doesn't", countRun, "core/contract.ts(1,1): error", died, Count{Failed: 1}},
		{"Node's totals", countTAP, "TAP version 13\nok 1 - a\n1..1\n# tests 6\n# suites 0\n# pass 3\n# fail 1\n# cancelled 1\n# skipped 1\n# todo 0\n", died, Count{3, 2, 1}},
		{"Node without totals", countTAP, "SyntaxError", died, Count{Failed: 1}},
		{"Node that found no test", countTAP, "# pass 0\n# fail 0\n", nil, Count{Failed: 1}},
		{"a demo that holds", countDemo, "ok   undo: a\nok   undo: b\n2 checks hold, 1.0 s\n", nil, Count{Passed: 2}},
		{"a demo with a check that doesn't", countDemo, "ok   undo: a\nFAIL undo: b\n     | ok   of the log\n", died, Count{1, 1, 0}},
		{"a demo that can't start", countDemo, "demo: there is no bin/boxd: run `make build` first.\n", died, Count{Failed: 1}},
		{"a demo that checks nothing", countDemo, "0 checks hold\n", nil, Count{Failed: 1}},
	} {
		if got := c.count([]byte(c.output), c.ended); got != c.want {
			t.Errorf("%s: %v, want %v", c.holds, got, c.want)
		}
	}
}

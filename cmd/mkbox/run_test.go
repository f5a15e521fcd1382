package main

import (
	"context"
	"strings"
	"testing"
)

// What is wrong in the line is said before anything is built.
func TestRunRefusesAtOnce(t *testing.T) {
	for line, says := range map[string]string{
		"--port 99999": "--port is from 1 to 65535",
		"--port 0":     "--port is from 1 to 65535",
		"--cpus 0":     "--cpus at least 1",
		"--memory 10":  "--memory at least 512",
		"fresh":        `not "fresh"`,
	} {
		err := doRun(context.Background(), &maker{root: t.TempDir()}, strings.Fields(line))
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("run %s: %v", line, err)
		}
	}
}

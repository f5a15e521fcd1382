package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Reliability is where the findings of the long forms are written, one row for each that a test or a part of the suite told by the attribute
// `reliability`.
const Reliability = "docs/reliability.md"

const reliabilityHead = `# What the long tests found

Written by ` + "`make test-all`" + `. The long forms take hours, so a part of them can be run alone (` + "`make test-all ARGS=test/boot`" + `, ` + "`make mutate`" + `) and replaces
its own rows. Each row was held by the test that it names, on that day, at that commit (with + where the tree had changes on top), on a machine of that kind.

| what held | test | when |
|---|---|---|
`

// WriteReliability puts findings into docs/reliability.md in place of the rows of the packages that fit match, which ran just now on the machine.
func WriteReliability(ctx context.Context, root, machine, match string, findings []Finding) error {
	file := filepath.Join(root, Reliability)
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	when := commit(ctx, root) + ", " + machine
	return os.WriteFile(file, reliability(old, match, when, findings), 0o644)
}

// reliability gives the text of the file: the rows of old whose package does not fit match, and the findings.
func reliability(old []byte, match, when string, findings []Finding) []byte {
	var rows []string
	for line := range strings.Lines(string(old)) {
		line = strings.TrimSpace(line)
		cells := strings.Split(line, " | ") // what a cell says itself of | has a backslash before it
		if len(cells) != 3 || cells[1] == "test" {
			continue
		}
		if pkg, _, _ := strings.Cut(cells[1], " "); match != "" && !strings.Contains("gurtos/"+pkg, match) {
			rows = append(rows, line)
		}
	}
	for _, f := range findings {
		if f.Key == "reliability" {
			rows = append(rows, fmt.Sprintf("| %s | %s %s | %s |", strings.ReplaceAll(f.Value, "|", "\\|"), strings.TrimPrefix(f.Package, "gurtos/"), f.Test, when))
		}
	}
	slices.SortStableFunc(rows, func(a, b string) int { return strings.Compare(strings.Split(a, " | ")[1], strings.Split(b, " | ")[1]) })
	return []byte(reliabilityHead + strings.Join(rows, "\n") + "\n")
}

// commit names the tree's commit, or says that it has none.
func commit(ctx context.Context, root string) string {
	git := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = root
		return cmd.Output()
	}
	name, err := git("rev-parse", "--short", "HEAD")
	if err != nil {
		return time.Now().UTC().Format(time.DateTime) + " (no commit)"
	}
	changed, err := git("status", "--porcelain", "--untracked-files=no")
	if err != nil || len(bytes.TrimSpace(changed)) > 0 {
		return string(bytes.TrimSpace(name)) + "+"
	}
	return string(bytes.TrimSpace(name))
}

package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"gurtos/image/step"
)

// Options say what to run.
type Options struct {
	Root  string // the source tree
	Short bool   // the quick loop
	All   bool   // the long forms, and the race detector
	Out   io.Writer
	Show  *step.Show
	Match string // only packages whose path contains it
}

// part is one run of go test.
type part struct {
	what     string
	packages []string
	args     []string
}

// Run runs the tests. Failing tests are no error: they are counted.
func Run(ctx context.Context, o Options) (Count, []Finding, error) {
	var count Count
	var findings []Finding
	if o.Match == "" {
		out, err := o.command(ctx, "vet", "./...").CombinedOutput()
		if ctx.Err() != nil {
			return count, nil, context.Cause(ctx)
		}
		if err != nil {
			count.Failed++
			fmt.Fprintf(o.Out, "FAIL go vet\n%s\n", out)
		} else {
			count.Passed++
		}
	}
	parts, err := o.parts(ctx)
	if err != nil {
		return count, nil, err
	}
	var skips []string
	for _, p := range parts {
		r, err := o.run(ctx, p)
		if err != nil {
			return count, nil, err
		}
		count.add(r.count)
		skips = append(skips, r.skips...)
		findings = append(findings, r.findings...)
	}
	if !o.Short {
		c, err := o.fuzz(ctx)
		if err != nil {
			return count, nil, err
		}
		count.add(c)
	}
	for _, p := range scripts {
		if !strings.Contains(p.path, o.Match) || o.Short && !p.quick {
			continue
		}
		c, err := p.run(ctx, o)
		if err != nil {
			return count, nil, err
		}
		count.add(c)
	}
	slices.Sort(skips)
	for _, s := range slices.Compact(skips) {
		fmt.Fprintf(o.Out, "skipped: %s\n", s)
	}
	return count, findings, nil
}

// parts splits the packages: what boots machines or measures runs alone, so that it and the rest don't disturb each other.
func (o Options) parts(ctx context.Context) ([]part, error) {
	cmd := o.command(ctx, "list", "./...")
	cmd.Stderr = o.Out
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the packages: %w", err)
	}
	var plain, heavy []string
	for _, p := range strings.Fields(string(out)) {
		switch {
		case !strings.Contains(p, o.Match):
		case strings.HasPrefix(p, "gurtos/test/"):
			heavy = append(heavy, p)
		default:
			plain = append(plain, p)
		}
	}
	parts := []part{{"tests of packages", plain, nil}, {"tests of the whole", heavy, []string{"-p=1"}}}
	if o.All {
		parts = append(parts, part{"tests under the race detector", plain, []string{"-race", "-short"}})
	}
	return slices.DeleteFunc(parts, func(p part) bool { return len(p.packages) == 0 }), nil
}

// command is a go command in the tree, whose tests see none of the caller's own box.
func (o Options) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = o.Root
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "BOX_") && !strings.HasPrefix(v, "BOX_CACHE=")
	})
	if o.All {
		cmd.Env = append(cmd.Env, "BOX_TEST_ALL=1")
	}
	return cmd
}

func (o Options) run(ctx context.Context, p part) (r *reader, err error) {
	args := append([]string{"test", "-json", "-timeout=30m"}, p.args...)
	if o.Short {
		args = append(args, "-short")
	}
	if o.All {
		args = append(args, "-timeout=4h", "-count=1")
	}
	line := o.Show.Begin(p.what)
	defer func() { line.End(err) }()
	cmd := o.command(ctx, append(args, p.packages...)...)
	cmd.Stderr = o.Out
	events, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting go test: %w", err)
	}
	r = newReader(o.Show.Above(o.Out), line.Say)
	if err := r.read(events); err != nil {
		return nil, err
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.As(err, &exit) && r.count.Failed == 0:
		r.count.Failed++ // go itself failed, and has said why
	case err != nil && !errors.As(err, &exit):
		return nil, err
	}
	return r, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"gurtos/image/deps"
	"gurtos/test/mutate"
	"gurtos/test/suite"
)

func doTest(ctx context.Context, m *maker, args []string) error {
	flags := m.flags("")
	all := flags.Bool("all", false, "the long forms too, and the race detector; writes docs/reliability.md")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := m.ready(ctx, false, deps.Build, deps.Image, deps.Boot, deps.Test); err != nil {
		return err
	}
	if err := errors.Join(m.Packages(ctx), m.Programs(ctx)); err != nil {
		return err
	}
	if match := flags.Arg(0); match == "" || strings.HasPrefix(match, "test") { // nothing else boots
		if _, err := m.image(ctx); err != nil {
			return err
		}
	}
	if strings.Contains("gurtos/test/programs", flags.Arg(0)) {
		if _, err := m.TestTasks(ctx); err != nil {
			return err
		}
	}
	return m.test(ctx, suite.Options{All: *all, Match: flags.Arg(0)})
}

func doCheck(ctx context.Context, m *maker, args []string) error {
	flags := m.flags("")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := m.ready(ctx, false, deps.Build, deps.Test); err != nil {
		return err
	}
	_, err := m.Tasks(ctx)
	if err := errors.Join(m.Packages(ctx), m.Programs(ctx), err); err != nil {
		return err
	}
	return m.test(ctx, suite.Options{Short: true, Match: flags.Arg(0)})
}

// test runs tests and prints the count last.
func (m *maker) test(ctx context.Context, o suite.Options) error {
	o.Root, o.Out, o.Show = m.root, os.Stdout, m.show
	count, findings, err := suite.Run(ctx, o)
	if err != nil {
		return err
	}
	if o.All && o.Match == "" && count.Failed == 0 {
		noticed, err := mutate.Run(ctx, m.root, "", mutateJobs, os.Stdout)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			count.Failed++
		}
		count.Passed += noticed
		findings = append(findings, guards(noticed))
	}
	if o.All && count.Failed == 0 {
		if err := suite.WriteReliability(ctx, m.root, suite.Machine(ctx), o.Match, findings); err != nil {
			return err
		}
	}
	fmt.Println(count)
	if count.Failed > 0 {
		os.Exit(1) // nothing may stand below the count
	}
	return nil
}

func doBench(ctx context.Context, m *maker, args []string) error {
	flags := m.flags("")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := m.ready(ctx, false, deps.Build, deps.Image, deps.Boot, deps.Test); err != nil {
		return err
	}
	if err := m.Programs(ctx); err != nil {
		return err
	}
	img, err := m.image(ctx)
	if err != nil {
		return err
	}
	return suite.Bench(ctx, m.root, flags.Arg(0), os.Stdout, img.Sizes())
}

func doMutate(ctx context.Context, m *maker, args []string) error {
	flags := m.flags("")
	jobs := flags.Int("jobs", mutateJobs, "how many guards to break at once, each in its own copy of the tree")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := m.ready(ctx, false, deps.Build, deps.Test); err != nil {
		return err
	}
	noticed, err := mutate.Run(ctx, m.root, flags.Arg(0), *jobs, os.Stdout)
	if err != nil || flags.Arg(0) != "" {
		return err
	}
	return suite.WriteReliability(ctx, m.root, suite.Machine(ctx), mutated, []suite.Finding{guards(noticed)})
}

// mutateJobs are the guards broken at once when nobody says: tests wait a good deal, and more of them would wait for each other.
const mutateJobs = 2

// mutated is the package whose row tells of all guards.
const mutated = "gurtos/test/mutate"

// guards tells that every guard was broken once and noticed.
func guards(n int) suite.Finding {
	return suite.Finding{Package: mutated, Test: "make mutate", Key: "reliability", Value: fmt.Sprintf("%d guards broken on purpose, one at a time: a test failed for each", n)}
}

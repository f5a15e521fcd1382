package main

import (
	"context"
	"errors"
	"fmt"

	"gurtos/image/build"
	"gurtos/image/deps"
)

func doBuild(ctx context.Context, m *maker, args []string) error {
	flags := m.flags("")
	tests := flags.Bool("tests", false, "the file system with more programs too, in which test/programs tries them")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := m.ready(ctx, false, deps.Build); err != nil {
		return err
	}
	_, err := m.Tasks(ctx)
	if *tests && err == nil {
		_, err = m.TestTasks(ctx)
	}
	return errors.Join(m.Packages(ctx), m.Programs(ctx), err, m.Prune())
}

func doImage(ctx context.Context, m *maker, args []string) error {
	flags := m.flags("")
	why := flags.Bool("why", false, "only tell what would be built anew, and why")
	refresh := flags.Bool("refresh", false, "take today's Debian packages and write image/packages.lock")
	debug := flags.Bool("debug", false, "a debug build: with a shell on the console")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := m.ready(ctx, *debug, deps.Build, deps.Image); err != nil {
		return err
	}
	if *refresh {
		return m.Refresh(ctx)
	}
	if err := m.Programs(ctx); err != nil {
		return err
	}
	if *why {
		lines, err := m.Why(ctx)
		for _, l := range lines {
			fmt.Println(l)
		}
		return err
	}
	img, err := m.image(ctx)
	if err != nil {
		return err
	}
	fmt.Println(img.Disk)
	return m.Prune()
}

// image builds everything that a boot needs.
func (m *maker) image(ctx context.Context) (build.Image, error) {
	if _, err := m.Tasks(ctx); err != nil { // sets the link .cache/tasks too
		return build.Image{}, err
	}
	return m.Image(ctx)
}

func doDeps(context.Context, *maker, []string) error {
	for _, p := range deps.Packages {
		fmt.Printf("%-24s %s\n", p.Name, p.For)
	}
	return nil
}

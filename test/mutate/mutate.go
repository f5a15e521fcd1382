package mutate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"gurtos/image/build"
)

// Guard is a place in the code and the test that must notice when it is broken.
type Guard struct {
	Name string // what it keeps safe
	File string // from the tree's root
	Old  string // the text as it is, exactly once in File
	New  string // the text that breaks it, and still compiles
	Pkg  string // package of the test, such as ./sandbox
	Test string // name of the test, or a -run pattern
}

// guests is the package whose tests boot one.
const guests = "./test/boot"

// limit is the longest that one guard's test may take; those that boot a guest have more.
const limit, limitOfGuests = 10 * time.Minute, 30 * time.Minute

// Copy copies the tree, as git sees it with what is not yet added, and lends it what was built.
func Copy(ctx context.Context, root, to string) error {
	list := exec.CommandContext(ctx, "git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("listing the tree's files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		st, err := os.Lstat(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and not yet in git
		}
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755); err != nil {
			return err
		}
		if st.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(filepath.Join(root, name))
			if err != nil {
				return err
			}
			if err := os.Symlink(target, filepath.Join(to, name)); err != nil {
				return err
			}
			continue
		}
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), b, st.Mode().Perm()); err != nil {
			return err
		}
	}
	for _, built := range []string{"bin", ".cache", "node_modules"} {
		if err := os.Symlink(filepath.Join(root, built), filepath.Join(to, built)); err != nil {
			return err
		}
	}
	return nil
}

// Check finds guards whose place is gone or not the only one.
func Check(root string, guards []Guard) error {
	var errs []error
	for _, g := range guards {
		b, err := os.ReadFile(filepath.Join(root, g.File))
		switch n := strings.Count(string(b), g.Old); {
		case err != nil:
			errs = append(errs, fmt.Errorf("guard %q: %w", g.Name, err))
		case n != 1:
			errs = append(errs, fmt.Errorf("guard %q: its text occurs %d times in %s, not once", g.Name, n, g.File))
		case g.New == g.Old:
			errs = append(errs, fmt.Errorf("guard %q breaks nothing", g.Name))
		}
	}
	return errors.Join(errs...)
}

// Try breaks one guard in the copy of the tree and runs its test. It returns an error when nobody notices, with what the test said.
func Try(ctx context.Context, tree string, g Guard) (err error) {
	file := filepath.Join(tree, g.File)
	whole, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.WriteFile(file, whole, 0o644)) }()
	if err := os.WriteFile(file, []byte(strings.Replace(string(whole), g.Old, g.New, 1)), 0o644); err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "vet", g.Pkg, "./"+filepath.Dir(g.File))
	build.Dir = tree
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("the broken code doesn't compile, so its test proves nothing:\n%s", out)
	}
	out, err := test(ctx, tree, g)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil && !strings.Contains(out, "--- PASS"):
		return fmt.Errorf("no test of %s ran that fits %s", g.Pkg, g.Test)
	case err == nil:
		return errors.New("the test passes although the guard is broken")
	case !strings.Contains(out, "--- FAIL"):
		return fmt.Errorf("the test didn't fail but broke off: %w\n%s", err, out)
	}
	return nil
}

// Sound returns an error when a guard's test fails although nothing is broken: then it can't tell anything.
func Sound(ctx context.Context, tree string, g Guard) error {
	said, err := test(ctx, tree, g)
	if err != nil {
		return fmt.Errorf("its test fails although nothing is broken: %w\n%s", err, said)
	}
	return nil
}

// test runs a guard's test in the copy of the tree as it is.
func test(ctx context.Context, tree string, g Guard) (said string, err error) {
	limit := limit
	if g.Pkg == guests {
		limit = limitOfGuests
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the test took more than %v", limit))
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-timeout="+limit.String(), "-run", g.Test, "-v", g.Pkg)
	cmd.Dir = tree
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return string(out), err
}

// Run tries all guards whose name contains match, as many at once as jobs says, each of them in a copy of the tree of its own.
// It tells how each went, and how many were noticed.
func Run(ctx context.Context, root, match string, jobs int, out io.Writer) (noticed int, err error) {
	guards := slices.DeleteFunc(slices.Clone(Guards), func(g Guard) bool { return !strings.Contains(g.Name, match) })
	if err := Check(root, guards); err != nil {
		return 0, err
	}
	if slices.ContainsFunc(guards, func(g Guard) bool { return g.Pkg == guests }) {
		if _, err := build.Built(root); err != nil { // or each of their tests would fail for want of it
			return 0, err
		}
	}
	r := &run{out: out, sound: map[[2]string]func() error{}}
	next := make(chan Guard)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(next)
		for _, g := range guards {
			select {
			case next <- g:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
	for range max(1, min(jobs, len(guards))) {
		group.Go(func() error { return r.tries(ctx, root, next) })
	}
	if err := group.Wait(); err != nil {
		return r.noticed, err
	}
	fmt.Fprintf(out, "%d guards noticed, %d not\n", r.noticed, r.unnoticed)
	if r.unnoticed > 0 {
		return r.noticed, fmt.Errorf("%d guards can be broken without a test that fails", r.unnoticed)
	}
	return r.noticed, nil
}

// run is what the jobs of one Run share.
type run struct {
	guest sync.Mutex // held by the job that boots one: two at once take longer than one after another

	mu                 sync.Mutex
	out                io.Writer
	noticed, unnoticed int
	sound              map[[2]string]func() error // by package and test: why it can't tell anything, nil when it passes as it should while nothing is broken
}

// tries tries the guards that come, in a copy of the tree.
func (r *run) tries(ctx context.Context, root string, guards <-chan Guard) error {
	tree, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tree)
	if err := Copy(ctx, root, tree); err != nil {
		return fmt.Errorf("copying the tree: %w", err)
	}
	for g := range guards {
		start := time.Now()
		err := r.try(ctx, tree, g)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.tell(g, time.Since(start), err)
	}
	return nil
}

// try returns why a guard's test can't tell or doesn't notice that it is broken.
func (r *run) try(ctx context.Context, tree string, g Guard) error {
	if g.Pkg == guests {
		r.guest.Lock()
		defer r.guest.Unlock()
	}
	r.mu.Lock()
	key := [2]string{g.Pkg, g.Test}
	if r.sound[key] == nil {
		r.sound[key] = sync.OnceValue(func() error { return Sound(ctx, tree, g) })
	}
	sound := r.sound[key]
	r.mu.Unlock()
	if err := sound(); err != nil {
		return err
	}
	return Try(ctx, tree, g)
}

// tell counts a guard and says how it went.
func (r *run) tell(g Guard, took time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.unnoticed++
		fmt.Fprintf(r.out, "NOT NOTICED %s (%s): %v\n", g.Name, g.File, err)
		return
	}
	r.noticed++
	fmt.Fprintf(r.out, "noticed     %-50s %5.1f s  %s %s\n", g.Name, took.Seconds(), g.Pkg, g.Test)
}

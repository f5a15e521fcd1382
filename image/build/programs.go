package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// Program is one that goes into bin/.
type program struct {
	name string
	cgo  bool // needs C: linked statically with glibc, whose name look-ups are replaced by Go's
}

var programs = []program{{"boxd", true}, {"box", false}, {"init", false}, {"worker", false}} // mkbox itself is built by the Makefile

// boxInit is the C program that is PID 1 in a sandbox.
const boxInit = "box-init"

// Programs builds all static programs into bin/. Go's own cache makes that quick when nothing changed.
func (b *Build) Programs(ctx context.Context) (err error) {
	line := b.Show.Begin("programs in bin/")
	defer func() { line.End(err) }()
	log, err := os.Create(filepath.Join(b.cache, "log", "programs"))
	if err != nil {
		return err
	}
	defer log.Close()
	bin := filepath.Join(b.Root, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, max(1, runtime.NumCPU()/2)) // each runs compilers beside itself
	errs := make([]error, len(programs)+1)
	for i, p := range programs {
		if files, _ := filepath.Glob(filepath.Join(b.Root, "cmd", p.name, "*.go")); files == nil {
			continue
		}
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			line.Say(p.name)
			errs[i] = b.goBuild(ctx, log, p, bin)
		})
	}
	group.Go(func() { errs[len(programs)] = b.cBuild(ctx, log, bin) })
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w\n(all output: %s)", err, log.Name())
	}
	return nil
}

func (b *Build) goBuild(ctx context.Context, log io.Writer, p program, bin string) error {
	args := []string{"build", "-trimpath", "-buildvcs=false", "-o", filepath.Join(bin, p.name)}
	env := "CGO_ENABLED=0"
	ld := "-s -w -buildid= -X gurtos/core/config.Version=" + strings.TrimSuffix(b.Release.Version, ".debug")
	if p.cgo {
		args = append(args, "-tags", "netgo,osusergo")
		ld += " -linkmode=external -extldflags=-static"
		env = "CGO_ENABLED=1"
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "-ldflags", ld, "./cmd/"+p.name)...)
	return b.compile(cmd, log, "cmd/"+p.name, env)
}

func (b *Build) cBuild(ctx context.Context, log io.Writer, bin string) error {
	out := filepath.Join(bin, boxInit)
	if err := b.compile(exec.CommandContext(ctx, "gcc", "@sandbox/boxinit/gcc.args", "-o", out+".next"), log, "sandbox/boxinit"); err != nil {
		return err
	}
	return os.Rename(out+".next", out) // gcc writes in place, and a running box-init can't be overwritten
}

// compile runs a compiler, whose complaint is the error.
func (b *Build) compile(cmd *exec.Cmd, log io.Writer, what string, env ...string) error {
	var said strings.Builder
	cmd.Dir, cmd.Env = b.Root, append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(log, &said), io.MultiWriter(log, &said)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("compiling %s: %w\n%s", what, err, strings.TrimSpace(said.String()))
	}
	return nil
}

// Command mkbox builds GurtOS, boots it in QEMU and runs its tests. The Makefile names its verbs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"gurtos/image/build"
	"gurtos/image/deps"
	"gurtos/image/step"
)

// verb is one thing mkbox does.
type verb struct {
	name, short string
	run         func(ctx context.Context, m *maker, args []string) error
}

// maker is what verbs share.
type maker struct {
	root string
	show *step.Show
	verb verb // that is run
	*build.Build
}

// flags are those of the verb; its help begins with what it does, and ends with more.
func (m *maker) flags(more string) *flag.FlagSet {
	set := flag.NewFlagSet(m.verb.name, flag.ContinueOnError)
	set.Usage = func() {
		fmt.Fprintf(set.Output(), "usage: mkbox %s\n\n%s\n", m.verb.name, m.verb.short)
		if more != "" {
			fmt.Fprintf(set.Output(), "\n%s\n", more)
		}
		any := false
		set.VisitAll(func(*flag.Flag) { any = true })
		if any {
			fmt.Fprintln(set.Output(), "\nflags:")
			set.PrintDefaults()
		}
	}
	return set
}

var verbs = []verb{
	{"build", "static programs into bin/ and the file system that tasks see", doBuild},
	{"run", "build, boot the box in QEMU and show its address", doRun},
	{"dev", "build and start boxd on this machine", doDev},
	{"test", "all tests; the last line is the count (--all for the long forms, a part of a package's path for those)", doTest},
	{"check", "the quick loop: build, vet, short tests", doCheck},
	{"bench", "measure, and write docs/performance.md", doBench},
	{"mutate", "break each guard on purpose: its test must notice", doMutate},
	{"image", "the bootable system disk (--why, --refresh, --debug)", doImage},
	{"deps", "what this machine needs installed, and why", doDeps},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		tell(err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	for _, v := range verbs {
		if len(args) > 0 && args[0] == v.name {
			root, err := tree()
			if err != nil {
				return err
			}
			// Where the Makefile had to fetch a newer Go.
			os.Setenv("PATH", filepath.Join(root, ".cache", "go", "bin")+":"+os.Getenv("PATH"))
			_, err = unix.IoctlGetTermios(int(os.Stdout.Fd()), unix.TCGETS)
			return v.run(ctx, &maker{root: root, show: step.NewShow(os.Stdout, err == nil), verb: v}, args[1:])
		}
	}
	fmt.Fprintln(os.Stderr, "usage: mkbox VERB")
	for _, v := range verbs {
		fmt.Fprintf(os.Stderr, "  %-8s %s\n", v.name, v.short)
	}
	return errors.New("no such verb")
}

// tree finds the source tree: the folder above bin/mkbox, or the one we are in.
func tree() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for _, dir := range []string{here, filepath.Dir(filepath.Dir(self))} {
		if _, err := os.Stat(filepath.Join(dir, "cmd", "mkbox")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("run mkbox in the source tree")
}

// tell prints an error, and of a failed step the end of its log.
func tell(err error) {
	fmt.Fprintln(os.Stderr, "mkbox:", err)
	var f *step.Failed
	if errors.As(err, &f) {
		for _, line := range f.Tail(20) {
			fmt.Fprintln(os.Stderr, "  |", line)
		}
	}
}

// install brings the packages that the uses need and this machine lacks.
func (m *maker) install(ctx context.Context, uses ...deps.Use) (err error) {
	if len(deps.Missing(uses...)) == 0 {
		return nil
	}
	name := filepath.Join(m.root, ".cache", "log", "packages")
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	log, err := os.Create(name)
	if err != nil {
		return err
	}
	defer log.Close()
	line := m.show.Begin("packages of this machine")
	defer func() { line.End(err) }()
	err = deps.Ensure(ctx, m.show.Above(os.Stdout), log, uses...)
	if st, _ := log.Stat(); err != nil && st.Size() > 0 { // apt was run
		return &step.Failed{What: "this machine ready", Log: name, Err: err}
	}
	return err
}

// ready installs what the uses need and looks at the source tree.
func (m *maker) ready(ctx context.Context, debug bool, uses ...deps.Use) error {
	if err := m.install(ctx, uses...); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("building file systems with files of root, and running boxd, need root: run this as root")
	}
	b, err := build.Open(ctx, m.root, debug, m.show)
	m.Build = b
	return err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"gurtos/image/deps"
	"gurtos/image/guest"
)

func doRun(ctx context.Context, m *maker, args []string) error {
	flags := m.flags("")
	o := guest.Options{Dir: filepath.Join(m.root, ".box"), Tell: os.Stdout, Show: m.show}
	flags.BoolVar(&o.Fresh, "fresh", false, "begin with a new data disk; what was on the old one is gone")
	flags.IntVar(&o.Port, "port", 7700, "port of this machine's loopback")
	flags.IntVar(&o.MemoryMB, "memory", 2048, "memory in MB")
	flags.IntVar(&o.CPUs, "cpus", 2, "processors")
	flags.BoolVar(&o.Screen, "screen", false, "give it a screen, that QEMU can photograph")
	debug := flags.Bool("debug", false, "a debug build: with a shell on the console")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("run takes flags alone, not %q; --help lists them", flags.Arg(0))
	}
	if o.Port < 1 || o.Port > 65535 || o.CPUs < 1 || o.MemoryMB < 512 {
		return fmt.Errorf("--port is from 1 to 65535, --cpus at least 1 and --memory at least 512")
	}
	if err := m.ready(ctx, *debug, deps.Build, deps.Image, deps.Boot); err != nil {
		return err
	}
	if err := m.Programs(ctx); err != nil {
		return err
	}
	img, err := m.image(ctx)
	if err != nil {
		return err
	}
	if err := m.Prune(); err != nil {
		return err
	}
	return guest.Run(ctx, img, o)
}

// doDev becomes boxd, on this machine.
func doDev(ctx context.Context, m *maker, args []string) error {
	flags := m.flags("It takes no flags. What boxd is to know, such as its ports, stands in the environment: `bin/boxd --help` and README.md list it.\nWith BOX_PORT=7800 BOX_LAN=8080 it answers on 127.0.0.1:7800, and without TLS on port 8080 of this machine's uplinks.")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("dev takes nothing, not %q; --help says where boxd is told what to do", flags.Arg(0))
	}
	if err := m.ready(ctx, false, deps.Build); err != nil {
		return err
	}
	_, err := m.Tasks(ctx)
	if err := errors.Join(m.Programs(ctx), err); err != nil {
		return err
	}
	boxd := filepath.Join(m.root, "bin", "boxd")
	if _, err := exec.LookPath(boxd); err != nil {
		return err
	}
	fmt.Println(devLine(m.root, os.Getenv("BOX_HOME")))
	return syscall.Exec(boxd, []string{boxd}, os.Environ())
}

// devLine says where the data are, and a command that reaches them: the box command looks
// for its box in the same BOX_HOME.
func devLine(root, home string) string {
	if home == "" {
		return "boxd runs on this machine, with its data in " + filepath.Join(root, ".box", "home") + ". Ctrl-C ends it; `bin/box task list` talks to it."
	}
	return fmt.Sprintf("boxd runs on this machine, with its data in %s. Ctrl-C ends it; `BOX_HOME=%[1]s bin/box task list` talks to it.", home)
}

// Command boxd is the box's daemon. It takes its whole configuration from the
// environment and prints "ready http://127.0.0.1:PORT" once it answers.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // the time zones of the settings, on machines without any

	"gurtos/core/actionlog"
	"gurtos/core/box"
	"gurtos/core/config"
	"gurtos/portal/kit"
	"gurtos/sandbox"
)

const usage = `boxd is the daemon of a GurtOS box. It takes no arguments; the environment says:

  BOX_HOME              all of the box's data (.box/home beside bin/; on a box /data/box)
  BOX_PORT              HTTP on loopback (7700)
  BOX_LAN               ports on the uplinks, plain and TLS such as 80,443, plain alone such as 8080, or off (off; on a box 80,443)
  BOX_VAULT             the vault file, root's alone (vault.env in BOX_HOME; on a box /etc/box/vault.env)
  BOX_TRACKS            folder of apps (tracks beside bin/)
  BOX_TASKS_ROOT        root file system for tasks: a folder or an EROFS image
  BOX_MODEL             model of Droid tasks that name none
  BOX_APPROVAL_WAIT_MS  how long a question waits before it is told to be pending (150000)

SIGTERM ends it in order. A damaged action log stops it at the start, with exit code 65: see box help log quarantine.
`

func main() {
	sandbox.Init() // a sandbox is born by running this program anew
	if len(os.Args) > 1 {
		fmt.Fprint(os.Stderr, usage)
		if os.Args[1] == "-h" || os.Args[1] == "--help" {
			return
		}
		os.Exit(2)
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "boxd:", err)
		os.Exit(code(err))
	}
}

// code is the exit code of an error.
func code(err error) int {
	if errors.As(err, new(*actionlog.DamageError)) {
		return config.ExitDamaged
	}
	return 1
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	conf, err := config.Read()
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	b, err := box.Open(ctx, box.Options{Config: conf, Kit: kit.Files, Log: log})
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // ended before it had begun
	}
	if err != nil {
		return err
	}
	err = b.Serve(ctx, func() { fmt.Printf("ready http://127.0.0.1:%d\n", conf.Port) })
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // ended before it was ready
	}
	seq, hash := b.Head()
	fmt.Printf("stopped at line %d of the action log, %s\n", seq, hash)
	return err
}

// Command box is the owner's command line: it talks to a box over the box's own
// socket, or over HTTP with BOX_URL and BOX_TOKEN.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"gurtos/cmd/box/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Main(ctx, cli.Env{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Get: os.Getenv,
	}, os.Args[1:])
	stop()
	os.Exit(code)
}

// Command worker is what runs in a task's sandbox. Its argument says which
// worker: fake.
package main

import (
	"context"
	"fmt"
	"os"

	"gurtos/worker"
	"gurtos/worker/fake"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err) // the task's error is the last line of its output
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 || args[0] != "fake" {
		return fmt.Errorf("usage: worker fake, not worker %q", args)
	}
	b, err := worker.Open()
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("the working folder: %w", err)
	}
	return fake.Run(context.Background(), b, dir)
}

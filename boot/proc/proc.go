package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// mu guards own and is held from before fork until the pid is in own: between
// the two the reaper would take the new child for an orphan. os/exec reaps the
// child of a failed exec itself, within Start.
var (
	mu  sync.Mutex
	own = map[int]bool{} // pids that some goroutine waits for
)

// Start starts cmd. Wait must be called for it.
func Start(cmd *exec.Cmd) error {
	mu.Lock()
	defer mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	own[cmd.Process.Pid] = true
	return nil
}

// Wait waits for a cmd that Start started.
func Wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	mu.Lock()
	defer mu.Unlock()
	delete(own, cmd.Process.Pid)
	return err
}

// Run runs a program to its end. The error of one that fails carries the last
// line it wrote.
func Run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := Start(cmd)
	if err == nil {
		err = Wait(cmd)
	}
	if err == nil {
		return nil
	}
	text := strings.TrimSpace(out.String())
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	if text != "" {
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, text)
	}
	return fmt.Errorf("%s: %w", filepath.Base(name), err)
}

// ExitCode is the exit code in an error of Run or Wait, or -1.
func ExitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}

// Reap reaps orphans whenever a child ends, until ctx ends.
func Reap(ctx context.Context) {
	ended := make(chan os.Signal, 1) // one is enough: each look takes all there are
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	for {
		reapOrphans()
		select {
		case <-ended:
		case <-ctx.Done():
			return
		}
	}
}

// reapOrphans looks at all children of this process and reaps those that ended
// and have no waiter. It returns how many.
func reapOrphans() int {
	mu.Lock()
	defer mu.Unlock()
	n := 0
	for _, pid := range children() {
		if own[pid] {
			continue
		}
		var status syscall.WaitStatus
		if got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil); err == nil && got == pid {
			n++
		}
	}
	return n
}

// children lists the children of all threads of this process: the kernel keeps
// them by the thread that forked or inherited them.
func children() []int {
	files, _ := filepath.Glob("/proc/self/task/*/children")
	var pids []int
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has ended; its children moved to another
		}
		for _, word := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

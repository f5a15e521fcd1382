package fake

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	mostOutput = 8 << 10                // bytes of a command's output that a step shows
	lastWords  = 500 * time.Millisecond // for what left the command's group and still holds its output
)

func runOrFail(ctx context.Context, l *line, args []string) error {
	code, err := l.shell(ctx, args[0])
	if err == nil && code != 0 {
		err = l.failed("%s: exit code %d%s", cut(args[0], 200), code, lastSaid(l.data["output"]))
	}
	return err
}

// lastSaid is the last line of a command's output, as the end of a sentence.
func lastSaid(output any) string {
	text, _ := output.(string)
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	return ": " + cut(strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:]), 200)
}

func tryRun(ctx context.Context, l *line, args []string) error {
	_, err := l.shell(ctx, args[0])
	return err
}

// shell runs a command in the workspace, in a process group of its own that
// ends with it.
func (l *line) shell(ctx context.Context, command string) (code int, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, l.failed("%w", err)
	}
	defer r.Close()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Dir, cmd.Stdout, cmd.Stderr = l.dir, w, w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return 0, l.failed("starting a shell: %w", err)
	}
	output := make(chan string, 1)
	go func() { output <- tail(r) }()
	err = cmd.Wait()
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	r.SetReadDeadline(time.Now().Add(lastWords))
	l.data["output"] = <-output
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, l.failed("%w", err)
	}
	code = cmd.ProcessState.ExitCode()
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		code = 128 + int(ws.Signal())
	}
	l.data["exit"] = code
	return code, nil
}

// tail reads to the end, or the deadline, and keeps the last of it.
func tail(r *os.File) string {
	var kept []byte
	b := make([]byte, 32<<10)
	for {
		n, err := r.Read(b)
		kept = append(kept, b[:n]...)
		if over := len(kept) - mostOutput; over > 0 {
			kept = append(kept[:0], kept[over:]...)
		}
		if err != nil {
			return strings.ToValidUTF8(string(kept), "\uFFFD")
		}
	}
}

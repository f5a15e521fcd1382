package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/core/config"
)

// How long a box may take to start, and to end.
const (
	startTime = time.Minute
	endTime   = time.Minute
)

// ownBox is a boxd that runs for as long as this does.
type ownBox struct {
	client *client
	cmd    *exec.Cmd
	ended  chan error // how it ended
	over   chan struct{}
	home   string
	keep   bool
}

// startBox starts the boxd that lies beside this program, with a home of its own.
func startBox(s *session, tracks string) (*ownBox, error) {
	conf, err := config.Read()
	if err != nil {
		return nil, err
	}
	program := filepath.Join(conf.Tools, "boxd")
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("there is no %s: run make build in the source tree", program)
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("a box needs root for its sandboxes: run this as root, or start one (make dev) and give --running")
	}
	b := &ownBox{home: s.value("home"), keep: s.given("home"), ended: make(chan error, 1), over: make(chan struct{})}
	if b.keep {
		if b.home, err = filepath.Abs(b.home); err == nil {
			err = os.MkdirAll(b.home, 0o700)
		}
	} else {
		b.home, err = os.MkdirTemp("/tmp", "box") // a task's socket beneath it has at most 107 bytes
	}
	if err != nil {
		return nil, fmt.Errorf("making a home for the box: %w", err)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	b.cmd = exec.Command(program)
	b.cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "BOX_") && !strings.HasPrefix(v, "BOX_TASKS_ROOT=") && !strings.HasPrefix(v, "BOX_MODEL=")
	}), "BOX_HOME="+b.home, "BOX_PORT="+strconv.Itoa(port), "BOX_LAN=off", "BOX_TRACKS="+tracks)
	// Ctrl-C on a terminal goes to both: the box is ended in order by this program.
	b.cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	b.cmd.Stderr = &boxdLines{to: s.Err}
	if err := b.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the box: %w", err), b.remove())
	}
	ready := make(chan bool, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "ready ") {
				ready <- true
			}
		}
		b.ended <- ending(b.cmd.Wait())
		close(b.over)
	}()
	late := time.NewTimer(startTime)
	defer late.Stop()
	select {
	case <-ready:
	case how := <-b.ended:
		return nil, errors.Join(fmt.Errorf("the box ended before it was ready: %w", how), b.remove())
	case <-late.C:
		return nil, errors.Join(errors.New("the box is not ready after a minute"), b.end())
	case <-s.ctx.Done():
		return nil, errors.Join(s.ctx.Err(), b.end())
	}
	b.client = overSocket(b.home)
	return b, nil
}

// ending is how a process ended, in words.
func ending(err error) error {
	if err == nil {
		return errors.New("exit code 0")
	}
	return err
}

// end ends it in order, and removes its home.
func (b *ownBox) end() error {
	b.cmd.Process.Signal(unix.SIGTERM) //nolint:errcheck // then it is gone
	late := time.NewTimer(endTime)
	defer late.Stop()
	select {
	case <-b.over:
	case <-late.C:
		b.cmd.Process.Kill() //nolint:errcheck // then it is gone
		<-b.over
		return fmt.Errorf("the box did not end within a minute and was killed; its data are in %s", b.home)
	}
	return b.remove()
}

// remove deletes the home, never through something that is still mounted in it.
func (b *ownBox) remove() error {
	if b.keep {
		return nil
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for l := range strings.Lines(string(mounts)) {
		if f := strings.Fields(l); len(f) > 4 && strings.HasPrefix(f[4]+"/", b.home+"/") {
			return fmt.Errorf("%s stays: something is mounted in it", b.home)
		}
	}
	return os.RemoveAll(b.home)
}

// boxdLines passes on what boxd says, without what would steer the terminal.
type boxdLines struct {
	to   io.Writer
	rest []byte
}

// Write passes whole lines on.
func (l *boxdLines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		i := slices.Index(l.rest, '\n')
		if i < 0 {
			return len(p), nil
		}
		if text := string(l.rest[:i]); !strings.Contains(text, "level=INFO") && !strings.Contains(text, "an app can't be used") { // the answer says that, too
			fmt.Fprintln(l.to, "boxd:", visible(text))
		}
		l.rest = l.rest[i+1:]
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

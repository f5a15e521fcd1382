package daemon

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gurtos/test/planted"
)

// patience is how long boxd may take to start or to end on a busy machine.
const patience = time.Minute

// Home is where a box lives, and how it is started.
type Home struct {
	Dir     string // BOX_HOME
	Port    int
	Program string
	Args    []string
	Tasks   string // root file system of its tasks; the shipped one unless said otherwise

	t       testing.TB
	logs    string         // file with all that it printed
	planted planted.Values // in its vault, and nowhere else
}

// GuestEnv is set where there is no source tree, such as in the guest of boot tests: it names the folder with boxd and the programs that it needs.
// The tasks root is then in BOX_TASKS_ROOT, and homes are below TMPDIR.
const GuestEnv = "BOX_TEST_TOOLS"

// New makes a home for a box that runs bin/boxd. What the box printed is kept when the test fails. Its vault holds planted values, which are searched for at
// the end: in its files, in what it printed, and in what it answers when it is stopped in order.
func New(t testing.TB) *Home {
	t.Helper()
	h := &Home{t: t, planted: planted.New()}
	homes, kept := "/tmp", "" // the path of a task's socket is short
	if tools := os.Getenv(GuestEnv); tools != "" {
		h.Program, h.Tasks = filepath.Join(tools, "boxd"), os.Getenv("BOX_TASKS_ROOT")
		homes, kept = os.TempDir(), os.TempDir()
	} else {
		h.Program, h.Tasks = filepath.Join(Root(t), "bin", "boxd"), filepath.Join(Root(t), ".cache", "tasks")
		kept = filepath.Join(Root(t), ".cache", "kept")
	}
	if _, err := os.Stat(h.Program); err != nil {
		t.Fatalf("there is no %s: run `make build` first", h.Program)
	}
	var err error
	if h.Dir, err = os.MkdirTemp(homes, "box"); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(kept, 0o755); err != nil {
		t.Fatal(err)
	}
	logs, err := os.CreateTemp(kept, "boxd-*.log")
	if err != nil {
		t.Fatal(err)
	}
	logs.Close()
	h.logs = logs.Name()
	h.planted.Write(t, h.Dir)
	t.Cleanup(func() {
		h.planted.Files(t, h.Dir)
		text, err := os.ReadFile(h.logs)
		if err != nil {
			t.Error(err)
		}
		h.planted.Search(t, "what boxd printed", text)
		if t.Failed() {
			os.Rename(filepath.Join(h.Dir, "log.jsonl"), h.logs+".jsonl")
			t.Logf("what boxd printed is in %s, its action log beside it", h.logs)
		} else {
			os.Remove(h.logs)
		}
		os.RemoveAll(h.Dir)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.Port = l.Addr().(*net.TCPAddr).Port
	l.Close()
	return h
}

// URL is where its API answers.
func (h *Home) URL() string { return fmt.Sprintf("http://127.0.0.1:%d", h.Port) }

// Shop has the box run shopbox in place of boxd: the same with the tools of a shop. Each run of a tool is a line in the file till.
func (h *Home) Shop() (till string) {
	h.t.Helper()
	till = filepath.Join(h.t.TempDir(), "till")
	h.fixture("shopbox", till)
	return till
}

// FromTree has the box run what the source tree holds now, as modelbox: a test that does so notices what was broken there.
func (h *Home) FromTree() {
	h.t.Helper()
	h.fixture("modelbox")
}

// fixture builds one of test/fixtures and has it run in place of boxd, with the folder of the other programs before args.
func (h *Home) fixture(name string, args ...string) {
	h.t.Helper()
	root := Root(h.t)
	h.Program, h.Args = filepath.Join(h.t.TempDir(), name), append([]string{filepath.Join(root, "bin")}, args...)
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags=netgo,osusergo", "-ldflags=-s -w -linkmode=external -extldflags=-static",
		"-o", h.Program, "./test/fixtures/"+name)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Fatalf("building %s: %v\n%s", name, err, out)
	}
}

// Daemon is a boxd that runs.
type Daemon struct {
	home  *Home
	cmd   *exec.Cmd
	ended chan error
}

// Start starts it and waits until it answers. It is killed when the test ends, if it still runs.
func (h *Home) Start() *Daemon {
	h.t.Helper()
	d, ready := h.launch()
	select {
	case <-ready:
	case err := <-d.ended:
		d.ended <- err
		text, _ := os.ReadFile(h.logs)
		h.t.Fatalf("boxd ended before it was ready: %v\n%s", err, text)
	case <-time.After(patience):
		h.t.Fatalf("boxd isn't ready after %v", patience)
	}
	return d
}

// StartAndKill starts it and kills it after a time, ready or not.
func (h *Home) StartAndKill(after time.Duration) {
	h.t.Helper()
	d, _ := h.launch()
	<-time.After(after)
	d.Kill()
}

// launch starts it; ready is closed when it answers.
func (h *Home) launch() (d *Daemon, ready chan struct{}) {
	h.t.Helper()
	logs, err := os.OpenFile(h.logs, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	d = &Daemon{home: h, cmd: exec.Command(h.Program, h.Args...), ended: make(chan error, 1)}
	d.cmd.Env = append(os.Environ(), "BOX_HOME="+h.Dir, "BOX_PORT="+strconv.Itoa(h.Port), "BOX_LAN=off", "BOX_VAULT=",
		"BOX_TASKS_ROOT="+h.Tasks)
	d.cmd.Stderr = logs
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	ready = make(chan struct{})
	go func() {
		defer logs.Close()
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "ready ") {
				close(ready)
			}
			fmt.Fprintln(logs, lines.Text())
		}
		d.ended <- d.cmd.Wait()
	}()
	h.t.Cleanup(d.Kill)
	return d, ready
}

// PID is the process id of boxd.
func (d *Daemon) PID() int { return d.cmd.Process.Pid }

// Kill ends it as SIGKILL does, and waits until it is gone.
func (d *Daemon) Kill() {
	d.cmd.Process.Kill() // one that has ended is what was wanted
	d.ended <- <-d.ended
}

// Stop ends it in order.
func (d *Daemon) Stop() {
	d.home.t.Helper()
	d.home.planted.API(d.home.t, &http.Client{Timeout: patience}, d.home.URL())
	d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-d.ended:
		d.ended <- err
		if err != nil {
			d.home.t.Errorf("boxd ended with %v", err)
		}
	case <-time.After(patience):
		d.home.t.Errorf("boxd doesn't end %v after SIGTERM", patience)
		d.Kill()
	}
}

// Memory is how much of its own it holds in memory, in KB: what it shares with files isn't counted.
func (d *Daemon) Memory() (kb int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		if v, ok := bytes.CutPrefix(line, []byte("RssAnon:")); ok {
			_, err := fmt.Sscan(string(v), &kb)
			return kb, err
		}
	}
	return 0, errors.New("the kernel tells no RssAnon")
}

// Root is the source tree.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil {
		if _, serr := os.Stat(filepath.Join(dir, "go.mod")); serr == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			err = errors.New("no go.mod above")
		}
		dir = filepath.Dir(dir)
	}
	t.Fatalf("finding the source tree: %v", err)
	return ""
}

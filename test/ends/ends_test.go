package ends

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/core/actionlog"
	"gurtos/core/task"
	"gurtos/test/boot/box"
	"gurtos/test/daemon"
)

// inside marks the process that has a mount namespace of its own, in which workspaces can be mounted on.
const inside = "GURTOS_TEST_ENDS"

func TestMain(m *testing.M) {
	if os.Getenv(inside) != "" {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			fmt.Fprintln(os.Stderr, "ends: keeping mounts to ourselves:", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	c := exec.Command(self, os.Args[1:]...)
	c.Env = append(os.Environ(), inside+"=1")
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := c.Run(); err != nil {
		if c.ProcessState == nil {
			fmt.Fprintln(os.Stderr, "ends: these tests make namespaces and need root:", err)
		}
		os.Exit(1)
	}
}

const patience = 5 * time.Minute

func start(t *testing.T) (*box.API, *daemon.Home) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes memory, processes and workspaces away from real tasks: `make test` runs it")
	}
	home := daemon.New(t)
	home.Start()
	return box.NewAPI(t, home.URL(), ""), home
}

// neighbour starts a task in the workspace home that waits for an answer while others end; the function that it gives lets it go on, and looks whether
// it ended well.
func neighbour(t *testing.T, api *box.API) (untouched func()) {
	t.Helper()
	id := api.New("home", "neighbour", "write before here", "ask May I?", "run cat before > after").ID
	f := api.Follow(0)
	defer f.Close()
	question := asked(t, f, id)
	return func() {
		t.Helper()
		api.Do("POST", "/api/approvals/"+question, map[string]bool{"approved": true}, nil)
		if got := api.End(id, patience); got.State != task.Done {
			t.Errorf("the neighbour is %s: %s", got.State, got.Error)
		}
		if text := api.File("home", "after"); strings.TrimSpace(text) != "here" {
			t.Errorf("the neighbour wrote %q", text)
		}
	}
}

// asked waits for a task's question and gives its id.
func asked(t *testing.T, f *box.Follower, of string) string {
	t.Helper()
	e := f.Until(patience, "the question of task "+of, func(e actionlog.Event) bool { return e.Task == of && e.Type == actionlog.TypeApprovalAsked })
	var q struct{ ID string }
	if err := json.Unmarshal(e.Approval, &q); err != nil {
		t.Fatal(err)
	}
	return q.ID
}

// A task that dies, or is over a limit, says which in one sentence.
func TestEnds(t *testing.T) {
	api, _ := start(t)
	untouched := neighbour(t, api)
	for _, c := range []struct{ name, line, want string }{
		{"memory", `run python3 -c 'a = bytearray(3 << 30)'`, "Stopped: the task used more than its 2 GB of memory."},
		{"processes", `run for i in $(seq 1100); do sleep 300 & done`, "Stopped: the task ran more than its 1024 processes."},
		{"disk", `run fallocate -l 5100M big && sleep 300`, "Stopped: the task used more than its 5 GB of disk."},
		{"signal", `run kill -KILL $PPID`, "Stopped: the worker was ended by signal SIGKILL."},
		{"command missing", `run nothere`, "line 1: nothere: exit code 127"},
		{"command of a wrong format", `run printf '\177ELFx' > wrong; chmod +x wrong; exec ./wrong`, `line 1: printf '\177ELFx' > wrong; chmod +x wrong; exec ./wrong: exit code 126`},
		{"command by a signal", `run sh -c 'kill -SEGV $$'`, `line 1: sh -c 'kill -SEGV $$': exit code 139`},
		{"no command", `rnu x`, `line 1: "rnu" is no command`},
	} {
		t.Run(c.name, func(t *testing.T) {
			api := api.With(t)
			if got := api.End(api.New("home", c.name, c.line).ID, patience); got.State != task.Failed || !strings.HasPrefix(got.Error, c.want) {
				t.Errorf("%s: %q, want failed: %q", got.State, got.Error, c.want)
			}
		})
	}
	untouched()
	// Nothing of a failed task is in the workspace.
	for _, path := range []string{"big", "wrong"} {
		api.Refused(404, "", "GET", "/api/workspaces/home/files?path="+path, nil)
	}
}

// A worker that can't be run ends each task with the reason; a missing one keeps boxd from starting.
func TestWorkerThatCannotRun(t *testing.T) {
	if testing.Short() {
		t.Skip("starts boxd with programs that are spoiled: `make test` runs it")
	}
	root := daemon.Root(t)
	tools := func(t *testing.T, worker []byte) *daemon.Home {
		home := daemon.New(t)
		dir := t.TempDir()
		for _, name := range []string{"boxd", "box-init"} {
			if err := os.Link(filepath.Join(root, "bin", name), filepath.Join(dir, name)); err == nil {
				continue
			}
			b, err := os.ReadFile(filepath.Join(root, "bin", name))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, name), b, 0o755)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if worker != nil {
			if err := os.WriteFile(filepath.Join(dir, "worker"), worker, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		home.Program, home.Tasks = filepath.Join(dir, "boxd"), filepath.Join(root, ".cache", "tasks")
		return home
	}
	t.Run("wrong format", func(t *testing.T) {
		home := tools(t, []byte("\x7fELFx"))
		home.Start()
		api := box.NewAPI(t, home.URL(), "")
		want := "Stopped: /usr/lib/gurtos/worker could not be run: it has a wrong format for this machine."
		if got := api.End(api.New("home", "x", "step x").ID, patience); got.State != task.Failed || got.Error != want {
			t.Errorf("%s: %q, want failed: %q", got.State, got.Error, want)
		}
	})
	t.Run("missing", func(t *testing.T) {
		home := tools(t, nil)
		cmd := exec.CommandContext(t.Context(), home.Program)
		cmd.Env = append(os.Environ(), "BOX_HOME="+home.Dir, fmt.Sprintf("BOX_PORT=%d", home.Port), "BOX_LAN=off", "BOX_VAULT=", "BOX_TASKS_ROOT="+home.Tasks)
		var said bytes.Buffer
		cmd.Stderr = &said
		err := cmd.Run()
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		if last := lines[len(lines)-1]; err == nil || !strings.Contains(last, "worker") || !strings.HasPrefix(last, "boxd: ") {
			t.Errorf("%v, and its last line is %q", err, last)
		}
	})
}

// A workspace that is no folder of the box's own is refused with its name.
func TestWorkspaceIsNoFolder(t *testing.T) {
	api, home := start(t)
	untouched := neighbour(t, api)
	at := func(name string) string { return filepath.Join(home.Dir, "workspaces", name) }
	for _, c := range []struct {
		name string
		make func(path string) error
	}{
		{"link", func(p string) error { return os.Symlink("/etc", p) }},
		{"link-inside", func(p string) error { return os.Symlink("home", p) }},
		{"dangling", func(p string) error { return os.Symlink("/nowhere", p) }},
		{"device", func(p string) error { return unix.Mknod(p, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))) }},
		{"fifo", func(p string) error { return unix.Mkfifo(p, 0o600) }},
		{"socket", func(p string) error { return unix.Mknod(p, unix.S_IFSOCK|0o600, 0) }},
		{"file", func(p string) error { return os.WriteFile(p, nil, 0o600) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			api := api.With(t)
			if err := c.make(at(c.name)); err != nil {
				t.Fatal(err)
			}
			api.Refused(400, c.name, "POST", "/api/tasks", map[string]any{"title": "x", "prompt": "step x", "workspace": c.name, "worker": "fake"})
			api.Refused(404, "no workspace", "GET", "/api/workspaces/"+c.name+"/files?path=", nil)
			api.Refused(404, "no workspace", "PUT", "/api/workspaces/"+c.name+"/files?path=x", []byte("x"))
		})
	}
	untouched()
}

// A workspace that changes under running and waiting tasks: each of its tasks fails and names it, or keeps what it had; others go on.
func TestWorkspaceChanges(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(path string) error
	}{
		{"vanishes", os.RemoveAll},
		{"moves away", func(p string) error { return os.Rename(p, p+"-elsewhere") }},
		{"becomes a link", func(p string) error {
			if err := os.Rename(p, p+"-elsewhere"); err != nil {
				return err
			}
			return os.Symlink("/etc", p)
		}},
		{"becomes a device", func(p string) error {
			if err := os.RemoveAll(p); err != nil {
				return err
			}
			return unix.Mknod(p, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3)))
		}},
		{"lies on another file system", func(p string) error { return unix.Mount("other", p, "tmpfs", 0, "") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			api, home := start(t)
			api.Do("PUT", "/api/settings", map[string]any{"maxRunning": 2}, nil)
			untouched := neighbour(t, api)
			api.Do("POST", "/api/workspaces", map[string]string{"name": "garden"}, nil)
			path := filepath.Join(home.Dir, "workspaces", "garden")
			if err := os.WriteFile(filepath.Join(path, "old"), []byte("old\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			running := api.New("garden", "running", "write a a", "ask May I?", "run cat a")
			f := api.Follow(0)
			defer f.Close()
			question := asked(t, f, running.ID)
			api.Do("POST", "/api/pause", map[string]bool{"paused": true}, nil)
			waiting := api.New("garden", "waiting", "run ls")
			if err := c.change(path); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(c.name, "file system") {
				t.Cleanup(func() { unix.Unmount(path, unix.MNT_DETACH) })
			}
			api.Do("POST", "/api/pause", map[string]bool{"paused": false}, nil)
			api.Do("POST", "/api/approvals/"+question, map[string]bool{"approved": true}, nil)
			for _, id := range []string{running.ID, waiting.ID} {
				got := api.End(id, patience)
				t.Logf("%s is %s: %s", got.Title, got.State, got.Error)
				if got.State == task.Failed && !strings.Contains(got.Error, "garden") {
					t.Errorf("%s: %q does not name the workspace", got.Title, got.Error)
				}
				if got.State == task.Done && got.Title == "waiting" {
					t.Error("a task ran in a workspace that is not there")
				}
			}
			untouched()
		})
	}
}

package sandboxtest

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"gurtos/sandbox"
	"gurtos/sandbox/layers"
)

// Main runs a package's tests; TestMain calls it and nothing else.
func Main(m *testing.M) {
	sandbox.Init()
	code := m.Run()
	if toolsDir != "" {
		os.RemoveAll(toolsDir)
	}
	os.Exit(code)
}

var (
	toolsOnce sync.Once
	toolsDir  string
	toolsErr  error
)

// ToolsEnv names a folder with box-init, worker and the programs that tests
// build in C, for machines without a compiler, such as the guest.
const ToolsEnv = "BOX_TEST_TOOLS"

// Tools is a folder with box-init and worker: the one in BOX_TEST_TOOLS, or one
// that is built once for the test process.
func Tools(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv(ToolsEnv); dir != "" {
		return dir
	}
	toolsOnce.Do(func() {
		if toolsDir, toolsErr = os.MkdirTemp("", "box-tools"); toolsErr == nil {
			toolsErr = build(toolsDir)
		}
	})
	if toolsErr != nil {
		t.Fatal(toolsErr)
	}
	return toolsDir
}

// Program is the static program that the C source beside the test makes.
func Program(t testing.TB, source string) string {
	t.Helper()
	name := strings.TrimSuffix(filepath.Base(source), ".c")
	path := filepath.Join(Tools(t), name)
	if os.Getenv(ToolsEnv) == "" {
		if out, err := exec.Command("gcc", "-static", "-O1", "-o", path, source).CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v\n%s", source, err, out)
		}
	}
	return path
}

// Put writes an executable file into the spec's workspace.
func Put(t testing.TB, s sandbox.Spec, name string, content []byte) {
	t.Helper()
	path := filepath.Join(s.Work.Layer, "upper", name)
	if err := os.WriteFile(path, content, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, layers.Canonical, layers.Canonical); err != nil {
		t.Fatal(err)
	}
}

func build(dir string) error {
	root, err := repository()
	if err != nil {
		return err
	}
	for _, c := range []*exec.Cmd{
		exec.Command("gcc", "@sandbox/boxinit/gcc.args", "-o", dir+"/box-init"),
		exec.Command("go", "build", "-o", dir+"/worker", "./cmd/worker"),
	} {
		c.Dir = root
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), err, out)
		}
	}
	return nil
}

// repository is the folder that has go.mod.
func repository() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(file), "..", "..")
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		return "", fmt.Errorf("the repository of these tests is gone: %w", err)
	}
	return root, nil
}

// TasksRoot is the root file system of tasks: BOX_TASKS_ROOT or the one that
// `make build` makes.
func TasksRoot(t testing.TB) string {
	t.Helper()
	path := os.Getenv("BOX_TASKS_ROOT")
	if path == "" {
		root, err := repository()
		if err != nil {
			t.Fatal(err)
		}
		path = filepath.Join(root, ".cache", "tasks")
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("there is no root file system for tasks at %s: run `make build` first, or set BOX_TASKS_ROOT", path)
	}
	return path
}

var hosts atomic.Int64

// Config is that of a Host of the test's own.
func Config(t testing.TB) sandbox.Config {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("tests of sandboxes need root")
	}
	n := strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(hosts.Add(1), 10)
	return sandbox.Config{
		State: filepath.Join(t.TempDir(), "state"), TasksRoot: TasksRoot(t), Tools: Tools(t), Cgroup: "/gurtos-test/" + n,
		Pool: -1, Log: slog.New(slog.NewTextHandler(writer{t}, nil)),
	}
}

// Open makes a Host that ends with the test. Its pool is empty.
func Open(t testing.TB) *sandbox.Host {
	t.Helper()
	return OpenAs(t, Config(t))
}

// OpenAs is Open with another configuration.
func OpenAs(t testing.TB, c sandbox.Config) *sandbox.Host {
	t.Helper()
	h, err := sandbox.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Errorf("closing the host: %v", err)
		}
	})
	return h
}

var ids atomic.Int64

// Spec is a sandbox with empty layers of its own that runs args.
func Spec(t testing.TB, args ...string) sandbox.Spec {
	t.Helper()
	id := "t" + strconv.FormatInt(ids.Add(1), 10)
	dir := t.TempDir()
	for _, l := range []string{"work", "home"} {
		if err := layers.Create(filepath.Join(dir, l)); err != nil {
			t.Fatal(err)
		}
	}
	return sandbox.Spec{
		ID: id, User: "box-" + id, Slot: sandbox.AnySlot, Args: args,
		Work: layers.View{Layer: filepath.Join(dir, "work")}, Home: layers.View{Layer: filepath.Join(dir, "home")},
		Env: []string{"PATH=/usr/bin:/bin", "HOME=/home/box", "LANG=C.UTF-8"},
	}
}

// Start starts it; it is killed at the test's end if it still runs.
func Start(t testing.TB, h *sandbox.Host, s sandbox.Spec) *sandbox.Sandbox {
	t.Helper()
	sb, err := h.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		sb.Kill()
		sb.Wait()
	})
	return sb
}

// Shell runs a shell command in a sandbox of its own and gives how it ended.
func Shell(t testing.TB, h *sandbox.Host, command string) sandbox.Exit {
	t.Helper()
	return Start(t, h, Spec(t, "/bin/sh", "-c", command)).Wait()
}

type writer struct{ t testing.TB }

func (w writer) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

var _ io.Writer = writer{}

package programs

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gurtos/core/task"
	"gurtos/test/boot/box"
	"gurtos/test/daemon"
	"gurtos/test/internet"
)

func TestMain(m *testing.M) { internet.Main(m) }

var theShop = sync.OnceValues(open)

// patience is how long a task may take on a slow and busy machine.
const patience = 10 * time.Minute

// long says whether the long forms are asked for (`make test-all`).
func long() bool { return os.Getenv("BOX_TEST_ALL") != "" }

// start starts a boxd in the internet, whose tasks see the root with more programs.
func start(t *testing.T) (*box.API, *shop) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the tasks file system with more programs: `make test` runs it")
	}
	s, err := theShop()
	if err != nil {
		t.Fatal(err)
	}
	net, at := internet.Connect(t), internet.Addr(34)
	for host := range s.hosts {
		net.Name(host, at)
	}
	net.Serve(t, at+":80", s)
	home := daemon.New(t)
	home.Tasks = filepath.Join(daemon.Root(t), ".cache", "tasks-test")
	if _, err := os.Stat(home.Tasks); err != nil {
		t.Fatal("there is no .cache/tasks-test: run `bin/mkbox build --tests` first")
	}
	home.Start()
	api := box.NewAPI(t, home.URL(), "")
	api.Do("PUT", "/api/settings", map[string]any{"maxRunning": 8}, nil)
	return api, s
}

// program is something that agents run: a script, and the last line that it prints.
type program struct {
	name   string
	files  []string // beside the script: name and text in turn
	script string
	want   string
	long   bool // only in the long form
}

// put makes a workspace with the program's files in it.
func put(t *testing.T, api *box.API, ws string, files ...string) {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		if err := w.WriteHeader(&tar.Header{Name: files[i], Mode: 0o644, Size: int64(len(files[i+1]))}); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, files[i+1]) //nolint:errcheck // a buffer
	}
	w.Close()
	api.Do("POST", "/api/workspaces", map[string]string{"name": ws}, nil)
	api.Do("PUT", "/api/workspaces/"+ws+"/files?path=&unpack=tar", b.Bytes(), nil)
}

// begin starts a task in a workspace that reaches the internet.
func begin(api *box.API, ws string, lines ...string) string {
	var made task.Task
	api.Do("POST", "/api/tasks", map[string]any{
		"title": ws, "prompt": strings.Join(lines, "\n"), "workspace": ws, "worker": "fake", "hosts": []string{"*.example.com"},
	}, &made)
	return made.ID
}

// done waits for a task to be done and gives the last line that its last command printed.
func done(t *testing.T, api *box.API, id string) string {
	t.Helper()
	end := api.End(id, patience)
	steps := api.Steps(id)
	if len(steps) == 0 {
		t.Fatalf("the task is %s: %s", end.State, end.Error)
	}
	said := steps[len(steps)-1].Output
	if end.State != task.Done {
		t.Fatalf("the task is %s: %s\n%s", end.State, end.Error, said)
	}
	lines := strings.Split(strings.TrimSpace(said), "\n")
	return lines[len(lines)-1]
}

// Programs that agents use work in a task.
func TestPrograms(t *testing.T) {
	api, s := start(t)
	for _, p := range programs {
		if p.long && !long() {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			api := api.With(t)
			if strings.Contains(p.script, "npm.example.com") {
				s.npm(t, 300)
			}
			ws := strings.ReplaceAll(p.name, " ", "-")
			put(t, api, ws, append(slices.Clone(p.files), "script", "set -eu\n"+p.script)...)
			at := time.Now()
			if got := done(t, api, begin(api, ws, "run timeout 500 bash script 2>&1")); got != p.want {
				t.Errorf("%q, want %q", got, p.want)
			}
			t.Logf("%.1f s", time.Since(at).Seconds())
		})
	}
	if long() && !t.Failed() {
		t.Attr("reliability", fmt.Sprintf("%d kinds of programs that agents use, from git to a browser and a database, work in tasks", len(programs)))
	}
}

// Eight tasks pack one repository at once, each with a commit of its own. What is left is whole, whichever of them ended last.
func TestGitGarbage(t *testing.T) {
	api, _ := start(t)
	const ws, tasks = "garden", 8
	put(t, api, ws, "readme", "")
	if got := done(t, api, begin(api, ws, "run git clone -q http://git.example.com/garden.git && cd garden && git config user.name a && git config user.email a@box.test && git log --oneline | wc -l")); got != "40" {
		t.Fatalf("%s commits", got)
	}
	var ids []string
	for i := range tasks {
		ids = append(ids, begin(api, ws,
			fmt.Sprintf("run cd garden && git checkout -q -b b%d && echo %d > new%d && git add . && git commit -qm c%d", i, i, i, i),
			fmt.Sprintf("fetch http://meet.example.com/%d/gc", tasks),
			"run cd garden && git gc -q --prune=now && git fsck --strict --no-dangling && git log --oneline | wc -l"))
	}
	for _, id := range ids {
		if got := done(t, api, id); got != "41" {
			t.Errorf("task %s: %s commits", id, got)
		}
	}
	// Undoing every second one leaves the rest whole too.
	for i := range ids {
		if i%2 == 0 {
			api.Do("POST", "/api/tasks/"+ids[i]+"/undo", nil, nil)
		}
		if got := done(t, api, begin(api, ws, "run cd garden && git fsck --strict --no-dangling 2>&1; git log --oneline | wc -l")); got != "41" {
			t.Errorf("after all, and the undo of the first %d: %s", i, got)
		}
	}
}

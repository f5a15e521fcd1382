package boot

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/task"
	"gurtos/test/boot/box"
)

// The story of the first box on the machine itself; TestBox tells it in the guest.
func TestStoryOnThisMachine(t *testing.T) {
	api := box.Daemon(t)
	story(t, api)
	t.Run("isolation", func(t *testing.T) { isolation(t, api) })
	t.Run("bad input", func(t *testing.T) { badInput(t, api) })
	t.Run("apps", func(t *testing.T) { apps(t, api.With(t)) })
}

// story fills a workspace from this repository's git clone. Task A builds
// something in it and commits, B goes on with A's files, and A is undone.
func story(t *testing.T, api *box.API) {
	const ws = "repository"
	api.Do("POST", "/api/workspaces", map[string]string{"name": ws}, nil)
	var put task.Task
	api.Do("PUT", "/api/workspaces/"+ws+"/files?path=&unpack=tar", clone(t), &put)
	if put.State != task.Done || put.Title != "Files put in" || put.Source != "api" {
		t.Errorf("putting files in made %+v", put)
	}
	head := strings.TrimSpace(api.File(ws, ".git/refs/heads/main"))

	a := api.Done(ws, "A builds and commits",
		"run gcc -Wall -o built test/boot/testdata/sum.c && ./built 20 22 > answer.txt",
		"read answer.txt",
		"write shared.txt A was here",
		"write a-only.txt of A alone",
		"run git -c user.name=A -c user.email=a@box.test add -A && git -c user.name=A -c user.email=a@box.test commit -qm 'A builds'",
		"run git log -1 --format=%s",
	)
	steps := api.Steps(a.ID)
	if len(steps) != 6 || !strings.HasPrefix(steps[1].Text, "42") || !strings.Contains(steps[5].Output, "A builds") {
		t.Errorf("A's steps are %+v, want six, 42 read in the second and the commit's subject in the last", steps)
	}
	b := api.Done(ws, "B goes on",
		"run ./built 1 2 && git log -1 --format=%s | grep -qx 'A builds' && cat a-only.txt",
		"append shared.txt B too",
		"write b-only.txt of B alone",
	)
	if !slices.Contains(b.Layers, a.ID) {
		t.Errorf("B saw the layers %v, A's %s isn't among them", b.Layers, a.ID)
	}
	shared := api.File(ws, "shared.txt")
	if !strings.Contains(shared, "A was here") || !strings.Contains(shared, "B too") {
		t.Errorf("shared.txt holds %q", shared)
	}

	var preview struct {
		Paths []struct{ Path, Outcome string }
	}
	api.Get("/api/tasks/"+a.ID+"/undo", &preview)
	told := map[string]string{}
	for _, p := range preview.Paths {
		told[p.Path] = p.Outcome
	}
	for path, want := range map[string]string{"a-only.txt": "removed", "built": "removed"} {
		if told[path] != want {
			t.Errorf("undo says of %s: %q, want %s", path, told[path], want)
		}
	}
	if told["shared.txt"] == "removed" || told["shared.txt"] == "restored" {
		t.Errorf("undo says of shared.txt, which B changed: %q", told["shared.txt"])
	}
	var undone task.Task
	api.Do("POST", "/api/tasks/"+a.ID+"/undo", nil, &undone)
	if undone.State != task.Undone {
		t.Errorf("A is %s after its undo", undone.State)
	}
	for _, gone := range []string{"a-only.txt", "built", "answer.txt"} {
		api.Refused(404, "", "GET", "/api/workspaces/"+ws+"/files?path="+gone, nil)
	}
	if now := api.File(ws, "shared.txt"); now != shared {
		t.Errorf("shared.txt holds %q after the undo of A, B left %q", now, shared)
	}
	if now := api.File(ws, "b-only.txt"); !strings.Contains(now, "of B alone") {
		t.Errorf("b-only.txt holds %q after the undo of A", now)
	}
	if now := strings.TrimSpace(api.File(ws, ".git/refs/heads/main")); now != head {
		t.Errorf("main is at %s after the undo of A's commit, was at %s", now, head)
	}

	events := api.CheckChain()
	at := func(what string, match func(actionlog.Event) bool) int {
		i := slices.IndexFunc(events, match)
		if i < 0 {
			t.Errorf("the log doesn't tell: %s", what)
		}
		return i
	}
	state := func(id string, s task.State) func(actionlog.Event) bool {
		return func(e actionlog.Event) bool {
			return e.Type == actionlog.TypeTaskState && e.Task == id && e.State == string(s)
		}
	}
	order := []int{
		at("files put in", state(put.ID, task.Done)), at("A running", state(a.ID, task.Running)), at("A done", state(a.ID, task.Done)),
		at("B running", state(b.ID, task.Running)), at("B done", state(b.ID, task.Done)), at("A undone", state(a.ID, task.Undone)),
	}
	if !slices.IsSorted(order) {
		t.Errorf("the log tells the story in the order %v", order)
	}
}

// clone makes a tar of a fresh clone of this repository, .git and all.
func clone(t *testing.T) []byte {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "clone")
	for _, args := range [][]string{
		{"git", "clone", "-q", "--depth=1", "--no-local", box.Root(), dir},
		{"git", "-C", dir, "checkout", "-q", "-B", "main"},
	} {
		if text, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, text)
		}
	}
	tar, err := exec.Command("tar", "-C", dir, "-c", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	return tar
}

// isolation lets a task try what it must not be able to do.
func isolation(t *testing.T, api *box.API) {
	const ws = "home"
	// A neighbour that holds a secret in every place of its own, while the other looks.
	neighbour := api.New(ws, "neighbour",
		"write secret-n1.txt neighbour-secret-work",
		"run echo neighbour-secret-home > $HOME/secret-n2.txt; echo neighbour-secret-tmp > /tmp/secret-n3.txt",
		"sleep 5m",
	)
	f := api.Follow(0)
	f.Until(2*time.Minute, "the neighbour's second line", func(e actionlog.Event) bool {
		return e.Task == neighbour.ID && e.Type == actionlog.TypeTaskStep && strings.Contains(string(e.Data), `"line":2`)
	})
	f.Close()
	fails := []struct{ what, command string }{
		{"read the vault", "cat /etc/box/vault.env /data/etc/vault.env"},
		{"see BOX_HOME", "ls /data || ls /data/box"},
		{"write to the root", "touch /x"},
		{"write to /usr", "touch /usr/x || touch /usr/bin/x"},
		{"write to /etc", "echo x >> /etc/passwd || touch /etc/x"},
		{"write to /run", "touch /run/x"},
		{"write to /proc/sys", "echo 1 > /proc/sys/kernel/core_pattern || echo 1 > /proc/sysrq-trigger"},
		{"make a device", "mknod /tmp/d b 254 0 || mknod /work/d c 1 1"},
		{"mount", "mount -t tmpfs none /tmp/m || (mkdir -p /tmp/m && mount --bind /work /tmp/m)"},
		{"make a namespace", "unshare -Ur true || unshare -m true"},
		{"become root", "su -c true || python3 -c 'import os; os.setuid(0)'"},
		{"read kernel memory", "head -c1 /proc/kcore | grep -q . || head -c1 /dev/mem || head -c1 /dev/kmsg"},
		{"read the kernel's log", "dmesg"},
		{"see a disk", "ls /dev/vd* || ls /dev/sd* || ls /dev/nvme* || ls /dev/loop*"},
		{"load a module", "python3 -c 'import ctypes,sys; sys.exit(0 if ctypes.CDLL(None).syscall(313,0,b\"\",0)==0 else 1)'"},
		{"set the clock", "date -s 2001-01-01"},
		{"set the host name", "python3 -c 'import socket; socket.sethostname(\"x\")'"},
		{"reach the network", "curl -fsS -m 5 http://203.0.113.2/ || curl -fsS -m 5 http://127.0.0.1:7700/api/health || curl -fsS -m 5 http://203.0.113.15/api/health"},
		{"trace another process", "python3 -c 'import ctypes,sys; sys.exit(0 if ctypes.CDLL(None).ptrace(16,1,0,0)==0 else 1)'"},
		{"write to its broker's folder", "touch /run/box/x && rm /run/box/broker.sock"},
		{"find the neighbour's files", "find / -xdev -name 'secret-n*' 2>/dev/null | grep -q . || grep -rqs neighbour-secret /work /home /tmp /run /var"},
		{"see the neighbour's or the host's processes", "grep -qsxE 'boxd|init|systemd|kthreadd' /proc/[0-9]*/comm || test $(ls -d /proc/[0-9]* | wc -l) -gt 8"},
		{"see BOX_HOME in mountinfo", "grep -qE '/data/box|BOX_HOME|/tasks/t' /proc/self/mountinfo"},
		{"have a capability", "grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb):' /proc/self/status | grep -qv 0000000000000000"},
		{"gain privileges", "grep -q '^NoNewPrivs:.*0' /proc/self/status"},
	}
	var lines []string
	for _, f := range fails {
		lines = append(lines, "try "+f.command)
	}
	lines = append(lines,
		"run echo ok > /work/w && echo ok > $HOME/h && echo ok > /tmp/t && id -un && pwd",
		"run ls /dev",
	)
	end := api.Done(ws, "attempts", lines...)
	steps := api.Steps(end.ID)
	if len(steps) != len(lines) {
		t.Fatalf("%d steps of %d lines", len(steps), len(lines))
	}
	for i, f := range fails {
		if steps[i].Exit == 0 {
			t.Errorf("a task can %s: %s\n%s", f.what, f.command, steps[i].Output)
		}
	}
	own := steps[len(fails)]
	if want := "box-" + end.ID + "\n/work\n"; own.Output != want {
		t.Errorf("a task's own name and folder are %q, want %q", own.Output, want)
	}
	usual := []string{"null", "zero", "full", "random", "urandom", "tty", // the six
		"console", "core", "fd", "mqueue", "ptmx", "pts", "shm", "stdin", "stdout", "stderr"}
	for _, dev := range strings.Fields(steps[len(fails)+1].Output) {
		if !slices.Contains(usual, dev) {
			t.Errorf("a task has the device %s", dev)
		}
	}
	api.Do("POST", "/api/tasks/"+neighbour.ID+"/stop", nil, nil)
	if got := api.End(neighbour.ID, time.Minute); got.State != task.Failed || !strings.HasPrefix(got.Error, "Stopped by") {
		t.Errorf("the stopped neighbour is %s: %s", got.State, got.Error)
	}
}

// badInput sends tasks that are wrong in one field each; nothing may come of them.
func badInput(t *testing.T, api *box.API) {
	lines := len(api.Lines())
	good := func() map[string]any {
		return map[string]any{"title": "x", "prompt": "step x", "workspace": "home", "worker": "fake"}
	}
	for _, tc := range []struct {
		name, word string
		code       int
		change     func(map[string]any)
	}{
		{"unknown field", "colour", 400, func(m map[string]any) { m["colour"] = 1 }},
		{"wrong type", "title", 400, func(m map[string]any) { m["title"] = 7 }},
		{"empty title", "title", 400, func(m map[string]any) { m["title"] = "" }},
		{"long title", "title", 400, func(m map[string]any) { m["title"] = strings.Repeat("x", 201) }},
		{"long prompt", "prompt", 400, func(m map[string]any) { m["prompt"] = strings.Repeat("x", 100_001) }},
		{"workspace missing", "workspace", 400, func(m map[string]any) { m["workspace"] = "nowhere" }},
		{"worker droid", "worker: droid is not in this build", 400, func(m map[string]any) { m["worker"] = "droid" }},
		{"the default worker", "worker: droid is not in this build", 400, func(m map[string]any) { delete(m, "worker") }},
		{"budget", "budgetCents", 400, func(m map[string]any) { m["budgetCents"] = 100_001 }},
	} {
		body := good()
		tc.change(body)
		t.Run(tc.name, func(t *testing.T) { api.With(t).Refused(tc.code, tc.word, "POST", "/api/tasks", body) })
	}
	t.Run("no JSON", func(t *testing.T) { api.With(t).Refused(400, "", "POST", "/api/tasks", []byte("title=x")) })
	t.Run("too much", func(t *testing.T) { api.With(t).Refused(413, "", "POST", "/api/tasks", make([]byte, 2<<20+1)) })
	t.Run("no token", func(t *testing.T) {
		none := api.With(t)
		none.Token = "w0000000000000000000000000000000000"
		none.Refused(401, "", "GET", "/api/tasks", nil)
	})
	if now := len(api.Lines()); now != lines {
		t.Errorf("refused requests left %d lines in the log", now-lines)
	}
}

package reach

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/task"
	"gurtos/netpolicy"
	"gurtos/test/boot/box"
	"gurtos/test/daemon"
	"gurtos/test/internet"
)

func TestMain(m *testing.M) { internet.Main(m) }

// patience is how long a step may take on a slow and busy machine.
const patience = 2 * time.Minute

// keeps is an app that keeps connections open, by host, and starts agents that do.
const keeps = `import net from 'node:net';
import type { Track } from '../../core/contract.ts';
const open = new Map<string, net.Socket>();
const host = (req: Request) => new URL(req.url).searchParams.get('host')!;
const answer = (text: string) => new Response(text);
export default {
  name: 'keeps',
  tools: [{ name: 'keeps.talk', description: 'Talks.', hosts: ['declared.example.com:2500'], async run() {} }],
  routes: {
    'POST /open': (req) => new Promise((done) => {
      const s = net.connect({ host: host(req), port: 2500 });
      open.set(host(req), s);
      s.once('error', (e: any) => done(answer(e.code)));
      s.once('data', (d) => done(answer(String(d).trim())));
      s.write('keeps\n');
    }),
    'POST /more': (req) => new Promise((done) => {
      const s = open.get(host(req))!;
      s.once('close', () => done(answer('closed')));
      s.once('data', (d) => done(answer(String(d).trim())));
      s.write('more\n');
    }),
    'POST /closed': (req) => new Promise((done) => {
      const s = open.get(host(req))!;
      if (s.closed) done(answer('closed'));
      s.once('close', () => done(answer('closed')));
    }),
    'POST /start': async (req, box) => Response.json(await box.createTask(await req.json())),
  },
} satisfies Track;
`

// world is a box with that app, and hosts that say again what they are told.
type world struct {
	t    *testing.T
	home *daemon.Home
	api  *box.API
	said chan said
}

// said is a line that came to a host.
type said struct {
	line string
	conn net.Conn
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, said: make(chan said, 100)}
	n := internet.Connect(t)
	for i, name := range []string{"declared.example.com", "public.example.com"} {
		n.Name(name, internet.Addr(40+i))
		l := n.Listen(t, internet.Addr(40+i)+":2500")
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go w.repeat(c)
			}
		}()
	}
	tree := t.TempDir()
	for _, dir := range []string{tree, filepath.Dir(tree)} {
		must(t, os.Chmod(dir, 0o755))
	}
	for _, f := range []string{"contract.ts", "triggers.ts"} {
		b, err := os.ReadFile(filepath.Join(daemon.Root(t), "core", f))
		must(t, err)
		put(t, filepath.Join(tree, "core", f), string(b))
	}
	put(t, filepath.Join(tree, "tracks/keeps/track.ts"), keeps)
	t.Setenv("BOX_TRACKS", filepath.Join(tree, "tracks"))
	w.home = daemon.New(t)
	w.home.FromTree()
	w.home.Start()
	w.api = box.NewAPI(t, w.home.URL(), "")
	w.turn(true)
	return w
}

func (w *world) repeat(c net.Conn) {
	defer c.Close()
	for in := bufio.NewScanner(c); in.Scan(); {
		fmt.Fprintf(c, "%s\n", in.Text())
		w.said <- said{in.Text(), c}
	}
}

func (w *world) turn(on bool) { w.api.Do("PUT", "/api/apps/keeps", map[string]any{"on": on}, nil) }

func (w *world) allow(what string, on bool) {
	w.api.Do("PUT", "/api/permissions/keeps", map[string]any{what: on}, nil)
}

// ask calls a route of the app's about a host.
func (w *world) ask(route, host string) string {
	w.t.Helper()
	var text []byte
	w.api.Do("POST", "/t/keeps/"+route+"?host="+host, nil, &text)
	return string(text)
}

// heard waits for a line that comes to a host.
func (w *world) heard(line string) net.Conn {
	w.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case s := <-w.said:
			if s.line == line {
				return s.conn
			}
		case <-late.C:
			w.t.Fatalf("no host was told %q", line)
		}
	}
}

const declared, public = "declared.example.com", "public.example.com"

// An app is held to its declared hosts at once, in connections that it has open and in
// those that it opens, and when it starts; and let go again.
func TestDeclaredHostsOnly(t *testing.T) {
	w := newWorld(t)
	for _, host := range []string{declared, public} {
		if got := w.ask("open", host); got != "keeps" {
			t.Fatalf("%s: %s", host, got)
		}
	}
	for _, host := range []string{declared, public} {
		w.noted("app reached", host+":2500")
	}
	w.allow("declaredHostsOnly", true)
	if got := w.ask("closed", public); got != "closed" {
		t.Errorf("what is not declared: %s", got)
	}
	held := func(when string) {
		t.Helper()
		if got := w.ask("open", public); got == "keeps" {
			t.Errorf("%s: a host that is not declared is reached", when)
		}
	}
	if got := w.ask("more", declared); got != "more" {
		t.Errorf("a declared host: %s", got)
	}
	held("in a running app")
	w.noted("app blocked", public+":53") // its name is none
	w.turn(false)
	w.turn(true)
	held("in an app that starts")
	if got := w.ask("open", declared); got != "keeps" {
		t.Errorf("a declared host, as it starts: %s", got)
	}
	w.allow("declaredHostsOnly", false)
	if got := w.ask("open", public); got != "keeps" {
		t.Errorf("let go again: %s", got)
	}
}

// A host that the owner turns off for an app is gone at once for its agents that hold a
// connection to it. Agents that somebody else started keep theirs, and the app's own
// process too.
func TestHostTurnedOff(t *testing.T) {
	w := newWorld(t)
	begin := func(route, name string) task.Task {
		t.Helper()
		script := fmt.Sprintf(`run bash -c 'exec 3<>/dev/tcp/%s/2500; echo %s >&3; while read -r line <&3; do echo "heard $line"; done; echo over'`, public, name)
		var made task.Task
		w.api.Do("POST", route, map[string]any{"title": name, "prompt": script, "worker": "fake", "hosts": []string{public}}, &made)
		return made
	}
	if got := w.ask("open", public); got != "keeps" {
		t.Fatal(got)
	}
	agent := begin("/t/keeps/start", "agent")
	w.heard("agent")
	other := begin("/api/tasks", "other")
	c := w.heard("other")
	tested := func(id, host string, allowed bool, why string) {
		t.Helper()
		var e netpolicy.Explanation
		w.api.Do("GET", "/api/tasks/"+id+"/reach?host="+host, nil, &e)
		if e.Allowed != allowed || !strings.Contains(e.Why, why) {
			t.Errorf("task %s is told of %s: %+v", id, host, e)
		}
	}
	tested(agent.ID, public+":2500", true, "The rule "+public+" lets it through.")
	w.allow("host:"+public, false)
	tested(agent.ID, public+":2500", false, "The rule "+public+" is turned off for the agents of keeps, in Settings, Permissions.")
	tested(agent.ID, "other.example.com", false, "No rule names other.example.com.")
	tested(other.ID, public+":2500", true, "lets it through")
	if end := w.api.End(agent.ID, patience); end.State != task.Done || end.App != "keeps" {
		t.Errorf("the app's agent: %+v", end)
	}
	if out := w.printed(agent.ID); out != "heard agent\nover" {
		t.Errorf("the app's agent: %q", out)
	}
	if _, err := fmt.Fprintln(c, "still there"); err != nil {
		t.Error(err)
	}
	c.Close()
	w.api.End(other.ID, patience)
	if out := w.printed(other.ID); out != "heard other\nheard still there\nover" {
		t.Errorf("another agent: %q", out)
	}
	if got := w.ask("more", public); got != "more" {
		t.Errorf("the app itself: %s", got)
	}
}

// noted waits for a note about a host:port of the app's own.
func (w *world) noted(what, host string) {
	w.t.Helper()
	w.api.Until(patience, what+" "+host, func(_ context.Context, api *box.API) (bool, error) {
		n := 0
		for _, ev := range api.Log() {
			var d struct{ What, App, Host string }
			if ev.Type != actionlog.TypeNote {
				continue
			}
			if err := json.Unmarshal(ev.Data, &d); err != nil {
				return false, err
			}
			if d.What == what && d.App == "keeps" && d.Host == host {
				n++
			}
		}
		if n > 1 {
			w.t.Errorf("%s %s is told %d times", what, host, n)
		}
		return n > 0, nil
	})
}

func (w *world) printed(id string) string {
	w.t.Helper()
	steps := w.api.Steps(id)
	if len(steps) == 0 {
		return ""
	}
	return strings.TrimSpace(steps[len(steps)-1].Output)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, name, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(t, os.WriteFile(name, []byte(text), 0o644))
}

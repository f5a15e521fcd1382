package triggers

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The first app of the SDK's page has its schedule: once a day, over a start of the box,
// a step of the clock and being turned off.
func TestHelloInTheMorning(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repo, "tracks", "hello", "track.ts"))
	must(t, err)
	w := newWorld(t, "2026-12-01 07:00", map[string]string{"hello": string(text)})
	w.noted("trigger armed")
	w.wake(time.Hour)
	made := w.until("the morning's task", func(l line) bool { return l.Type == "task.created" })
	if made.App != "hello" || made.Spec.Source != "schedule" || made.Spec.Title != "Morning note" || fmt.Sprint(made.Spec.Tools) != "[hello.greet]" {
		t.Errorf("%+v", made)
	}

	// The clock is set back over the time, and comes to it again.
	w.clock.Step(w.clock.Now().Add(-30 * time.Minute))
	w.wake(24*time.Hour + 30*time.Minute) // to the next date's
	runs := func() []string {
		var out []string
		for _, l := range w.all(func(l line) bool { return l.what() == "schedule ran" }) {
			out = append(out, fmt.Sprint(l.data("date"), " ", l.data("late") == true))
		}
		return out
	}
	w.noted("schedule ran", func(l line) bool { return l.data("date") == "2026-12-02" })
	if got := runs(); !slices.Equal(got, []string{"2026-12-01 false", "2026-12-02 false"}) {
		t.Errorf("%q", got)
	}

	// Missed by an hour while the box was off: made up for, and said.
	w.off(25 * time.Hour)
	w.noted("schedule ran", func(l line) bool { return l.data("date") == "2026-12-03" && l.data("late") == true })
	w.until("the late task", nth(3, func(l line) bool { return l.Type == "task.created" }))

	// Missed while the app was off: not made up for.
	w.do("PUT", "/api/apps/hello", `{"on":false}`, 200)
	w.noted("trigger disarmed")
	w.clock.Advance(24 * time.Hour)
	w.do("PUT", "/api/apps/hello", `{"on":true}`, 200)
	w.until("it is armed again", func() func(line) bool {
		off := false
		return func(l line) bool {
			off = off || l.what() == "trigger disarmed"
			return off && l.what() == "trigger armed"
		}
	}())
	w.wake(23 * time.Hour)
	w.noted("schedule ran", func(l line) bool { return l.data("date") == "2026-12-05" })
	if got := runs(); !slices.Equal(got, []string{"2026-12-01 false", "2026-12-02 false", "2026-12-03 true", "2026-12-05 false"}) {
		t.Errorf("%q", got)
	}
	w.until("its task", nth(4, func(l line) bool { return l.Type == "task.created" }))
}

const watcher = `
import type { Track } from '../../core/contract.ts';
import { onFileChange, webhook, schedule } from '../../core/triggers.ts';

export default {
  name: 'watcher',
  secrets: ['MAP_KEY'],
  triggers: [
    onFileChange({
      name: 'notes',
      paths: ['notes/**'],
      task: (changes) =>
        changes.some((c) => c.path.startsWith('notes/out/'))
          ? undefined
          : { title: 'Seen', worker: 'fake', prompt: 'write notes/out/seen.txt ' + changes.map((c) => c.change + ' ' + c.path).join('; ') },
    }),
    webhook({ name: 'push', task: (body, headers) => (headers['x-sign'] === 's' ? { title: 'Pushed ' + body.ref, worker: 'fake', prompt: 'write pushed.txt ' + body.ref } : null) }),
    schedule({ name: 'fails', dailyAt: '20:00', task: (_due, box) => { throw new Error('no idea what to do with ' + box.secret('MAP_KEY')); } }),
  ],
  routes: {
    'GET /key': (_req, box) => new Response(String(box.secret('MAP_KEY').length)),
    'POST /task': async (req, box) => Response.json(await box.createTask((await req.json()) as any)),
    'GET /open': () => new Response('come in'),
  },
  openRoutes: ['GET /open'],
} satisfies Track;
`

// An app sees files that a person puts in and those that its own tasks leave.
func TestFilesStartATask(t *testing.T) {
	w := newWorld(t, "2026-12-01 07:00", map[string]string{"watcher": watcher})
	w.noted("trigger armed", func(l line) bool { return l.data("trigger") == "notes" })
	w.do("PUT", "/api/workspaces/home/files?path=notes/a.md", "a", 201)
	w.wake(500 * time.Millisecond)
	made := w.until("its task", func(l line) bool { return l.Type == "task.created" && l.App == "watcher" })
	w.state(made.Task, "done")
	if got := w.do("GET", "/api/workspaces/home/files?path=notes/out/seen.txt", "", 200); strings.TrimSpace(got) != "added notes/a.md" {
		t.Errorf("it was told of %q", got)
	}
	// Its own change is told too, and it leaves it at that.
	w.wake(500 * time.Millisecond)
	w.until("its own change", nth(2, func(l line) bool { return l.what() == "files seen" }))
	if n := len(w.created("watcher")); n != 1 {
		t.Errorf("%d tasks", n)
	}
	// What changes while the box goes down and comes up is not missed.
	w.do("DELETE", "/api/workspaces/home/files?path=notes/a.md", "", 200)
	w.off(time.Hour)
	w.wake(500 * time.Millisecond)
	made = w.until("the task after the start", nth(2, func(l line) bool { return l.Type == "task.created" && l.App == "watcher" }))
	if !strings.Contains(made.Spec.Prompt, "deleted notes/a.md") {
		t.Errorf("it was told of %q", made.Spec.Prompt)
	}
}

// An app that is read anew without its watch of files holds none of its layers any more,
// once it had the time to add it again.
func TestWatchIsTakenOut(t *testing.T) {
	w := newWorld(t, "2026-12-01 07:00", map[string]string{"watcher": watcher})
	w.noted("trigger armed", func(l line) bool { return l.data("trigger") == "notes" })
	var put struct{ ID string }
	must(t, json.Unmarshal([]byte(w.do("PUT", "/api/workspaces/home/files?path=notes/a.md", "a", 201)), &put))
	w.wake(500 * time.Millisecond)
	w.until("it was told", func(l line) bool { return l.what() == "files seen" })
	before, rest, _ := strings.Cut(watcher, "    onFileChange({")
	_, after, found := strings.Cut(rest, "    webhook({")
	if !found {
		t.Fatal("the app is another one")
	}
	w.write("tracks/watcher/track.ts", before+"    webhook({"+after)
	w.do("PUT", "/api/apps/watcher", `{"on":true}`, 200)
	w.do("POST", "/api/tasks/"+put.ID+"/undo", "", 200)
	w.wake(10*time.Minute - 500*time.Millisecond)
	w.wake(10 * time.Minute)
	layer := filepath.Join(w.home, "tasks", put.ID, "layer")
	look := time.NewTicker(20 * time.Millisecond) // nobody tells when it is deleted
	defer look.Stop()
	late := time.After(generous)
	for {
		if _, err := os.Stat(layer); os.IsNotExist(err) {
			return
		}
		select {
		case <-look.C:
		case <-late:
			t.Fatal("the layer stays")
		}
	}
}

// A watch that an app adds only when something happens, long after its triggers were
// started, goes on where it was after a start of the box.
func TestWatchThatIsAddedLater(t *testing.T) {
	w := newWorld(t, "2026-12-01 07:00", map[string]string{"later": `
import type { Track } from '../../core/contract.ts';
export default {
  name: 'later',
  triggers: [{ name: 't', start: (box) => box.onWebhook('begin', () => void box.watch({ kind: 'files', name: 'all', workspace: 'home' }, ({ changes }) => box.note(changes.map((c) => c.change + ' ' + c.path).join()))) }],
} satisfies Track;
`})
	begin := func() { w.do("POST", "/hook/later/begin", "{}", 200) } // once its triggers were started
	told := func(text string) {
		t.Helper()
		w.wake(500 * time.Millisecond)
		w.until("it is told: "+text, func(l line) bool { return l.Track == "later" && string(l.Data) == `"`+text+`"` })
	}
	begin()
	var put struct{ ID string }
	must(t, json.Unmarshal([]byte(w.do("PUT", "/api/workspaces/home/files?path=a.md", "a", 201)), &put))
	told("added a.md")
	w.until("that is written down", func(l line) bool { return l.what() == "files seen" })
	w.off(time.Hour)
	w.do("POST", "/hook/later/other", "{}", 404) // its triggers are started
	w.do("POST", "/api/tasks/"+put.ID+"/undo", "", 200)
	begin()
	told("deleted a.md")
}

func TestWebhookStartsATask(t *testing.T) {
	w := newWorld(t, "2026-12-01 07:00", map[string]string{"watcher": watcher})
	w.noted("trigger armed")
	if got := w.do("POST", "/hook/watcher/push", `{"ref":"main"}`, 200); strings.TrimSpace(got) != "{}" {
		t.Errorf("without the header: %s", got)
	}
	got := w.do("POST", "/hook/watcher/push", `{"ref":"main"}`, 200, "X-Sign", "s")
	made := w.created("watcher")
	if len(made) != 1 || !strings.Contains(got, `"task":"`+made[0].Task+`"`) || made[0].Spec.Title != "Pushed main" || made[0].Spec.Source != "watcher" {
		t.Errorf("%s, %+v", got, made)
	}
	w.state(made[0].Task, "done")
	w.do("POST", "/hook/watcher/other", `{"ref":"main"}`, 404)
	w.do("POST", "/hook/nobody/push", `{"ref":"main"}`, 404)
}

// A trigger that fails is told in the log and in the app's error, and its next date comes.
func TestScheduleThatFails(t *testing.T) {
	w := newWorld(t, "2026-12-01 19:00", map[string]string{"watcher": watcher})
	w.do("PUT", "/api/vault/MAP_KEY", "a long value", 200)
	w.noted("trigger armed", func(l line) bool { return l.data("trigger") == "fails" })
	w.wake(time.Hour)
	failed := w.noted("trigger failed")
	if failed.data("trigger") != "fails" || !strings.Contains(fmt.Sprint(failed.data("error")), "no idea what to do") {
		t.Errorf("%s", failed.Data)
	}
	var all []struct{ Name, Error string }
	all = get[[]struct{ Name, Error string }](w, "/api/apps?all=1")
	if !strings.Contains(fmt.Sprint(all), "no idea what to do") {
		t.Errorf("%v", all)
	}
	if text := w.do("GET", "/api/log", "", 200); strings.Contains(text, "a long value") {
		t.Error("the log has the key")
	}
	w.wake(24 * time.Hour)
	w.noted("trigger failed", func(l line) bool { return strings.HasPrefix(fmt.Sprint(l.data("due")), "2026-12-02T20:00") })
}

const namer = `
import type { Track } from '../../core/contract.ts';

export default {
  name: 'namer',
  secrets: ['MAP_KEY'],
  routes: {
    'POST /named': (_req, box) => {
      box.watch({ kind: 'files', name: 'of ' + box.secret('MAP_KEY'), workspace: 'home', paths: ['*.' + box.secret('MAP_KEY')] }, () => {});
      return new Response('');
    },
    'POST /many': (_req, box) => {
      const long = 'x'.repeat(990);
      for (let n = 0; ; n++) {
        try {
          box.watch({ kind: 'files', name: 'w' + n, workspace: 'home', paths: Array(100).fill(long) }, () => {})();
        } catch (err) {
          return Response.json({ n, why: (err as Error).message });
        }
      }
    },
  },
} satisfies Track;
`

// What an app calls its watches stands in the log: without the vault's values, and no
// more of it than of its notes.
func TestNamesOfWatches(t *testing.T) {
	w := newWorld(t, "2026-12-01 07:00", map[string]string{"namer": namer})
	w.do("PUT", "/api/vault/MAP_KEY", "a_long_value", 200)
	w.do("POST", "/t/namer/named", "", 200)
	armed := w.noted("trigger armed")
	if got := string(armed.Data); strings.Contains(got, "a_long_value") || !strings.Contains(got, `"of [MAP_KEY]"`) || !strings.Contains(got, `"*.[MAP_KEY]"`) {
		t.Errorf("%s", got)
	}
	var many struct {
		N   int
		Why string
	}
	must(t, json.Unmarshal([]byte(w.do("POST", "/t/namer/many", "", 200)), &many))
	if many.Why != "this app has written 8 MB to the action log in a short time: it may write again later" || many.N < 70 || many.N > 200 {
		t.Errorf("after %d: %s", many.N, many.Why)
	}
}

const hanger = `
import { existsSync, writeFileSync } from 'node:fs';
import type { Track } from '../../core/contract.ts';
import { onFileChange } from '../../core/triggers.ts';

export default {
  name: 'hanger',
  triggers: [
    onFileChange({
      name: 'files',
      task: async (changes, box) => {
        if (!existsSync('begun')) {
          writeFileSync('begun', '');
          box.note('begun');
          await new Promise(() => {});
        }
        return { title: changes.map((c) => c.path).join(), worker: 'fake', prompt: '#' };
      },
    }),
  ],
} satisfies Track;
`

// What an app was at when the box went down in order it is told again.
func TestBoxEndsDuringATrigger(t *testing.T) {
	w := newWorld(t, "2026-12-01 07:00", map[string]string{"hanger": hanger})
	w.noted("trigger armed")
	w.do("PUT", "/api/workspaces/home/files?path=a.txt", "a", 201)
	w.wake(500 * time.Millisecond)
	w.until("it has begun", func(l line) bool { return l.Type == "note" && l.Track == "hanger" })
	w.off(time.Hour)
	w.wake(500 * time.Millisecond)
	made := w.until("its task", func(l line) bool { return l.Type == "task.created" && l.App == "hanger" })
	if made.Spec.Title != "a.txt" {
		t.Errorf("%+v", made)
	}
}

const crasher = `
import type { Track } from '../../core/contract.ts';
import { schedule } from '../../core/triggers.ts';

export default {
  name: 'crasher',
  triggers: [
    schedule({
      name: 'once',
      dailyAt: '08:00',
      task: async ({ at }, box) => {
        await box.createTask({ title: at.toISOString().slice(0, 10), worker: 'fake', prompt: '#' });
        process.exit(1);
      },
    }),
  ],
} satisfies Track;
`

// An app whose process ends in the middle of its trigger's call has had the call: it
// isn't made again by each start of the process, which would start a task each time.
func TestProcessEndsDuringATrigger(t *testing.T) {
	w := newWorld(t, "2026-12-01 07:00", map[string]string{"crasher": crasher})
	w.noted("trigger armed")
	w.wake(time.Hour)
	w.noted("trigger failed")
	w.wake(24 * time.Hour) // its process was started again, and waits for the next date
	w.until("the next date's task", nth(2, func(l line) bool { return l.Type == "task.created" }))
	var days []string
	for _, l := range w.created("crasher") {
		days = append(days, l.Spec.Title)
	}
	if !slices.Equal(days, []string{"2026-12-01", "2026-12-02"}) {
		t.Errorf("%q", days)
	}
}

type permissions struct {
	App   string
	Items []struct {
		Item     string
		Allowed  bool
		LastUsed *string
	}
	DailyLimitCents   *int
	DiskCapBytes      int64
	DeclaredHostsOnly bool
}

func (p permissions) String() string {
	var out []string
	for _, i := range p.Items {
		s := i.Item
		if !i.Allowed {
			s += " off"
		}
		if i.LastUsed != nil {
			s += " used"
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

// What the owner turns off holds at once in the app that runs, with the sentence and in
// the log; and is there again when it is turned on.
func TestPermissionsOfARunningApp(t *testing.T) {
	w := newWorld(t, "2026-12-01 07:00", map[string]string{"watcher": watcher})
	w.do("PUT", "/api/vault/MAP_KEY", "a long value", 200)
	items := func() string {
		for _, p := range get[[]permissions](w, "/api/permissions") {
			if p.App == "watcher" {
				return p.String()
			}
		}
		return "no such app"
	}
	if got := items(); got != "key:MAP_KEY, strangers" {
		t.Errorf("before: %s", got)
	}
	if got := w.do("GET", "/t/watcher/key", "", 200); got != "12" {
		t.Errorf("the key: %s", got)
	}
	w.do("POST", "/t/watcher/task", `{"title":"t","prompt":"p","hosts":["api.example.com"]}`, 200)
	if got := items(); got != "key:MAP_KEY used, strangers, shell used, host:api.example.com used" {
		t.Errorf("after: %s", got)
	}
	const allow = " The owner can allow it in Settings, Permissions."
	for _, row := range []struct{ item, method, path, body, says string }{
		{"key:MAP_KEY", "GET", "/t/watcher/key", "", "watcher isn't allowed to use MAP_KEY." + allow},
		{"shell", "POST", "/t/watcher/task", `{"title":"t","prompt":"p"}`, "watcher isn't allowed to run agents that can run commands." + allow},
		{"host:api.example.com", "POST", "/t/watcher/task", `{"title":"t","prompt":"#","worker":"fake","hosts":["*.example.com"]}`, "watcher isn't allowed to let its agents reach *.example.com." + allow},
	} {
		w.do("PUT", "/api/permissions/watcher", `{"`+row.item+`":false}`, 200)
		if got := w.do(row.method, row.path, row.body, 500); !strings.Contains(got, row.says) {
			t.Errorf("%s: %s", row.item, got)
		}
		w.noted("permission refused", func(l line) bool {
			return l.data("app") == "watcher" && (l.data("item") == row.item || strings.HasPrefix(row.item, "host:") && strings.HasPrefix(fmt.Sprint(l.data("item")), "host:"))
		})
		w.do("PUT", "/api/permissions/watcher", `{"`+row.item+`":true}`, 200)
		if row.method == "GET" {
			w.do(row.method, row.path, row.body, 200)
		}
	}
	w.do("POST", "/t/watcher/task", `{"title":"t","prompt":"#","worker":"fake"}`, 200)
}

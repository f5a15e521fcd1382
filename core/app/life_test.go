package app_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/app"
	"gurtos/core/task"
)

// lists are which apps are on, and which have an error.
func (w *world) lists() (on, broken []string) {
	for _, i := range w.apps.List() {
		if i.On {
			on = append(on, i.Name)
		}
		if i.Error != "" {
			broken = append(broken, i.Name)
		}
	}
	return on, broken
}

// Which apps are on: at the very first start the model app alone; later what is new;
// else as the owner had it.
func TestSwitch(t *testing.T) {
	w := newWorld(t, map[string]string{"anthropic": oneTool("anthropic", ""), "b": oneTool("b", ""), "c": oneTool("c", "")})
	check := func(when string, want ...string) {
		t.Helper()
		if on, _ := w.lists(); !slices.Equal(on, want) {
			t.Errorf("%s: %q are on", when, on)
		}
	}
	check("on a new box", "anthropic")
	w.reopen()
	check("started again", "anthropic")
	w.on("c")
	must(t, w.apps.Switch(t.Context(), "anthropic", false, "test"))
	w.put("d", oneTool("d", ""))
	w.reopen()
	check("with a new one", "c", "d")
	must(t, os.RemoveAll(filepath.Join(w.root, "tracks", "c")))
	w.reopen()
	check("with one gone", "d")
	w.put("c", oneTool("c", ""))
	w.reopen()
	check("with it back", "c", "d")
	var refused *app.Refusal
	if err := w.apps.Switch(t.Context(), "nope", true, "test"); !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
		t.Errorf("one that is not there: %v", err)
	}
	w.put("e", oneTool("e", ""))
	w.on("e")
	check("one whose folder came since", "c", "d", "e")
}

// A folder that is to be left out is no app, whoever asks for it.
func TestLeftOut(t *testing.T) {
	w := newWorld(t, map[string]string{"example": oneTool("example", ""), "well": oneTool("well", "")}, func(o *app.Options) { o.Skip = []string{"example"} })
	var refused *app.Refusal
	if err := w.apps.Switch(t.Context(), "example", true, "test"); !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
		t.Errorf("turning it on: %v", err)
	}
	if _, ok := w.apps.Find("example"); ok || len(w.apps.List()) != 1 {
		t.Errorf("the apps: %+v", w.apps.List())
	}
	if notes := strings.Join(w.notes("box"), "\n"); strings.Contains(notes, "example") || !strings.Contains(notes, "well") {
		t.Errorf("the log: %s", notes)
	}
}

// What is wrong with an app is told, and the others go on.
func TestBroken(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	rows := map[string]struct{ source, want string }{
		"throws":    {"throw new Error('boom at load');", "throws: it can't be loaded: boom at load (track.ts, line 1)"},
		"waits":     {"await new Promise(() => {});\nexport default { name: 'waits' };", "waits: it can't be loaded: track.ts, or what it imports, awaits something outside of its functions that never comes"},
		"waitsdeep": {"import './parts.ts';\nexport default { name: 'waitsdeep' };", "waitsdeep: it can't be loaded: track.ts, or what it imports, awaits something"},
		"rejects":   {"Promise.reject(new Error('nobody heard'));\nawait new Promise((r) => setTimeout(r, 1e6));", "rejects: it ended with an error that nothing in it caught: nobody heard"},
		"uncaught":  {"setTimeout(() => { throw null; });\nawait new Promise((r) => setTimeout(r, 1e6));", "uncaught: it ended with an error that nothing in it caught: it threw null"},
		"killed":    {"process.kill(process.pid, 'SIGKILL');\nawait new Promise((r) => setTimeout(r, 1e6));", "killed: it was ended by the signal SIGKILL"},
		"decorated": {"const d = (c: any) => c;\n@d\nclass A {}\nexport default { name: 'decorated' };", "decorated: it can't be loaded: Invalid or unexpected token (perhaps track.ts, line 2: Node can't run decorators)"},
		"later":     {"const f = await import('node:fs');\nawait import('../well/track.ts');\nexport default { name: 'later' };", "later: it can't be loaded: track.ts imports ../well/track.ts: an app may import"},
		"required":  {"import { createRequire } from 'node:module';\ncreateRequire(import.meta.url)('../../core/task.ts');\nexport default { name: 'required' };", "required: it can't be loaded: track.ts imports ../../core/task.ts: an app may import"},
		"reads":     {"import fs from 'node:fs';\nfs.readFileSync('/etc/passwd');\nexport default { name: 'reads' };", "reads: it can't be loaded: Access to this API has been restricted"},
		"empty":     {"", "empty: track.ts exports no app as its default"},
		"nothing":   {"export default null;", "nothing: track.ts exports no app as its default"},
		"list":      {"export default [];", "list: track.ts exports no app as its default"},
		"promise":   {"export default Promise.resolve({ name: 'promise' });", "promise: name: it is missing"},
		"proxy":     {"export default new Proxy({}, { ownKeys() { throw new Error('no keys'); } });", "proxy: it can't be loaded: no keys"},
		"circle":    {"const a: any = { name: 'circle' };\na.title = a;\nexport default a;", "circle: it can't be loaded: what it declares lies more than 32 levels deep, or in a circle"},
		"great":     {"export default { name: 'great', description: 'x'.repeat(11 << 20) };", "great: it can't be loaded: a message of 12 MB"},
		"proto":     {"export default JSON.parse('{\"name\":\"proto\",\"__proto__\":{\"title\":\"x\"}}');", "proto: __proto__: there is no such field"},
		"number":    {"export default { name: 1 };", "number: name: a text is needed"},
		"cost":      {track("cost", "tools: [{ name: 'cost.a', description: 'd', cost: 5 as any, async run() {} }]"), "cost: tools[0].cost: a function is needed"},
		"context":   {track("context", "taskContext: 'text' as any"), "context: taskContext: a function is needed"},
		"jobs":      {track("jobs", "modelJobs: [{ name: 'a', async run() {} }, { name: 'a', async run() {} }]"), "jobs: modelJobs[1].name: there is another one of the name a"},
		"readers":   {track("readers", "logReaders: [{ name: 'a', read() {} }, { name: 'a', read() {} }]"), "readers: logReaders[1].name: there is another one of the name a"},
		"triggers":  {track("triggers", "triggers: [{ name: 'a', start() {} }, { name: 'a', start() {} }]"), "triggers: triggers[1].name: there is another one of the name a"},
		"pages":     {track("pages", "apps: [{ name: 'a', title: 'A', href: '/' }, { name: 'a', title: 'B', href: '/b' }]"), "pages: apps[1].name: there is another one of the name a"},
		"schemas":   {track("schemas", "tools: [{ name: 'schemas.a', description: 'd', input: [] as any, async run() {} }]"), "schemas: tools[0].input: it is no JSON Schema"},
		"nullth":    {"throw null;", "nullth: it can't be loaded: it threw null"},
		"another":   {"export default { name: 'other' };", `another: name: it is "other", and has to be the name of the app's folder, another`},
		"nodef":     {"export const x = 1;", "nodef: track.ts exports no app as its default"},
		"fn":        {"export default () => {};", "fn: track.ts exports no app as its default"},
		"num":       {"export default 5;", "num: track.ts exports no app as its default"},
		"syntax":    {"export default {{;", "syntax: track.ts can't be read as TypeScript"},
		"enumed":    {"enum A { b }\nexport default { name: 'enumed' };", "enumed: track.ts: "},
		"props":     {"class A { constructor(public b: number) {} }\nexport default { name: 'props' };", "props: track.ts: "},
		"nspace":    {"namespace A { export const b = 1; }\nexport default { name: 'nspace' };", "nspace: track.ts: "},
		"core":      {"import '../../core/task.ts';\nexport default { name: 'core' };", "core: it can't be loaded: track.ts imports ../../core/task.ts: an app may import"},
		"friend":    {"import '../throws/track.ts';\nexport default { name: 'friend' };", "friend: it can't be loaded: track.ts imports ../throws/track.ts: an app may import"},
		"etc":       {"import '/etc/passwd';\nexport default { name: 'etc' };", "etc: it can't be loaded: track.ts imports /etc/passwd: an app may import"},
		"pkg":       {"import 'typescript';\nexport default { name: 'pkg' };", "pkg: it can't be loaded: track.ts imports typescript: the package is not among the app's own"},
		"lost":      {"import './lost.ts';\nexport default { name: 'lost' };", "lost: it can't be loaded: track.ts imports ./lost.ts: there is no such file"},
		"short":     {"import './parts';\nexport default { name: 'short' };", "short: it can't be loaded: track.ts imports ./parts: there is no such file"},
		"typ":       {"import { Track } from '../../core/contract.ts';\nexport default { name: 'typ' } satisfies Track;", "typ: it can't be loaded: The requested module '../../core/contract.ts' does not provide an export named 'Track' (track.ts, line 1). What is a type is imported by `import type`"},
		"exits":     {"process.exit(3);", "exits: it ended by itself, with exit code 3"},
		"spawns":    {"import { execSync } from 'node:child_process';\nexecSync('true');\nexport default { name: 'spawns' };", "spawns: it can't be loaded: "},
		"hog":       {"const a: any[] = [];\nfor (;;) a.push(new Array(1e5).fill(Math.random()));", "hog: it used more than its 128 MB of memory"},
		"buffers":   {"const a: any[] = [];\nfor (;;) a.push(Buffer.alloc(1 << 20, 1));", "buffers: it used more than its 128 MB of memory"},
		"twice":     {track("twice", "tools: [{ name: 'twice.a', description: 'd', async run() {} }, { name: 'twice.a', description: 'd', async run() {} }]"), "twice: tools[1].name: there is another one of the name twice.a"},
		"prefix":    {track("prefix", "tools: [{ name: 'well.a', description: 'd', async run() {} }]"), `prefix: tools[0].name: it is "well.a", and a tool of this app is called prefix.<verb>`},
		"nodesc":    {track("nodesc", "tools: [{ name: 'nodesc.a', async run() {} } as any]"), "nodesc: tools[0].description: it is missing"},
		"norun":     {track("norun", "tools: [{ name: 'norun.a', description: 'd' } as any]"), "norun: tools[0].run: the function is missing"},
		"schema":    {track("schema", "tools: [{ name: 'schema.a', description: 'd', input: { type: 'nothing' }, async run() {} }]"), "schema: tools[0].input: it is no JSON Schema"},
		"remote":    {track("remote", "tools: [{ name: 'remote.a', description: 'd', input: { $ref: 'https://example.com/x' }, async run() {} }]"), "remote: tools[0].input: it is no JSON Schema"},
		"badkey":    {track("badkey", "secrets: ['lower']"), `badkey: secrets[0]: it is "lower": a key's name: capital letters`},
		"badhost":   {track("badhost", "tools: [{ name: 'badhost.a', description: 'd', hosts: ['localhost'], async run() {} }]"), `badhost: tools[0].hosts[0]: it is "localhost"`},
		"optional":  {track("optional", "optionalSecrets: ['NOT_LISTED']"), "optional: optionalSecrets: NOT_LISTED is not among"},
		"unknown":   {strings.Replace(track("unknown", "tols: []"), "satisfies Track", "", 1), "unknown: tols: there is no such field"},
		"route":     {track("route", "routes: { 'GET nothing': () => new Response('') }"), `route: routes: "GET nothing" is no route`},
		"routefn":   {track("routefn", "routes: { 'GET /': 'text' as any }"), "routefn: routes.GET /: a function is needed"},
		"openroute": {track("openroute", "openRoutes: ['GET /x']"), `openroute: openRoutes[0]: it is "GET /x": there is no such route`},
		"href":      {track("href", "apps: [{ name: 'a', title: 'A', href: 'https://example.com' }]"), `href: apps[0].href: it is "https://example.com"`},
		"trigger":   {track("trigger", "triggers: [{ name: 'x' } as any]"), "trigger: triggers[0].start: the function is missing"},
		"reader":    {track("reader", "logReaders: [{ name: '../x', read() {} }]"), `reader: logReaders[0].name: it is "../x"`},
		"title":     {track("title", "title: ''"), "title: title: it is empty"},
		"sched":     {"import { schedule } from '../../core/triggers.ts';\nexport default { name: 'sched', triggers: [schedule({ name: 'x', dailyAt: '25:00', task: { title: 't', prompt: 'p' } })] };", "sched: it can't be loaded: schedule x: dailyAt"},
		"UPPER":     {"export default { name: 'UPPER' };", `UPPER: "UPPER" is no name for an app`},
		"box":       {"export default { name: 'box' };", "box: no app may be called box"},
		"kit":       {"export default { name: 'kit' };", "kit: no app may be called kit"},
	}
	apps := map[string]string{"well": oneTool("well", "return 1;")}
	for name, row := range rows {
		apps[name] = row.source
	}
	apps["short/parts.ts"] = "export const x = 1;"
	apps["waitsdeep/parts.ts"] = "await new Promise(() => {});"
	w := newWorld(t, apps)
	w.put("bare/README.md", "nothing else")
	for name, row := range rows {
		if got := w.info(name).Error; !strings.HasPrefix(got, row.want) || strings.Contains(got, "\n") {
			t.Errorf("%s: %q\n\twant %q", name, got, row.want)
		}
		if w.info(name).On {
			t.Errorf("%s is on", name)
		}
	}
	for _, name := range []string{"throws", "prefix", "UPPER", "box", "bare"} {
		var refused *app.Refusal
		if err := w.apps.Switch(t.Context(), name, true, "test"); !errors.As(err, &refused) || refused.Sentence != w.info(name).Error {
			t.Errorf("turning %s on: %v", name, err)
		}
	}
	w.on("well")
	if out, err := w.call("well.do", "{}"); err != nil || out != "1" {
		t.Errorf("the one that is well: %s, %v", out, err)
	}
}

// Two apps with a part of one name can't both be on, and the sentence names both.
func TestClash(t *testing.T) {
	job := func(name string) string { return track(name, "modelJobs: [{ name: 'ask', async run() {} }]") }
	w := newWorld(t, map[string]string{"one": job("one"), "two": job("two")})
	w.on("one")
	err := w.apps.Switch(t.Context(), "two", true, "test")
	if err == nil || !strings.Contains(err.Error(), "one") || !strings.Contains(err.Error(), "two") || !strings.Contains(err.Error(), "ask") {
		t.Errorf("turning the second one on: %v", err)
	}
	must(t, w.apps.Switch(t.Context(), "one", false, "test"))
	w.on("two")
}

// Where two apps that are on have a model job of one name, it is that of the first by
// name, however long that one takes to be read.
func TestClashAtStart(t *testing.T) {
	job := func(name, more string) string {
		return more + track(name, "modelJobs: [{ name: 'ask', async run() {} }]")
	}
	w := newWorld(t, map[string]string{"well": oneTool("well", "return 1;")}, func(o *app.Options) { o.OpenTime = time.Hour })
	w.put("one", job("one", "await new Promise((r) => setTimeout(r, 1000));\n"))
	w.put("two", job("two", ""))
	w.reopen()
	if on, broken := w.lists(); !slices.Equal(on, []string{"one"}) || !slices.Equal(broken, []string{"two"}) {
		t.Errorf("%q are on, and not %q", on, broken)
	}
	if got := w.info("two").Error; got != "two: two and one both have a model job named ask: only one of them can be on" {
		t.Error(got)
	}
}

// What an app is called and says of itself.
func TestInfo(t *testing.T) {
	long := strings.Repeat("word ", 100)
	w := newWorld(t, map[string]string{
		"plain":            track("plain", ""),
		"paged":            track("paged", "apps: [{ name: 'p', title: 'Pages', href: '/x' }]"),
		"titled":           track("titled", "title: 'Title', description: 'For test payments.', apps: [{ name: 'p', title: 'Pages', href: '/x' }], secrets: ['A_KEY'], optionalSecrets: ['B_KEY'], tools: [{ name: 'titled.a', description: 'd', secrets: ['B_KEY'], hosts: ['b.example.com', 'a.example.com'], async run() {} }]"),
		"readme":           track("readme", ""),
		"readme/README.md": "# A heading\n\nThe first\nparagraph. " + long + "\n\nAnother one.\n",
	})
	must(t, w.vault.Set("A_KEY", "12345678"))
	for name, want := range map[string]string{"plain": "plain", "paged": "Pages", "titled": "Title"} {
		if got := w.info(name).Title; got != want {
			t.Errorf("title of %s: %q", name, got)
		}
	}
	i := w.info("titled")
	if !i.Test || w.info("plain").Test || fmt.Sprint(i.Secrets) != "[{A_KEY true false} {B_KEY false true}]" || fmt.Sprint(i.Hosts) != "[a.example.com b.example.com]" || fmt.Sprint(i.Tools) != "[titled.a]" {
		t.Errorf("%+v", i)
	}
	if d := w.info("readme").Description; !strings.HasPrefix(d, "The first paragraph. word") || len([]rune(d)) > 240 {
		t.Errorf("description: %q", d)
	}
}

// An app that is on is read anew when its files changed, and stays as it was when what
// they hold now can't be used.
func TestReload(t *testing.T) {
	w := newWorld(t, map[string]string{"app": oneTool("app", "return 1;")})
	w.on("app")
	w.put("app", oneTool("app", "return 2;"))
	w.on("app")
	if out, _ := w.call("app.do", "{}"); out != "2" {
		t.Errorf("after a change: %s", out)
	}
	w.put("app", "export default {")
	if err := w.apps.Switch(t.Context(), "app", true, "test"); err == nil {
		t.Error("what can't be read was taken")
	}
	if i := w.info("app"); !i.On || i.Error == "" {
		t.Errorf("after a change that can't be used: %+v", i)
	}
	if out, _ := w.call("app.do", "{}"); out != "2" {
		t.Errorf("after a change that can't be used: %s", out)
	}
	w.put("app", oneTool("app", "return 3;"))
	w.on("app")
	if out, _ := w.call("app.do", "{}"); out != "3" || w.info("app").Error != "" {
		t.Errorf("mended: %s, %s", out, w.info("app").Error)
	}
	trees, err := os.ReadDir(filepath.Join(w.home, "apps/app/code"))
	if must(t, err); len(trees) != 2 { // the tree, and what it declares
		t.Errorf("trees that are kept: %v", trees)
	}
}

// A trigger that can't be stopped keeps the process, and everything else of the app is
// refused until the box, or the app, starts anew.
func TestTriggerWithoutStop(t *testing.T) {
	w := newWorld(t, map[string]string{"goes": track("goes", `tools: [{ name: 'goes.do', description: 'd', async run() { return process.pid; } }], triggers: [
		{ name: 'on', start(box) { let n = 0; setInterval(() => box.note(n++), 20); box.onWebhook('x', () => 1); } },
		{ name: 'stops', start: (box) => () => box.note('stopped') },
	]`)})
	w.on("goes")
	w.until("the trigger goes", func() bool { return len(w.notes("goes")) > 2 })
	must(t, w.apps.Switch(t.Context(), "goes", false, "test"))
	i := w.info("goes")
	if i.On || !i.RestartNeeded {
		t.Errorf("turned off: %+v", i)
	}
	if notes := w.notes("goes"); !slices.Contains(notes, `"stopped"`) {
		t.Errorf("the other trigger was not stopped: %q", notes)
	}
	was := len(w.notes("goes"))
	w.until("the trigger goes on", func() bool { return len(w.notes("goes")) > was+2 })
	if _, ok := w.apps.Lookup("goes.do"); ok {
		t.Error("its tool is there")
	}
	if _, err := w.apps.Hook(t.Context(), "goes", "x", nil, json.RawMessage(`{}`)); err == nil {
		t.Error("its webhook answers")
	}
	w.on("goes")
	if i := w.info("goes"); !i.On || i.RestartNeeded {
		t.Errorf("turned on again: %+v", i)
	}
	if out, err := w.call("goes.do", "{}"); err != nil || out == "" {
		t.Errorf("its tool: %s, %v", out, err)
	}
}

// A process that ends by itself is started again, later and later, and its readers go
// on where they were.
func TestCrash(t *testing.T) {
	w := newWorld(t, map[string]string{
		"dies": track("dies", `logReaders: [{ name: 'all', async read(event, box) {
			if (event.type !== 'note' || event.track !== 'dies' ) return;
			const d: any = event.data;
			if (d.die && box.tasks().length === 0) { await box.createTask({ title: 'died', prompt: 'step x', worker: 'fake' }); process.exit(1); }
			if (d.die || d.last) box.note({ saw: d.die ? 'die' : 'last' });
		} }], triggers: [{ name: 't', start: (box) => { box.note({ started: true }); return () => {}; } }],
		tools: [{ name: 'dies.say', description: 'd', async run(i: any, ctx) { ctx.box.note(i); } }]`),
		"well": oneTool("well", "return 1;"),
	})
	w.on("dies", "well")
	if _, err := w.call("dies.say", `{"die":true}`); err != nil {
		t.Fatal(err)
	}
	w.until("it died, was started, and saw the line again", func() bool { return slices.Contains(w.notes("dies"), `{"saw":"die"}`) })
	if i := w.info("dies"); !i.On || !strings.Contains(i.Error, "dies: it ended by itself, with exit code 1") {
		t.Errorf("%+v", i)
	}
	if out, err := w.call("dies.say", `{"last":true}`); err != nil {
		t.Errorf("a call after it: %s, %v", out, err)
	}
	w.until("the reader goes on", func() bool { return slices.Contains(w.notes("dies"), `{"saw":"last"}`) })
	if out, err := w.call("well.do", "{}"); err != nil || out != "1" {
		t.Errorf("the other app: %s, %v", out, err)
	}
	if n := strings.Count(fmt.Sprint(w.notes("dies")), "started"); n < 2 {
		t.Errorf("its trigger was started %d times", n)
	}
}

// A log reader gets every line once, in order, over restarts of the box.
func TestReader(t *testing.T) {
	source := track("reads", `logReaders: [
		{ name: 'slow', read: () => new Promise(() => {}) },
		{ name: 'all', read(event, box) {
			if (event.type === 'note' && event.track === 'reads') return;
			box.note({ seq: event.seq });
		} },
	]`)
	w := newWorld(t, map[string]string{"reads": source})
	w.on("reads")
	seen := func() (all []int64) {
		for _, n := range w.notes("reads") {
			var d struct{ Seq int64 }
			must(t, json.Unmarshal([]byte(n), &d))
			all = append(all, d.Seq)
		}
		return all
	}
	caughtUp := func() bool {
		var want []int64
		must(t, w.events.Read(t.Context(), 0, func(_ []byte, event func() (actionlog.Event, error)) error {
			ev, err := event()
			if ev.Track != "reads" {
				want = append(want, ev.Seq)
			}
			return err
		}))
		return slices.Equal(seen(), want)
	}
	w.until("all lines are read", caughtUp)
	must(t, w.tasks.Note(t.Context(), "alert", map[string]any{"text": "one more"}, ""))
	w.until("one more", caughtUp)
	// What a reader has told before its place is kept comes again.
	w.until("its place", func() bool {
		head, _ := w.events.Head()
		b, err := os.ReadFile(filepath.Join(w.home, "cursors", "reads.all"))
		return err == nil && string(b) == fmt.Sprintf("%019d\n", head)
	})
	w.reopen()
	must(t, w.tasks.Note(t.Context(), "alert", map[string]any{"text": "after a restart"}, ""))
	w.until("after a restart", caughtUp)
	b := mustRead(t, filepath.Join(w.home, "cursors", "reads.all"))
	if len(b) != 20 || b == fmt.Sprintf("%019d\n", 0) {
		t.Errorf("the place: %q", b)
	}
}

// A line at which a reader threw comes again.
func TestReaderRetries(t *testing.T) {
	w := newWorld(t, map[string]string{"again": track("again", `logReaders: [{ name: 'r', read(event, box) {
		if (event.type === 'note' && event.track === 'box' && (event.data as any).text === 'try') {
			const g = globalThis as any;
			g.n = (g.n ?? 0) + 1;
			if (g.n < 2) throw new Error('not yet');
			box.note({ tries: g.n });
		}
	} }]`)})
	w.on("again")
	must(t, w.tasks.Note(t.Context(), "alert", map[string]any{"text": "try"}, ""))
	w.until("the second try", func() bool { return slices.Equal(w.notes("again"), []string{`{"tries":2}`}) })
	if e := w.info("again").Error; e != "again: the log reader r: not yet" {
		t.Errorf("its error: %s", e)
	}
}

// box.on hears each line from then on, until it is stopped.
func TestOn(t *testing.T) {
	w := newWorld(t, map[string]string{"hears": track("hears", `triggers: [{ name: 't', start(box) {
		let other = 0;
		const stop = box.on((e) => { if (e.type === 'note' && e.track === 'box') { const d: any = e.data; if (d.text === 'throw') throw new Error('x'); if (d.text) box.note(d.text + other); if (d.text === 'stop') stop(); } });
		box.on(() => { other++; });
		box.note('hears');
		return () => {};
	} }]`)})
	w.on("hears")
	w.until("it hears", func() bool { return len(w.notes("hears")) == 1 })
	for _, text := range []string{"one", "throw", "two", "stop", "three"} {
		must(t, w.tasks.Note(t.Context(), "alert", map[string]any{"text": text}, ""))
	}
	w.until("it heard all that it was to hear", func() bool { return len(w.notes("hears")) >= 4 })
	if got := fmt.Sprint(w.notes("hears")); !strings.HasPrefix(got, `["hears" "one`) || !strings.Contains(got, `"two`) || !strings.Contains(got, `"stop`) || strings.Contains(got, "three") {
		t.Errorf("heard: %s", got)
	}
}

// What apps add to a task's prompt.
func TestTaskContext(t *testing.T) {
	w := newWorld(t, map[string]string{
		"a": track("a", `taskContext: (spec) => 'A knows ' + spec.title`),
		"b": track("b", `taskContext: () => { throw new Error('b forgot'); }`),
		"c": track("c", `taskContext: () => new Promise(() => {})`),
		"d": track("d", `taskContext: () => undefined`),
		"e": track("e", `taskContext: async () => 'é'.repeat(9000)`),
	})
	w.on("a", "b", "c", "d", "e")
	// Their processes may take more than the 2 seconds to start: who is late once is asked again.
	w.until("all are in time, and the one that throws is told", func() bool {
		got := w.apps.Context(t.Context(), json.RawMessage(`{"title":"it"}`))
		if n := len([]rune(got)); n > 8000 {
			t.Fatalf("%.50s (%d characters)", got, n)
		}
		return strings.HasPrefix(got, "A knows it\n\né") && len([]rune(got)) == 8000 && strings.Contains(w.info("b").Error, "b forgot")
	})
	if e := w.info("c").Error; !strings.Contains(e, "taskContext took longer than 2 seconds") {
		t.Errorf("one that never answers: %s", e)
	}
}

// A question of a tool outlives the process and the box, and the call runs again under
// its key.
func TestAskOverRestart(t *testing.T) {
	w := newWorld(t, map[string]string{"asks": oneTool("asks", `
		ctx.box.note({ ran: ctx.key, die: input.die && ctx.box.approvals().length > 0 });
		if (input.die && ctx.box.approvals().length === 0) setTimeout(() => process.exit(1), 200);
		return { yes: await ctx.ask('Well?'), key: ctx.key };`)})
	w.on("asks")
	id := w.task(`call asks.do {"die": true}`, "asks.do")
	w.until("it ran twice", func() bool { return strings.Count(fmt.Sprint(w.notes("asks")), `"die":true`) == 1 })
	w.over(id, task.Waiting)
	w.reopen()
	w.until("it runs in the new box", func() bool { return strings.Count(fmt.Sprint(w.notes("asks")), `"die":true`) == 2 })
	list, err := w.tasks.Approvals(t.Context(), "")
	if must(t, err); len(list) != 1 {
		t.Fatalf("questions: %+v", list)
	}
	_, err = w.tasks.Answer(t.Context(), list[0].ID, true, "box screen", "")
	must(t, err)
	if end := w.over(id); end.State != task.Done {
		t.Errorf("%+v", end)
	}
	if got := w.results(id); len(got) != 1 || got[0] != fmt.Sprintf(`{"yes":true,"key":"%s.1"}`, id) {
		t.Errorf("results: %q", got)
	}
}

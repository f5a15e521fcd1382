package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"gurtos/core/app"
	"gurtos/core/approval"
	"gurtos/core/task"
)

// track is an app of these fields.
func track(name, fields string) string {
	return fmt.Sprintf("import type { Track } from '../../core/contract.ts';\nexport default { name: '%s', %s } satisfies Track;\n", name, fields)
}

// oneTool is an app with one tool, <name>.do, whose run has this body.
func oneTool(name, body string, more ...string) string {
	return track(name, fmt.Sprintf("tools: [{ name: '%s.do', description: 'Do.', %s async run(input: any, ctx) { %s } }]", name, strings.Join(more, " "), body))
}

func TestCtx(t *testing.T) {
	w := newWorld(t, map[string]string{"one": oneTool("one", `
		ctx.log('at it', { n: 1 });
		ctx.cost(0.25, 'paper');
		const yes = await ctx.ask('Go on?', { purpose: 'a test' });
		let other = '';
		try { ctx.secret('OTHER_KEY'); } catch (e: any) { other = e.message; }
		let app = '';
		try { ctx.box.secret('ONE_KEY'); } catch (e: any) { app = e.message; }
		return { key: ctx.key, task: ctx.task?.id, secret: ctx.secret('ONE_KEY').length, yes, aborted: ctx.signal.aborted, other, app };`,
		"secrets: ['ONE_KEY'],")})
	must(t, w.vault.Set("ONE_KEY", "a secret of twenty-four."))
	must(t, w.vault.Set("OTHER_KEY", "another secret"))
	w.on("one")
	c := &call{key: "t9.k1", task: task.Task{ID: "t9"}}
	out, err := w.call("one.do", "{}", c)
	must(t, err)
	var got struct {
		Key, Task, Other, App string
		Secret                int
		Yes, Aborted          bool
	}
	must(t, json.Unmarshal([]byte(out), &got))
	if got.Key != "t9.k1" || got.Task != "t9" || got.Secret != 24 || !got.Yes || got.Aborted {
		t.Errorf("%+v", got)
	}
	for _, why := range []string{got.Other, got.App} {
		if !strings.Contains(why, "it is not among the keys that it lists in secrets") {
			t.Errorf("a key that is not declared: %q", why)
		}
	}
	if !slices.Equal(c.steps, []string{`at it {"n":1}`}) || !slices.Equal(c.costs, []string{"0.25 paper"}) || !slices.Equal(c.asked, []string{"Go on? a test"}) {
		t.Errorf("steps %q, costs %q, asked %q", c.steps, c.costs, c.asked)
	}
}

func TestCostAndCard(t *testing.T) {
	w := newWorld(t, map[string]string{
		"shop": oneTool("shop", `return { spentCents: 3 };`, "cost: (i: any) => i.n * 2.5, approval: (i: any) => ({ payee: 'Shop ' + i.n, purpose: 'things' }), decides: () => 'buy',"),
		"odd":  oneTool("odd", `return 1;`, "cost: (i: any): any => ({ text: 'much', digits: '5', nothing: undefined, nan: NaN, endless: Infinity, big: 1n, list: [5], circle: globalThis } as any)[i.what],"),
		"void": oneTool("void", `return undefined;`, "approval: (): any => undefined,"),
	})
	w.on("shop", "odd", "void")
	tl, _ := w.apps.Lookup("shop.do")
	c, err := tl.Cost(t.Context(), json.RawMessage(`{"n":3}`))
	if err != nil || c.String() != "7.5" {
		t.Errorf("cost: %s, %v", c, err)
	}
	card, err := tl.Card(t.Context(), json.RawMessage(`{"n":3}`))
	if err != nil || card.Payee != "Shop 3" || card.Purpose != "things" {
		t.Errorf("card: %+v, %v", card, err)
	}
	tl, _ = w.apps.Lookup("odd.do")
	for what, want := range map[string]string{
		"text": `its cost gave "much", and a number of cents is needed`, "digits": `its cost gave "5", and a number`, "nothing": "its cost gave nothing, and a number", "nan": "its cost gave nothing, and a number",
		"endless": "its cost gave nothing, and a number", "big": "BigInt", "list": "its cost gave [5], and a number", "circle": "circular",
	} {
		if c, err := tl.Cost(t.Context(), json.RawMessage(`{"what":"`+what+`"}`)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a cost that is %s: %s, %v", what, c, err)
		}
	}
	tl, _ = w.apps.Lookup("void.do")
	if card, err := tl.Card(t.Context(), json.RawMessage(`{}`)); err != nil || card.Payee != "" || tl.Cost != nil {
		t.Errorf("no card: %+v, %v", card, err)
	}
	if out, err := w.call("void.do", "{}"); err != nil || out != "null" {
		t.Errorf("nothing returned: %s, %v", out, err)
	}
}

// Whatever is thrown becomes a sentence, and the app goes on.
func TestThrown(t *testing.T) {
	w := newWorld(t, map[string]string{"bad": oneTool("bad", `
		switch (input.what) {
			case 'error': throw new Error('a reason');
			case 'null': throw null;
			case 'undefined': throw undefined;
			case 'text': throw 'words';
			case 'object': throw { message: 'in an object' };
			case 'trap': throw new Proxy({}, { get() { throw 1; }, getPrototypeOf() { throw 2; } });
			case 'circle': { const a: any = {}; a.a = a; return a; }
			case 'big': return 1n;
			case 'fn': return () => 1;
			case 'symbol': return Symbol('x');
			case 'json': return { toJSON() { throw new Error('no JSON of me'); } };
			case 'odd': return { toJSON() { return undefined; } };
			case 'huge': return 'x'.repeat(2 ** 29 - 24);
			case 'hugest': return 'x'.repeat(2 ** 30);
			case 'long': return 'x'.repeat(11 << 20);
		}
		return 'well';`)})
	w.on("bad")
	for what, want := range map[string]string{
		"error": "a reason", "null": "it threw null", "undefined": "it threw undefined", "text": `it threw "words"`, "object": "in an object",
		"trap": "can not be shown", "circle": "circular", "big": "BigInt", "fn": "it gave back a function, and what JSON can hold is needed", "symbol": "it gave back a symbol", "json": "no JSON of me",
		"odd": "it gave back nothing that JSON can hold", "huge": "", "hugest": "Invalid string length", "long": "at most 10 are possible",
	} {
		if out, err := w.call("bad.do", `{"what":"`+what+`"}`); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s, %v; want %q", what, out, err, want)
		}
	}
	if out, err := w.call("bad.do", `{}`); err != nil || out != `"well"` {
		t.Errorf("after all that: %s, %v", out, err)
	}
	if _, err := w.call("bad.do", `{"what":"null"}`); err == nil || w.info("bad").Error != "bad: bad.do: it threw null" {
		t.Errorf("what is no error is told of the app: %v, %q", err, w.info("bad").Error)
	}
}

// What the socket doesn't hold at once comes whole all the same, and nothing of another
// answer in the middle of it.
func TestAnswersAtOnce(t *testing.T) {
	w := newWorld(t, map[string]string{"says": oneTool("says", `return input.text.repeat(input.n);`)})
	w.on("says")
	var calls sync.WaitGroup
	for i := range 12 {
		calls.Go(func() {
			text, n := string(rune('a'+i)), 1
			if i%3 != 0 {
				n = 1 << (14 + i/2) // up to half a megabyte
			}
			if i == 5 {
				n = 9 << 20
			}
			out, err := w.call("says.do", fmt.Sprintf(`{"text":%q,"n":%d}`, text, n))
			if err != nil || out != `"`+strings.Repeat(text, n)+`"` {
				t.Errorf("%d times %s: %.20s…, %d bytes, %v", n, text, out, len(out), err)
			}
		})
	}
	calls.Wait()
}

func TestBox(t *testing.T) {
	w := newWorld(t, map[string]string{
		"box1": oneTool("box1", `
			const box = ctx.box, a = input.a;
			const tried = async (f: () => any) => { try { return await f(); } catch (e: any) { return 'error: ' + e.message; } };
			switch (input.do) {
				case 'create': return tried(() => box.createTask({ title: 'T', prompt: 'sleep 5m', worker: 'fake', ...a }));
				case 'task': return [(await tried(() => box.task(a)))?.title ?? null, box.task('tnone') === undefined];
				case 'tasks': return box.tasks().map((t) => t.title);
				case 'undo': return tried(() => box.undo(a));
				case 'approvals': return box.approvals().map((x) => x.id);
				case 'answer': return tried(() => box.answer(a.id, a.approved, a.by));
				case 'note': return tried(() => box.note(a.data, a.task));
				case 'workspace': return tried(() => box.workspace(a.name, a.from));
				case 'seed': return tried(() => box.workspace('seeded', new URL('./seed', import.meta.url) as any));
				case 'store': { const fs = await import('node:fs'); fs.mkdirSync('out', { recursive: true }); fs.writeFileSync('out/made', 'by the app'); return tried(() => box.workspace('stored', 'out')); }
				case 'later': return Promise.all([tried(() => box.linkWorkspace('a', '/b')), tried(() => box.policy()), tried(() => box.setPolicy('', ''))]);
				case 'secret': return tried(() => box.secret(a).length);
			}`) + "\n",
		"box1/seed/a.txt":     "a file",
		"box1/seed/deep/b.ts": "enum Kept { as, it, is }",
	})
	w.put("box1", strings.Replace(mustRead(t, filepath.Join(w.root, "tracks/box1/track.ts")), "name: 'box1', tools", "name: 'box1', secrets: ['BOX_ONE', 'MISSING_ONE'], tools", 1))
	must(t, w.vault.Set("BOX_ONE", "12345678"))
	w.on("box1")
	do := func(what string, a any) string {
		t.Helper()
		in, err := json.Marshal(map[string]any{"do": what, "a": a})
		must(t, err)
		out, err := w.call("box1.do", string(in))
		must(t, err)
		return out
	}
	var made task.Task
	must(t, json.Unmarshal([]byte(do("create", map[string]any{})), &made))
	if made.ID == "" || made.Source != "box1" || made.App != "box1" || made.State != task.Queued {
		t.Errorf("made: %+v", made)
	}
	for field, want := range map[string]string{`{"nope":1}`: "nope", `{"workspace":"gone"}`: "there is no workspace gone", `{"tools":["no.tool"]}`: "no app that is on has a tool named no.tool"} {
		if out := do("create", json.RawMessage(field)); !strings.Contains(out, want) {
			t.Errorf("creating with %s: %s", field, out)
		}
	}
	if out := do("task", made.ID); out != `["T",true]` {
		t.Errorf("task: %s", out)
	}
	if out := do("tasks", nil); out != `["T"]` {
		t.Errorf("tasks: %s", out)
	}
	w.over(made.ID, task.Running)
	a, err := w.tasks.Ask(t.Context(), approval.Approval{ID: made.ID + ".task.k", Task: made.ID, Question: "Well?"})
	must(t, err)
	if out := do("approvals", nil); out != `["`+a.ID+`"]` {
		t.Errorf("approvals: %s", out)
	}
	ids := []string{a.ID}
	for n := range 40 { // more than a page
		q, err := w.tasks.Ask(t.Context(), approval.Approval{ID: fmt.Sprint(made.ID, ".task.long", n), Task: made.ID, Question: strings.Repeat("?", 60_000)})
		must(t, err)
		ids = append(ids, q.ID)
	}
	if want, err := json.Marshal(ids); err != nil || do("approvals", nil) != string(want) {
		t.Errorf("approvals of more than a page: %s, not %s", do("approvals", nil), want)
	}
	for _, by := range []string{"box screen", "owner", "box1x", "", "box1:\u202eenwo", "BOX1"} {
		if out := do("answer", map[string]any{"id": a.ID, "approved": true, "by": by}); !strings.Contains(out, "error: by: ") {
			t.Errorf("answering as %q: %s", by, out)
		}
	}
	if out := do("answer", map[string]any{"id": a.ID, "approved": "yes", "by": "box1"}); !strings.Contains(out, "error: ") {
		t.Errorf("approved that is a word: %s", out)
	}
	if out := do("answer", map[string]any{"id": a.ID, "approved": true, "by": "box1:ada"}); !strings.Contains(out, `"by":"box1:ada"`) || !strings.Contains(out, `"approved"`) {
		t.Errorf("answering as itself: %s", out)
	}
	if out := do("undo", made.ID); out != "null" {
		t.Errorf("undo: %s", out)
	}
	if out := do("undo", "tnone"); !strings.Contains(out, "error: there is no task tnone") {
		t.Errorf("undoing nothing: %s", out)
	}
	do("note", map[string]any{"data": map[string]any{"said": "12345678"}})
	if notes := w.notes("box1"); !slices.Equal(notes, []string{`{"said":"[BOX_ONE]"}`}) {
		t.Errorf("notes: %q", notes)
	}
	if out := do("note", map[string]any{"data": strings.Repeat("x", 70_000)}); !strings.Contains(out, "at most 64 KB") {
		t.Errorf("a long note: %s", out)
	}
	if out := do("note", map[string]any{"data": 1, "task": "tnone"}); !strings.Contains(out, "there is no task tnone") {
		t.Errorf("a note about nothing: %s", out)
	}
	for _, c := range []struct {
		a    map[string]any
		want string
	}{
		{map[string]any{"name": "new.one"}, "null"}, {map[string]any{"name": "new.one"}, "null"}, {map[string]any{"name": ".."}, "error: "}, {map[string]any{"name": "a/b"}, "error: "},
		{map[string]any{"name": "x1", "from": "/etc"}, "no folder of the app's own"},
		{map[string]any{"name": "x2", "from": "/opt/app/tracks/box1/../../core"}, "no folder of the app's own"},
		{map[string]any{"name": "x3", "from": "/work/../etc"}, "no folder of the app's own"},
		{map[string]any{"name": "x4", "from": "nothing"}, "there is no folder nothing"},
	} {
		if out := do("workspace", c.a); !strings.Contains(out, c.want) {
			t.Errorf("workspace %v: %s, want %s", c.a, out, c.want)
		}
	}
	do("seed", nil)
	do("store", nil)
	for path, want := range map[string]string{"seeded/a.txt": "a file", "seeded/deep/b.ts": "enum Kept { as, it, is }", "stored/made": "by the app"} {
		if got, err := os.ReadFile(filepath.Join(w.home, "workspaces", path)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	if exists(filepath.Join(w.home, "workspaces", "x1")) || exists(filepath.Join(w.home, "workspaces", "x4")) {
		t.Error("a refused workspace is there")
	}
	if out := do("later", nil); strings.Count(out, "GurtOS Personal") != 1 || strings.Count(out, "GurtOS Business") != 2 {
		t.Errorf("what other editions have: %s", out)
	}
	for key, want := range map[string]string{"BOX_ONE": "8", "MISSING_ONE": "MISSING_ONE is not set", "NO_SUCH": "it is not among the keys"} {
		if out := do("secret", key); !strings.Contains(out, want) {
			t.Errorf("secret %s: %s", key, out)
		}
	}
	_, err = w.tasks.SetRights(t.Context(), "box1", []byte(`{"key:BOX_ONE":false}`), "test")
	must(t, err)
	if out := do("secret", "BOX_ONE"); !strings.Contains(out, "box1 isn't allowed to use") {
		t.Errorf("a key that was turned off: %s", out)
	}
}

// A task calls the tools that it lists, through its broker.
func TestTaskCalls(t *testing.T) {
	w := newWorld(t, map[string]string{
		"add": oneTool("add", `return { sum: input.a + 1, leak: ctx.secret('ADD_KEY') };`, "secrets: ['ADD_KEY'], input: { type: 'object', properties: { a: { type: 'number' } }, required: ['a'] },"),
		"pay": oneTool("pay", `await ctx.ask('Really?'); return { spentCents: 3 };`, "cost: () => 700, approval: () => ({ payee: 'Bar', purpose: 'a drink' }),"),
	})
	must(t, w.vault.Set("ADD_KEY", "key of the adder"))
	w.on("add", "pay")
	id := w.task("call add.do {\"a\": 41}\ntrycall add.do {\"a\": \"x\"}\ntrycall pay.do {}", "add.do", "pay.do")
	for _, want := range []string{"Spend", "Really?"} {
		w.until(want, func() bool {
			list, err := w.tasks.Approvals(t.Context(), approval.Pending)
			must(t, err)
			if len(list) == 0 || !strings.HasPrefix(list[0].Question, want) {
				return false
			}
			if want == "Spend" && (list[0].Payee != "Bar" || list[0].Purpose != "a drink" || list[0].CostCents.String() != "700") {
				t.Errorf("the card: %+v", list[0])
			}
			_, err = w.tasks.Answer(t.Context(), list[0].ID, true, "box screen", "")
			must(t, err)
			return true
		})
	}
	if end := w.over(id); end.State != task.Done || end.CostCents.String() != "3" {
		t.Errorf("the task: %+v", end)
	}
	if got := w.results(id); !slices.Equal(got, []string{`{"sum":42,"leak":"[ADD_KEY]"}`, `{"spentCents":3}`}) {
		t.Errorf("results: %q", got)
	}
}

func mustRead(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	must(t, err)
	return string(b)
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// A model job runs in its own app, for whoever asks, and what it costs is the task's.
func TestJob(t *testing.T) {
	w := newWorld(t, map[string]string{
		"maker": track("maker", `modelJobs: [{ name: 'ask', secrets: ['JOB_KEY'], async run(input: any, ctx) {
			ctx.cost(1.5, 'a model');
			if (!input.late) ctx.log('thinking');
			return { got: input.q, key: ctx.key, task: ctx.task?.id ?? null, yes: await ctx.ask('Sure?'), secret: ctx.secret('JOB_KEY') };
		} }]`),
		"user": oneTool("user", `return ctx.box.job('ask', { q: 7, late: input.late }, input.task);`),
	})
	must(t, w.vault.Set("JOB_KEY", "secret of the job"))
	w.on("user")
	if out, err := w.call("user.do", "{}"); err == nil || !strings.Contains(err.Error(), "no app that is on has a model job named ask") {
		t.Errorf("a job of an app that is off: %s, %v", out, err)
	}
	w.on("maker")
	out, err := w.call("user.do", "{}")
	if err != nil || !strings.Contains(out, `"got":7`) || !strings.Contains(out, `"task":null`) || !strings.Contains(out, `"yes":false`) || !strings.Contains(out, `"[JOB_KEY]"`) {
		t.Errorf("for no task: %s, %v", out, err)
	}
	made := w.over(w.task("sleep 5m"), task.Running)
	done := make(chan string)
	go func() {
		out, err := w.call("user.do", `{"task":"`+made.ID+`"}`)
		done <- fmt.Sprint(out, err)
	}()
	w.until("the job's question", func() bool {
		list, err := w.tasks.Approvals(t.Context(), approval.Pending)
		must(t, err)
		if len(list) == 0 {
			return false
		}
		if !strings.HasPrefix(list[0].ID, made.ID+".tool.job.") {
			t.Errorf("its id: %s", list[0].ID)
		}
		_, err = w.tasks.Answer(t.Context(), list[0].ID, true, "box screen", "")
		must(t, err)
		return true
	})
	if out := <-done; !strings.Contains(out, `"yes":true`) || !strings.Contains(out, `"task":"`+made.ID+`"`) {
		t.Errorf("for a task: %s", out)
	}
	after, err := w.tasks.Get(t.Context(), made.ID)
	must(t, err)
	if after.CostCents.String() != "1.5" {
		t.Errorf("the task's cost: %s", after.CostCents)
	}
	// For one that has not begun nobody can be asked yet, and that is no answer.
	must(t, w.tasks.Pause(t.Context(), true, "test"))
	waits := w.task("sleep 5m")
	if out, err := w.call("user.do", `{"task":"`+waits+`","late":true}`); err == nil || !strings.Contains(err.Error(), waits+" is queued: it can do nothing before it runs") {
		t.Errorf("for a task that has not begun: %s, %v", out, err)
	}
	must(t, w.tasks.Pause(t.Context(), false, "test"))
	// Once the task has ended nobody is asked any more, and that is a no.
	_, err = w.tasks.Undo(t.Context(), made.ID, "test")
	must(t, err)
	w.over(made.ID, task.Undone)
	again, err := w.call("user.do", `{"task":"`+made.ID+`","late":true}`)
	if err != nil || !strings.Contains(again, `"yes":false`) {
		t.Errorf("for a task that has ended: %s, %v", again, err)
	}
	var first, second struct{ Key string }
	must(t, json.Unmarshal([]byte(out), &first))
	must(t, json.Unmarshal([]byte(again), &second))
	if first.Key == second.Key || !strings.HasPrefix(first.Key, "job.") || !strings.HasPrefix(second.Key, "job.") {
		t.Errorf("each run has a key of its own: %q, %q", first.Key, second.Key)
	}
}

func TestRoutes(t *testing.T) {
	w := newWorld(t, map[string]string{"web": track("web", `secrets: ['WEB_KEY'], openRoutes: ['GET /open'], ownOrigin: ['GET /own'], routes: {
		'GET /': () => new Response('home'),
		'GET /open': () => new Response('open'),
		'GET /own': () => new Response('own'),
		'POST /echo': async (req) => Response.json({ body: await req.text(), who: req.headers.get('x-box-caller'), url: req.url, method: req.method, type: req.headers.get('content-type') }),
		'GET /query': (req) => Response.json(Object.fromEntries(new URL(req.url).searchParams)),
		'GET /throw': () => { throw new Error('no luck'); },
		'GET /null': () => { throw null; },
		'GET /none': (): any => undefined,
		'GET /text': (): any => 'just text',
		'GET /error': () => Response.error(),
		'GET /empty': () => new Response(null, { status: 204 }),
		'GET /teapot': () => new Response('tea', { status: 418, headers: [['set-cookie', 'a=1'], ['set-cookie', 'b=2'], ['x-one', 'two'], ['connection', 'close'], ['content-length', '999']] }),
		'GET /long': () => new Response('0123456789'.repeat(300_000)),
		'GET /slowly': () => new Response(new ReadableStream({ async start(c) { for (const x of ['a', 'b', 'c']) { c.enqueue(new TextEncoder().encode(x)); await new Promise((r) => setTimeout(r, 5)); } c.close(); } })),
		'GET /broken': () => new Response(new ReadableStream({ async start(c) { c.enqueue(new TextEncoder().encode('begun')); await new Promise((r) => setTimeout(r, 5)); c.error(new Error('broke')); } })),
		'GET /odd': () => new Response(new ReadableStream({ start(c) { c.enqueue('no bytes'); c.close(); } })),
		'PUT /size': async (req) => Response.json((await req.arrayBuffer()).byteLength),
		'DELETE /x': () => new Response('gone'),
		'GET /a%20b': () => new Response('spaced'),
	}`)})
	w.on("web")
	ask := func(method, path, body string, set ...func(*http.Request)) *httptest.ResponseRecorder {
		t.Helper()
		req := httptest.NewRequest(method, "/t/web"+path, strings.NewReader(body))
		for _, s := range set {
			s(req)
		}
		clean, _, _ := strings.Cut(path, "?")
		route, ok := w.apps.Route("web", method, clean)
		rec := httptest.NewRecorder()
		if !ok {
			rec.Code = 0
			return rec
		}
		func() {
			defer func() {
				if p := recover(); p != nil && p != http.ErrAbortHandler {
					panic(p)
				} else if p != nil {
					rec.Body.WriteString("[cut off]")
				}
			}()
			w.apps.Serve(rec, req, "web", route)
		}()
		return rec
	}
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/", "", 200, "home"},
		{"POST", "/", "", 0, ""}, {"GET", "/nope", "", 0, ""}, {"GET", "/open/", "", 0, ""},
		{"POST", "/echo", `{"a":1}`, 200, `"body":"{\"a\":1}"`},
		{"POST", "/echo", ``, 200, `"body":""`},
		{"GET", "/query?a=1&access_token=wsecret&b=2", "", 200, `{"a":"1","b":"2"}`},
		{"GET", "/throw", "", 500, `{"error":"no luck"}`},
		{"GET", "/null", "", 500, `{"error":"it threw null"}`},
		{"GET", "/none", "", 500, "a Response is needed"}, {"GET", "/text", "", 500, "a Response is needed"}, {"GET", "/error", "", 500, "no status"},
		{"GET", "/empty", "", 204, ""},
		{"GET", "/teapot", "", 418, "tea"},
		{"GET", "/long", "", 200, strings.Repeat("0123456789", 300_000)},
		{"GET", "/slowly", "", 200, "abc"},
		{"GET", "/broken", "", 200, "begun[cut off]"},
		{"GET", "/odd", "", 500, "no Uint8Array"},
		{"PUT", "/size", strings.Repeat("x", 10<<20), 200, "10485760"},
		{"PUT", "/size", strings.Repeat("x", 10<<20+1), 413, "at most 10 MB"},
		{"DELETE", "/x", "", 200, "gone"},
	} {
		rec := ask(c.method, c.path, c.body)
		if rec.Code != c.status || !strings.Contains(rec.Body.String(), c.want) {
			t.Errorf("%s %s: %d %.200s", c.method, c.path, rec.Code, rec.Body)
		}
	}
	rec := ask("GET", "/teapot", "")
	if h := rec.Result().Header; len(h["Set-Cookie"]) != 2 || h.Get("X-One") != "two" || h.Get("Connection") != "" || h.Get("Content-Length") == "999" {
		t.Errorf("headers: %v", h)
	}
	stranger := func(r *http.Request) { r.Header.Set("X-Box-Caller", "none") }
	if rec := ask("PUT", "/size", strings.Repeat("x", 1<<20+1), stranger); rec.Code != 413 {
		t.Errorf("a stranger's large body: %d", rec.Code)
	}
	chunked := func(r *http.Request) { r.ContentLength = -1 }
	if rec := ask("PUT", "/size", strings.Repeat("x", 10<<20+1), chunked); rec.Code != 413 {
		t.Errorf("a large body of unknown length: %d", rec.Code)
	}
	if rec := ask("POST", "/echo", "é", func(r *http.Request) { r.Header.Set("X-Box-Caller", "device:d1") }); !strings.Contains(rec.Body.String(), `"who":"device:d1"`) || !strings.Contains(rec.Body.String(), `"body":"é"`) {
		t.Errorf("caller and text: %s", rec.Body)
	}
	for path, want := range map[string]app.Route{"/open": {Key: "GET /open", Open: true}, "/own": {Key: "GET /own", OwnOrigin: true}, "/": {Key: "GET /"}} {
		if got, ok := w.apps.Route("web", "GET", path); !ok || got != want {
			t.Errorf("the route %s: %+v", path, got)
		}
	}
	must(t, w.apps.Switch(t.Context(), "web", false, "test"))
	if rec := ask("GET", "/", ""); rec.Code != 0 {
		t.Errorf("a route of an app that is off: %d", rec.Code)
	}
}

// Who reads a stream may go away, and one who calls a route too: the app hears of it.
func TestCallerGone(t *testing.T) {
	w := newWorld(t, map[string]string{"web": track("web", `routes: {
		'GET /wait': async (req, box) => { await new Promise((r) => req.signal.addEventListener('abort', r)); box.note('aborted'); return new Response(''); },
		'GET /stream': (_req, box) => new Response(new ReadableStream({ start(c) { c.enqueue(new Uint8Array(1)); }, cancel() { box.note('cancelled'); } })),
	}`)})
	w.on("web")
	for path, note := range map[string]string{"/wait": `"aborted"`, "/stream": `"cancelled"`} {
		ctx, cancel := context.WithCancel(t.Context())
		route, _ := w.apps.Route("web", "GET", path)
		ended := make(chan struct{})
		var begun atomic.Bool
		rec := &flushed{ResponseRecorder: httptest.NewRecorder(), on: func() { begun.Store(true) }}
		go func() {
			defer close(ended)
			defer func() { recover() }() //nolint:errcheck // a stream that is cut off
			w.apps.Serve(rec, httptest.NewRequest("GET", "/t/web"+path, nil).WithContext(ctx), "web", route)
		}()
		if path == "/stream" {
			w.until("the stream", begun.Load)
		} else {
			w.until("the call", func() bool { return w.apps.Calls("web") == 1 })
		}
		cancel()
		<-ended
		w.until(path, func() bool { return slices.Contains(w.notes("web"), note) })
	}
}

type flushed struct {
	*httptest.ResponseRecorder
	on func()
}

func (f *flushed) Flush() { f.on() }

func TestWebhooks(t *testing.T) {
	w := newWorld(t, map[string]string{"hooked": track("hooked", `secrets: ['HOOK_KEY'], triggers: [
		{ name: 'one', start: (box) => box.onWebhook('in', (body: any, headers) => ({ body, from: headers['x-from'] ?? null, leak: box.secret('HOOK_KEY') })) },
		{ name: 'two', start: (box) => {
			const stop = box.onWebhook('void', () => {});
			box.onWebhook('throws', () => { throw new Error('no'); });
			for (const bad of ['a b', '', 'in', 'x/y']) { try { box.onWebhook(bad, () => {}); box.note('took ' + bad); } catch (e: any) { box.note(e.message); } }
			const gone = box.onWebhook('gone', () => {}); gone();
			return stop;
		} },
	]`)})
	must(t, w.vault.Set("HOOK_KEY", "hook secret"))
	w.on("hooked")
	hook := func(name, body string) string {
		out, err := w.apps.Hook(t.Context(), "hooked", name, map[string]string{"x-from": "test"}, json.RawMessage(body))
		return fmt.Sprint(string(out), err)
	}
	for name, want := range map[string]string{
		"in": `{"body":{"a":[1]},"from":"test","leak":"[HOOK_KEY]"}<nil>`, "void": `{}<nil>`, "throws": "no", "gone": "hooked has no webhook gone", "never": "hooked has no webhook never",
	} {
		if got := hook(name, `{"a":[1]}`); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if notes := w.notes("hooked"); len(notes) != 4 || strings.Contains(fmt.Sprint(notes), "took") {
		t.Errorf("names that can't be: %q", notes)
	}
	must(t, w.apps.Switch(t.Context(), "hooked", false, "test"))
	if got := hook("in", `{}`); !strings.Contains(got, "there is no app hooked that is on") {
		t.Errorf("when it is off: %s", got)
	}
}

// What apps have to add to a task is asked for once, before it starts, and comes with
// the task.
func TestContextOfTask(t *testing.T) {
	w := newWorld(t, map[string]string{"knows": track("knows", `taskContext: (spec, box) => { box.note(spec.title); return 'I know about ' + spec.title; }`)})
	w.on("knows")
	w.until("it runs", func() bool { return w.apps.Running("knows") }) // so that it is in time
	id := w.task("run test \"$(curl -s --unix-socket $BOX_SOCKET http://box/task | jq -r .context)\" = 'I know about T'")
	if end := w.over(id); end.State != task.Done {
		t.Errorf("%+v", end)
	}
	if notes := w.notes("knows"); !slices.Equal(notes, []string{`"T"`}) {
		t.Errorf("asked: %q", notes)
	}
}

package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"gurtos/core/app"
	"gurtos/core/tool"
)

// What takes too long is told so by its signal, then ended, and said in the app's error.
func TestTimeLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for time limits and what is slow")
	}
	quick := func(o *app.Options) { o.RunTime, o.RouteTime = 2*time.Second, 2*time.Second }
	w := newWorld(t, map[string]string{
		"slow": track("slow", `tools: [
			{ name: 'slow.ever', description: 'd', run: () => new Promise(() => {}) },
			{ name: 'slow.pays', description: 'd', cost: () => 1, run: () => new Promise(() => {}) },
			{ name: 'slow.heeds', description: 'd', run: (_i, ctx) => new Promise((_r, no) => ctx.signal.addEventListener('abort', () => { ctx.box.note(String(ctx.signal.reason.message)); no(ctx.signal.reason); })) },
			{ name: 'slow.saves', description: 'd', run: (_i, ctx) => new Promise((yes) => ctx.signal.addEventListener('abort', () => yes('in time'))) },
			{ name: 'slow.asks', description: 'd', run: async (_i, ctx) => (await ctx.ask('Well?')) ? 'yes' : 'no' },
		], routes: { 'GET /': () => new Promise<Response>(() => {}) },
		modelJobs: [{ name: 'job', run: () => new Promise(() => {}) }],
		triggers: [{ name: 't', start: (box) => box.onWebhook('hook', () => new Promise(() => {})) }]`),
		"user": oneTool("user", `return ctx.box.job('job', {});`),
	}, quick)
	w.on("slow", "user")
	late := "slow.ever took longer than 2 seconds"
	if out, err := w.call("slow.ever", "{}"); err == nil || !strings.Contains(err.Error(), late) || errors.Is(err, tool.ErrCutOff) {
		t.Errorf("ever: %s, %v", out, err)
	}
	if e := w.info("slow").Error; e != "slow: "+late+" and was ended" {
		t.Errorf("its error: %s", e)
	}
	if !slices.ContainsFunc(w.notes("box"), func(n string) bool { return strings.Contains(n, late) }) {
		t.Errorf("the log: %q", w.notes("box"))
	}
	if out, err := w.call("slow.pays", "{}"); !errors.Is(err, tool.ErrCutOff) {
		t.Errorf("pays: %s, %v", out, err)
	}
	if out, err := w.call("slow.heeds", "{}"); err == nil || !slices.Equal(w.notes("slow"), []string{`"slow.heeds took longer than 2 seconds"`}) {
		t.Errorf("heeds: %s, %v, %q", out, err, w.notes("slow"))
	}
	if out, err := w.call("slow.saves", "{}"); err != nil || out != `"in time"` {
		t.Errorf("saves: %s, %v", out, err)
	}
	asked := &call{say: func(ctx context.Context, _ string) (bool, error) {
		select {
		case <-time.After(4 * time.Second): // longer than the tool has
			return true, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}}
	if out, err := w.call("slow.asks", "{}", asked); err != nil || out != `"yes"` {
		t.Errorf("asks: %s, %v", out, err)
	}
	if out, err := w.call("user.do", "{}"); err == nil || !strings.Contains(err.Error(), "the model job job took longer") && !strings.Contains(err.Error(), "user.do took longer") {
		t.Errorf("a job: %s, %v", out, err)
	}
	route, _ := w.apps.Route("slow", "GET", "/")
	rec := httptest.NewRecorder()
	w.apps.Serve(rec, httptest.NewRequest("GET", "/t/slow/", nil), "slow", route)
	if rec.Code != 500 || !strings.Contains(rec.Body.String(), "the route GET / took longer than 2 seconds") {
		t.Errorf("a route: %d %s", rec.Code, rec.Body)
	}
	if _, err := w.apps.Hook(t.Context(), "slow", "hook", nil, json.RawMessage("{}")); err == nil || !strings.Contains(err.Error(), "the webhook hook took longer") {
		t.Errorf("a webhook: %v", err)
	}
	if n := w.apps.Calls("slow"); n != 0 {
		t.Errorf("%d calls are not over", n)
	}
}

// An app that computes without an end where it is loaded is ended long before one that
// waits there would be.
func TestLoopsAtLoad(t *testing.T) {
	w := newWorld(t, map[string]string{
		"loops": "for (;;);\nexport default { name: 'loops' };",
		"later": "import fs from 'node:fs';\nif (fs.existsSync('/work/mark')) for (;;);\n" + oneTool("later", "fs.writeFileSync('/work/mark', ''); process.exit(0);"),
		"well":  "const end = process.cpuUsage().user + 200_000;\nwhile (process.cpuUsage().user < end);\n" + oneTool("well", "return 1;"),
	}, func(o *app.Options) { o.LoadTime = 3 * time.Second })
	const why = "it can't be loaded: track.ts, or what it imports, computes outside of its functions and came to no end within 3 seconds"
	if got := w.info("loops").Error; got != "loops: "+why {
		t.Fatalf("as it is read: %q", got) // the rest would take its time, too
	}
	w.on("later", "well")
	if out, err := w.call("later.do", "{}"); err == nil {
		t.Errorf("it gave %s", out)
	}
	w.until("its error", func() bool { return w.info("later").Error == "later: "+why })
	if out, err := w.call("well.do", "{}"); err != nil || out != "1" {
		t.Errorf("one that computes for a moment: %s, %v", out, err)
	}
}

// An app has its own packages and what those need, and no others.
func TestPackages(t *testing.T) {
	w := newWorld(t, map[string]string{
		"packed": "import near, { far } from 'near';\nimport common from 'common';\n" + oneTool("packed", `
			let other = ''; const name = 'stranger';
			try { await import(name); } catch (e: any) { other = e.message; }
			return [near, far, common.three, other];`),
		"packed/package.json":                   `{"name":"packed","dependencies":{"near":"1.0.0","common":"1.0.0"}}`,
		"packed/node_modules/near/package.json": `{"name":"near","version":"1.0.0","type":"module","exports":"./main.js","dependencies":{"far":"1.0.0"}}`,
		"packed/node_modules/near/main.js":      `export default 1; export { default as far } from 'far';`,
		"lacks":                                 oneTool("lacks", ""),
		"lacks/package.json":                    `{"dependencies":{"absent":"1.0.0"}}`,
	})
	for name, text := range map[string]string{
		"far/package.json": `{"name":"far","version":"1.0.0","type":"module","main":"x.js"}`, "far/x.js": "export default 2;",
		"common/package.json": `{"name":"common","version":"1.0.0"}`, "common/index.js": "exports.three = require('./lib/three.js');", "common/lib/three.js": "module.exports = 3;",
		"stranger/package.json": `{"name":"stranger","version":"1.0.0"}`, "stranger/index.js": "",
	} {
		put(t, w.root+"/node_modules/"+name, text)
	}
	w.on("packed")
	out, err := w.call("packed.do", "{}")
	if err != nil || !strings.HasPrefix(out, `[1,2,3,"track.ts imports stranger: the package is not among the app's own`) {
		t.Errorf("%s, %v", out, err)
	}
	if e := w.info("lacks").Error; !strings.Contains(e, "the package absent, which package.json names, is not installed") {
		t.Errorf("a package that is not there: %s", e)
	}
}

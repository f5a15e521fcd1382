package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gurtos/core/app/declare"
	"gurtos/core/task"
)

// What the box notes of apps; the value of "what" in a note of track box.
const (
	NoteError   = "app error"   // {app, error}
	NoteBlocked = "app blocked" // {app, host, count}
	NoteReached = "app reached" // {app, host}
	NoteLimited = "app limited" // {app, limit}
)

// Registry is every app of the box. Close it before the sandboxes' Host and the log.
//
// Lock order: app.turning, then mu, then those of a host.
type Registry struct {
	opt     Options
	stamp   string            // of what every tree is made with
	sdk     map[string][]byte // by file name
	hostDir string            // the host's own files, as processes see them
	methods map[string]boxMethod
	room    room // for bodies of requests

	stripping sync.Mutex
	stripped  map[string][]byte // the SDK without its types; guarded by stripping

	ctx  context.Context // ends with the registry
	end  context.CancelFunc
	work sync.WaitGroup

	mu      sync.Mutex
	apps    map[string]*app // by name
	order   []string        // names of apps
	running bool            // Start was called
	closed  bool
	last    int64 // number of the latest call
}

// openTime is how long Open waits for apps that are read for the first time. Those that
// take longer are there once they are read.
// The very first time no task needs them yet.
const (
	openTime  = 10 * time.Second
	firstTime = 4 * time.Second
)

// readers is how many apps are read at once.
const readers = 4

func open(ctx context.Context, o Options) (*Registry, error) {
	if o.Slog == nil {
		o.Slog = slog.Default()
	}
	if o.RunTime == 0 {
		o.RunTime = DefaultRunTime
	}
	if o.RouteTime == 0 {
		o.RouteTime = DefaultRouteTime
	}
	if o.LoadTime == 0 {
		o.LoadTime = DefaultLoadTime
	}
	r := &Registry{opt: o, apps: map[string]*app{}, stripped: map[string][]byte{}, methods: boxMethods()}
	r.ctx, r.end = context.WithCancel(context.Background())
	names, err := r.folders()
	if err != nil {
		r.end()
		return nil, err
	}
	on, first, err := r.switches(ctx, names)
	if err != nil {
		r.end()
		return nil, err
	}
	broken := r.prepare()
	for _, name := range names {
		a := newApp(r, name)
		a.wanted = on[name]
		if err := declare.CheckName(name); err != nil {
			a.failed(err)
		} else if broken != nil {
			a.err = name + ": " + broken.Error()
		} else {
			a.reading = make(chan struct{})
		}
		r.apps[name], r.order = a, append(r.order, name)
	}
	patience := openTime
	if first {
		patience = firstTime
	}
	r.readAll(ctx, cmp.Or(o.OpenTime, patience))
	return r, nil
}

// folders are the names of the folders that hold apps.
func (r *Registry) folders() ([]string, error) {
	list, err := os.ReadDir(r.opt.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the folder of apps: %w", err)
	}
	var names []string
	for _, d := range list {
		name := d.Name()
		info, err := os.Stat(filepath.Join(r.opt.Dir, name))
		if err != nil || !info.IsDir() || strings.HasPrefix(name, ".") || name == "node_modules" || slices.Contains(r.opt.Skip, name) {
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// switches says which apps the owner has on. What was never seen before is on, but at
// the very first start only the model app is; either is written down.
func (r *Registry) switches(ctx context.Context, names []string) (on map[string]bool, first bool, err error) {
	if on, err = r.opt.Tasks.Apps(ctx); err != nil {
		return nil, false, err
	}
	first = len(on) == 0
	for _, name := range names {
		if _, known := on[name]; known || declare.CheckName(name) != nil {
			continue
		}
		on[name] = !first || name == ModelApp
		if err := r.opt.Tasks.Note(ctx, task.NoteApp, map[string]any{"app": name, "on": on[name], "by": "box"}, ""); err != nil {
			// A log that takes nothing is told by health; the box still shows its apps.
			r.opt.Slog.Error("an app's switch was not noted", "app", name, "why", err)
		}
	}
	return on, first, nil
}

// readAll reads the apps in the order of their names, and puts those in use that are
// on. One that takes long, or never comes to an end, holds up no other for longer than
// patience.
func (r *Registry) readAll(ctx context.Context, patience time.Duration) {
	var all []*app
	r.mu.Lock()
	for _, name := range r.order {
		if a := r.apps[name]; a.reading != nil {
			all = append(all, a)
		}
	}
	r.mu.Unlock()
	known := make(chan struct{})
	late, cancel := context.WithTimeout(r.ctx, patience)
	r.work.Go(func() {
		defer close(known)
		defer cancel()
		slots := make(chan struct{}, readers)
		var reading sync.WaitGroup
		for i, a := range all {
			slots <- struct{}{}
			reading.Go(func() { r.readFirst(a, all[:i], slots, late.Done()) })
		}
		reading.Wait()
	})
	select {
	case <-known:
	case <-late.Done():
	case <-ctx.Done():
	}
}

// readFirst reads an app, which has one of the slots, and puts it in use when it is on.
// The name of a model job is that of the first app that has it: one with model jobs
// waits for those before it, until late.
func (r *Registry) readFirst(a *app, before []*app, slots chan struct{}, late <-chan struct{}) {
	defer close(a.reading)
	b, err := r.read(r.ctx, a.name)
	<-slots
	if err == nil {
		r.forget(a.name, b.hash)
		for i := 0; i < len(before) && len(b.made.Jobs) > 0; i++ {
			select {
			case <-before[i].reading:
			case <-late:
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		if r.ctx.Err() == nil {
			a.failed(err)
		}
		return
	}
	a.build = b
	if r.closed || !a.wanted {
		return
	}
	if err := r.clash(a.name, b.made); err != nil {
		a.failed(err)
		return
	}
	a.use(b)
}

// clash says which other app has a tool or job of a name that m declares; r.mu is held.
func (r *Registry) clash(name string, m *declare.App) error {
	for _, other := range r.order {
		o := r.apps[other]
		if other == name || !o.up {
			continue
		}
		for _, t := range m.Tools {
			if o.build.made.Tool(t.Name) != nil {
				return fmt.Errorf("%s and %s both have a tool named %s: only one of them can be on", name, other, t.Name)
			}
		}
		for _, j := range m.Jobs {
			for _, k := range o.build.made.Jobs {
				if j.Name == k.Name {
					return fmt.Errorf("%s and %s both have a model job named %s: only one of them can be on", name, other, j.Name)
				}
			}
		}
	}
	return nil
}

// Start starts the apps that have triggers, log readers or something to add to tasks;
// the API answers by then.
func (r *Registry) Start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = true
	for _, a := range r.apps {
		a.wake()
	}
}

// Close ends every app and waits for them.
func (r *Registry) Close() error {
	r.mu.Lock()
	r.closed = true
	var hosts []*host
	for _, a := range r.apps {
		if a.up {
			a.end(errBoxEnds)
		}
		hosts = append(hosts, a.hosts()...)
	}
	r.mu.Unlock()
	r.end()
	for _, h := range hosts {
		r.work.Go(h.stop)
	}
	r.work.Wait()
	if r.hostDir == "" {
		return nil
	}
	return os.RemoveAll(r.hostDir)
}

var errBoxEnds = errors.New("the box is ending")

// info is what may be shown of an app; r.mu is held.
func (r *Registry) info(a *app) Info {
	i := Info{Name: a.name, Title: a.name, On: a.up, Error: a.err, RestartNeeded: a.lingers != nil}
	if a.reading != nil {
		select {
		case <-a.reading:
		default:
			i.Reading = true
		}
	}
	if a.build == nil {
		return i
	}
	m := a.build.made
	i.Title, i.Description, i.Test = m.Title(), m.Description, m.Test()
	for _, t := range m.Tools {
		i.Tools = append(i.Tools, t.Name)
		i.Spends = i.Spends || t.Cost
	}
	for _, key := range m.AllSecrets() {
		_, set := r.opt.Vault.Get(key)
		i.Secrets = append(i.Secrets, Secret{key, set, slices.Contains(m.Optional, key)})
	}
	i.Apps, i.Hosts, i.OpenRoutes = slices.Clone(m.Pages), m.DeclaredHosts(), slices.Clone(m.Open)
	i.Reached = a.reachedHosts()
	return i
}

// turn is Switch.
func (r *Registry) turn(ctx context.Context, name string, on bool, by string) error {
	r.mu.Lock()
	a := r.apps[name]
	r.mu.Unlock()
	if a == nil && on {
		a = r.discover(name)
	}
	if a == nil {
		return &Refusal{http.StatusNotFound, fmt.Sprintf("there is no app %s", declare.Clip(name))}
	}
	if a.reading != nil {
		select {
		case <-a.reading:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	a.turning.Lock()
	defer a.turning.Unlock()
	if on {
		return r.turnOn(ctx, a, by)
	}
	return r.turnOff(ctx, a, by)
}

// discover takes in an app whose folder was made since the box started.
func (r *Registry) discover(name string) *app {
	if declare.CheckName(name) != nil || slices.Contains(r.opt.Skip, name) || r.hostDir == "" {
		return nil
	}
	if info, err := os.Stat(filepath.Join(r.opt.Dir, name)); err != nil || !info.IsDir() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.apps[name]; a != nil {
		return a
	}
	a := newApp(r, name)
	r.apps[name] = a
	r.order = append(r.order, name)
	slices.Sort(r.order)
	return a
}

// turnOn reads an app and puts it in use. What was in use stays so when that fails.
func (r *Registry) turnOn(ctx context.Context, a *app, by string) error {
	b, err := r.read(ctx, a.name)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return r.unfit(a, err)
	}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return errBoxEnds
	}
	same := a.up && a.build.hash == b.hash
	err = r.clash(a.name, b.made)
	r.mu.Unlock()
	if err != nil {
		return r.unfit(a, err)
	}
	if same {
		r.mu.Lock()
		a.err = ""
		r.mu.Unlock()
		return nil
	}
	if !a.wanted {
		if err := r.opt.Tasks.Note(ctx, task.NoteApp, map[string]any{"app": a.name, "on": true, "by": by}, ""); err != nil {
			return err
		}
	}
	if err := a.retire(errors.New(a.name+" was read anew"), true); err != nil {
		return err
	}
	r.mu.Lock()
	a.wanted, a.build, a.err = true, b, ""
	a.use(b)
	r.mu.Unlock()
	r.forget(a.name, b.hash)
	return nil
}

// unfit is the refusal of an app that can't be turned on. One that is on stays so.
func (r *Registry) unfit(a *app, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	a.failed(err)
	return &Refusal{http.StatusConflict, a.err}
}

func (r *Registry) turnOff(ctx context.Context, a *app, by string) error {
	if a.wanted {
		if err := r.opt.Tasks.Note(ctx, task.NoteApp, map[string]any{"app": a.name, "on": false, "by": by}, ""); err != nil {
			return err
		}
	}
	r.mu.Lock()
	a.wanted = false
	r.mu.Unlock()
	if err := a.retire(errors.New(a.name+" was turned off"), false); err != nil {
		return err
	}
	if r.opt.Watcher != nil {
		return r.opt.Watcher.Off(ctx, a.name)
	}
	return nil
}

// on finds an app that is on.
func (r *Registry) on(name string) *app {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.apps[name]; a != nil && a.up {
		return a
	}
	return nil
}

func (r *Registry) output(name string) string {
	r.mu.Lock()
	a := r.apps[name]
	r.mu.Unlock()
	if a == nil {
		return ""
	}
	return r.opt.Vault.Redact(a.printed.String())
}

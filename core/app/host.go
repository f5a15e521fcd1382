package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"gurtos/core/app/declare"
	"gurtos/netpolicy"
	"gurtos/sandbox"
)

// host is a running process of an app, and what the box keeps for it.
type host struct {
	r    *Registry
	a    *app
	made *declare.App
	p    *process
	set  chan struct{} // closed once p is set
	born time.Time

	ctx  context.Context // ends with the process, or before, when it is told to end
	end  context.CancelFunc
	work sync.WaitGroup // what goes on beside its calls; added to by alongside

	requests  chan struct{} // one for each that waits for its Response
	triggered chan struct{} // closed once its triggers were started
	buried    chan struct{} // closed once it ended and what came of that was noted

	space Space // its network; nil for none

	mu       sync.Mutex
	calls    map[int64]*call
	hooks    map[string]bool
	watches  map[int64]func()
	stops    map[string]bool // triggers that were started, and whether they can be stopped
	silence  context.CancelFunc
	told     bool   // it was told to end
	quiet    bool   // its app is off: only what a trigger does goes on
	closed   bool   // nothing may begin beside its calls any more
	uncaught string // what nothing caught
}

// launch starts an app's process and has it load the app; its triggers start meanwhile,
// until ctx ends.
func (r *Registry) launch(ctx context.Context, a *app, b *build) (*host, error) {
	h := &host{
		r: r, a: a, made: b.made, set: make(chan struct{}), born: time.Now(), requests: make(chan struct{}, maxRoutes), triggered: make(chan struct{}), buried: make(chan struct{}),
		calls: map[int64]*call{}, hooks: map[string]bool{}, watches: map[int64]func(){}, stops: map[string]bool{},
	}
	h.ctx, h.end = context.WithCancel(context.Background())
	j := job{
		id: sandboxName(a.name), script: "host.mjs", app: a.name, trees: b.trees(), output: a.printed, serve: h.serve,
		store: filepath.Join(r.dir(), a.name, "store"), home: filepath.Join(r.dir(), a.name, "home"),
	}
	r.mu.Lock()
	j.more = int64(a.full) * tidyDisk
	r.mu.Unlock()
	if r.opt.Zone != nil {
		j.env = append(j.env, "TZ="+r.opt.Zone())
	}
	for _, layer := range []string{j.store, j.home} {
		if err := r.layer(layer); err != nil {
			h.end()
			return nil, fmt.Errorf("its store: %w", err)
		}
	}
	if r.opt.Network != nil {
		rights, err := r.opt.Tasks.Rights(ctx, a.name)
		if err != nil {
			h.end()
			return nil, err
		}
		j.env = append(j.env, netpolicy.Env()...)
		j.network = func(ns sandbox.Namespace) (err error) {
			h.space, err = r.opt.Network.Attach(ns, netpolicy.Policy{
				Hosts: b.made.DeclaredHosts(), AnyPublic: !rights.DeclaredHostsOnly, Names: filepath.Join(r.dir(), a.name, "names"),
				Reached: a.reach, Blocked: a.blocked, Limited: a.limited,
			})
			return err
		}
	}
	p, err := r.start(ctx, j)
	if err != nil {
		h.end()
		h.closeNetwork()
		return nil, err
	}
	h.p = p
	close(h.set)
	if err := h.load(ctx); err != nil {
		h.stop()
		h.wait()
		return nil, err
	}
	h.alongside(func() { h.startTriggers(ctx) })
	h.alongside(h.watchOver)
	return h, nil
}

// layer makes a folder that the app may write in, or mends the one that is there.
func (r *Registry) layer(dir string) error {
	if err := r.opt.Layers.Recover(dir); err != nil {
		return err
	}
	if exists(dir) {
		return nil
	}
	return r.opt.Layers.Create(dir)
}

// load has the process load the app.
func (h *host) load(ctx context.Context) error {
	err := h.p.load(ctx, h.a.name, h.r.opt.LoadTime, nil)
	var said *thrown
	switch {
	case errors.Is(err, errGone):
		h.wait()
		return errors.New(h.why())
	case errors.As(err, &said):
		return fmt.Errorf("it can't be loaded: %s", declare.OneSentence(said.message))
	case err != nil:
		return err
	}
	return nil
}

// startTriggers starts the app's triggers, one after the other.
func (h *host) startTriggers(ctx context.Context) {
	defer close(h.triggered)
	for _, name := range h.made.Triggers {
		var out struct {
			Stops bool `json:"stops"`
		}
		c := &call{what: "starting the trigger " + name, limit: triggerTime}
		if err := h.run(ctx, c, "trigger.start", map[string]any{"name": name}, &out); err != nil {
			if ctx.Err() != nil || h.over() {
				return
			}
			h.a.trouble("the trigger %s could not start: %v", name, err)
			continue
		}
		h.mu.Lock()
		h.stops[name] = out.Stops
		h.mu.Unlock()
	}
}

// wait waits for the process's end, and then lets go of all that was kept for it.
func (h *host) wait() {
	<-h.p.done
	h.end()
	h.mu.Lock()
	h.closed = true
	watches := h.watches
	h.watches = map[int64]func(){}
	h.mu.Unlock()
	for _, stop := range watches {
		stop()
	}
	h.work.Wait()
	h.closeNetwork()
}

func (h *host) closeNetwork() {
	h.mu.Lock()
	space := h.space
	h.space = nil
	h.mu.Unlock()
	if space == nil {
		return
	}
	if err := space.Close(); err != nil {
		h.r.opt.Slog.Error("an app's network was not closed cleanly", "app", h.a.name, "why", err)
	}
}

// alongside runs fn beside the calls, unless the process is gone.
func (h *host) alongside(fn func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.work.Go(fn)
	}
}

// over says whether the process is gone or going.
func (h *host) over() bool {
	select {
	case <-h.p.done:
		return true
	case <-h.ctx.Done():
		return true
	default:
		return false
	}
}

// stopped says whether it was told to end.
func (h *host) stopped() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.told
}

// stop ends the process.
func (h *host) stop() {
	h.mu.Lock()
	h.told = true
	h.mu.Unlock()
	h.end()
	h.p.stop()
}

// fail ends the process for what it did.
func (h *host) fail(what string) {
	h.p.blame(what)
	h.p.kill()
}

// why says how it ended.
func (h *host) why() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.uncaught != "" {
		return notCaught(h.uncaught).Error()
	}
	return h.p.why()
}

// stopTriggers stops what can be stopped, and says whether something can't.
func (h *host) stopTriggers() (stays bool) {
	select {
	case <-h.triggered:
	case <-h.ctx.Done():
		return false
	}
	for _, name := range h.made.Triggers {
		h.mu.Lock()
		stops, started := h.stops[name]
		h.mu.Unlock()
		switch {
		case !started:
		case !stops:
			stays = true
		default:
			c := &call{what: "stopping the trigger " + name, limit: stopTime}
			if err := h.run(context.Background(), c, "trigger.stop", map[string]any{"name": name}, nil); err != nil && !h.over() {
				h.a.trouble("the trigger %s could not be stopped: %v", name, err)
			}
		}
	}
	return stays && !h.over()
}

// hush leaves the process to the trigger that can't be stopped.
func (h *host) hush() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.quiet = true
	clear(h.hooks)
}

// serve answers what the process asks.
func (h *host) serve(ctx context.Context, method string, params json.RawMessage) (any, error) {
	<-h.set
	do, ok := h.r.methods[method]
	if !ok {
		return nil, fmt.Errorf("the box has no %s", declare.Clip(method))
	}
	out, err := do(ctx, h, params)
	if err != nil {
		return nil, errors.New(h.r.opt.Vault.Redact(err.Error()))
	}
	return out, nil
}

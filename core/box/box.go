package box

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"

	"gurtos/core/actionlog"
	"gurtos/core/api"
	"gurtos/core/broker"
	"gurtos/core/config"
	"gurtos/core/device"
	"gurtos/core/durable"
	"gurtos/core/settings"
	"gurtos/core/task"
	"gurtos/core/tool"
	"gurtos/core/vault"
	"gurtos/core/workspace"
	"gurtos/netpolicy"
	"gurtos/sandbox"
	"gurtos/sandbox/layers"
)

// spareNetworks is how many network namespaces wait ready, so that no task waits
// for one.
const spareNetworks = 4

// Options are what a Box is made of besides its configuration.
type Options struct {
	Config config.Config
	Tools  []tool.Tool // that tasks may call besides those of apps
	Log    *slog.Logger
}

// Box is a box's daemon with everything open.
type Box struct {
	conf    config.Config
	log     *slog.Logger
	events  *actionlog.Log
	host    *sandbox.Host
	net     *netpolicy.Net
	mounter *layers.Mounter
	tasks   *task.Tasks
	broker  *broker.Broker
	api     *api.Server
	local   []net.Listener // loopback and the box's socket
	lan     []net.Listener // the uplinks
	boot    json.RawMessage
	state   string // of the sandboxes, while they run
}

// Open opens a box. Errors are sentences for whoever started it.
func Open(ctx context.Context, o Options) (_ *Box, err error) {
	b := &Box{conf: o.Config, log: o.Log}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	c := b.conf
	if os.Geteuid() != 0 {
		return nil, errors.New("boxd needs root: it makes sandboxes and holds the vault")
	}
	if err := durable.MkdirAll(durable.Disk, c.Home, 0o711); err != nil {
		return nil, fmt.Errorf("BOX_HOME %s can't be made: %w", c.Home, err)
	}
	keys, err := openVault(c)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(c.TasksRoot); err != nil {
		return nil, fmt.Errorf("there is no file system for tasks at %s: run `make build`, or name one in BOX_TASKS_ROOT (%w)", c.TasksRoot, err)
	}
	if b.events, err = actionlog.Open(c.Home, actionlog.Options{}); err != nil {
		return nil, err
	}
	chosen, err := settings.Open(durable.Disk, filepath.Join(c.Home, "settings.json"))
	if err != nil {
		return nil, err
	}
	devices, err := device.Open(durable.Disk, filepath.Join(c.Home, "devices.json"))
	if err != nil {
		return nil, err
	}
	spaces, err := openWorkspaces(filepath.Join(c.Home, "workspaces"))
	if err != nil {
		return nil, err
	}
	canary, err := broker.OpenCanary(durable.Disk, filepath.Join(c.Home, "canary.key"))
	if err != nil {
		return nil, fmt.Errorf("reading what tasks' false keys are made from: %w", err)
	}
	name := runName(c)
	b.state = filepath.Join("/run", "gurtos", name)
	if b.net, err = netpolicy.Open(b.log.With("part", "network"), spareNetworks); err != nil {
		return nil, err
	}
	if b.host, err = sandbox.Open(sandbox.Config{
		Namespaces: b.namespace,
		State:      b.state,
		TasksRoot:  c.TasksRoot,
		Tools:      c.Tools,
		Cgroup:     filepath.Join("/gurtos", name),
		Disk:       c.Home,
		Log:        b.log.With("part", "sandbox"),
	}); err != nil {
		return nil, err
	}
	if b.mounter, err = layers.NewMounter(); err != nil {
		return nil, err
	}
	tools := toolSet{}
	for _, t := range o.Tools {
		tools[t.Name] = t
	}
	if b.tasks, err = task.New(ctx, task.Options{
		Home:     c.Home,
		Log:      b.events,
		Runner:   task.RunnerFunc(b.start),
		Network:  task.NetworkFunc(b.attach),
		Layers:   task.OnDisk(b.mounter),
		Tools:    tools,
		Settings: chosen,
		Workers:  map[string]task.Worker{"fake": {Args: []string{"/usr/lib/gurtos/worker", "fake"}}},
		Model:    c.Model,
		Canary:   canary,
		Slog:     b.log.With("part", "task"),
	}); err != nil {
		return nil, err
	}
	b.broker = broker.New(broker.Options{
		Tasks: b.tasks, Tools: tools, Vault: keys, Canary: canary, Wait: c.ApprovalWait, Slog: b.log.With("part", "broker"),
	})
	facts, raw, err := readBoot()
	if err != nil {
		return nil, err
	}
	b.boot = raw
	b.api = api.New(api.Options{
		Tasks: b.tasks, Events: b.events, Settings: chosen, Devices: devices, Vault: keys, Workspaces: spaces,
		Broken: b.events.Err, Log: b.log,
		Version: config.Version, Edition: config.Edition, Slot: facts.Slot, Synced: synced, Weaker: b.host.Weaker(), Home: c.Home,
		Port: c.Port, LANPort: c.LANPlain, KioskUID: kiosk(c), RootIsScreen: !c.OnBox,
	})
	return b, b.listen()
}

// namespace makes a network namespace for a sandbox.
func (b *Box) namespace() (sandbox.Namespace, error) {
	ns, err := b.net.Namespace()
	if err != nil {
		return nil, err // not ns: a nil *Namespace in an interface is not nil
	}
	return ns, nil
}

// attach gives a task its network.
func (b *Box) attach(ns sandbox.Namespace, p netpolicy.Policy) (task.Space, error) {
	s, err := ns.(*netpolicy.Namespace).Attach(p)
	if err != nil {
		return nil, err // not s: a nil *Space in an interface is not nil
	}
	return s, nil
}

// start starts a sandbox for a task.
func (b *Box) start(ctx context.Context, spec sandbox.Spec) (task.Sandbox, error) {
	s, err := b.host.Start(ctx, spec)
	if err != nil {
		return nil, err // not s: a nil *Sandbox in an interface is not nil
	}
	return s, nil
}

// Serve runs tasks and answers requests until ctx ends, then closes everything.
// ready is called once the box answers.
func (b *Box) Serve(ctx context.Context, ready func()) error {
	defer b.close()
	if err := b.tasks.Note(ctx, api.NoteStart, b.startFacts(), ""); err != nil {
		return fmt.Errorf("the action log takes nothing: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() {
		// A broken log ends the queue and nothing else: the box says so when asked.
		if err := b.tasks.Run(ctx, b.broker); err != nil {
			b.log.Error("no task runs any more", "why", err)
		}
	})
	var err error
	wg.Go(func() {
		err = b.api.Serve(ctx, b.local, b.lan)
		stop()
	})
	ready()
	wg.Wait()
	return err
}

// Head is the end of the action log.
func (b *Box) Head() (seq int64, hash string) { return b.events.Head() }

// close closes what is open, the last first.
func (b *Box) close() {
	for _, l := range append(b.local, b.lan...) {
		l.Close()
	}
	if b.local != nil {
		os.Remove(b.conf.Socket())
	}
	if b.broker != nil {
		b.broker.Close()
	}
	for _, c := range []struct {
		what string
		end  func() error
	}{{"sandboxes", closer(b.host)}, {"networks", closer(b.net)}, {"layers", closer(b.mounter)}, {"action log", closer(b.events)}} {
		if c.end == nil {
			continue
		}
		if err := c.end(); err != nil {
			b.log.Error("closing "+c.what, "err", err)
		} else if c.what == "sandboxes" {
			os.RemoveAll(b.state) // else the next start sweeps it
		}
	}
}

// closer is the Close of what was opened.
func closer[T any, P interface {
	*T
	Close() error
}](p P) func() error {
	if p == nil {
		return nil
	}
	return p.Close
}

// openVault opens the vault. A default one is made where there is none; one that
// was named must be there, since a slip in BOX_VAULT would leave a box without
// its keys.
func openVault(c config.Config) (*vault.Vault, error) {
	if !c.VaultNamed {
		if err := vault.Create(durable.Disk, c.Vault); err != nil {
			return nil, fmt.Errorf("making an empty vault: %w", err)
		}
	}
	return vault.Open(durable.Disk, c.Vault)
}

// openWorkspaces makes the workspace home on a new box.
func openWorkspaces(dir string) (*workspace.Workspaces, error) {
	w, err := workspace.Open(durable.Disk, dir)
	if err != nil {
		return nil, err
	}
	list, err := w.List()
	if err != nil || len(list) > 0 {
		return w, err
	}
	_, err = w.Make("home")
	return w, err
}

// runName tells the sandboxes of several boxds on one machine apart.
func runName(c config.Config) string {
	if c.OnBox {
		return "tasks"
	}
	sum := sha256.Sum256([]byte(c.Home))
	return "tasks-" + hex.EncodeToString(sum[:5])
}

// kiosk is the uid of the user that the box's screen runs as; 0 for none.
func kiosk(c config.Config) int {
	if !c.OnBox {
		return 0
	}
	u, err := user.Lookup("kiosk")
	if err != nil {
		return 0
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return 0
	}
	return uid
}

type toolSet map[string]tool.Tool

var _ tool.Set = toolSet{}

func (s toolSet) Lookup(name string) (tool.Tool, bool) { t, ok := s[name]; return t, ok }
func (s toolSet) Has(name string) bool                 { _, ok := s[name]; return ok }
func (s toolSet) Title(app string) string              { return app }

// bootFacts is what boxd itself reads of what init tells it.
type bootFacts struct {
	Slot  string `json:"slot"`
	Clock struct {
		Synced bool `json:"synced"`
	} `json:"clock"`
}

// synced says whether init held the clock to a time server meanwhile.
func synced() bool {
	f, _, err := readBoot()
	return err == nil && f.Clock.Synced
}

// readBoot gives them, and the file as it stands; nothing where there is no init.
func readBoot() (f bootFacts, raw json.RawMessage, err error) {
	raw, err = os.ReadFile(config.BootFile)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &f)
	}
	if err != nil {
		return f, nil, fmt.Errorf("reading what init tells of the boot: %w", err)
	}
	return f, raw, nil
}

func (b *Box) startFacts() map[string]any {
	facts := map[string]any{"version": config.Version}
	if b.boot != nil {
		facts["boot"] = b.boot
	}
	if w := b.host.Weaker(); len(w) > 0 {
		facts["weaker"] = w
	}
	return facts
}

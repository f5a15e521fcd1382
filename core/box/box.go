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
	"slices"
	"strconv"
	"sync"

	"gurtos/core/actionlog"
	"gurtos/core/api"
	"gurtos/core/app"
	"gurtos/core/broker"
	"gurtos/core/clock"
	"gurtos/core/config"
	"gurtos/core/durable"
	"gurtos/core/task"
	"gurtos/core/tool"
	"gurtos/core/watch"
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
	// Workers are kinds of workers besides those of task.Workers, or in place of them.
	Workers map[string]task.Worker
	Kit     fs.FS // what pages of apps are lent at /kit/; nil for nothing
	// Clock is what the log, tasks and schedules go by; the machine's own when nil.
	Clock clock.Clock
	Log   *slog.Logger
}

// Box is a box's daemon with everything open.
type Box struct {
	conf    config.Config
	log     *slog.Logger
	clock   clock.Clock
	events  *actionlog.Log
	host    *sandbox.Host
	net     *netpolicy.Net
	mounter *layers.Mounter
	tasks   *task.Tasks
	tools   *tools
	broker  *broker.Broker
	watches *watch.Watches
	apps    *app.Registry
	api     *api.Server
	local   []net.Listener // loopback and the box's socket
	lan     []net.Listener // the uplinks
	boot    json.RawMessage
	state   string // of the sandboxes, while they run
}

// Open opens a box. Errors are sentences for whoever started it.
func Open(ctx context.Context, o Options) (_ *Box, err error) {
	b := &Box{conf: o.Config, log: o.Log, clock: o.Clock}
	if b.clock == nil {
		b.clock = clock.System{}
	}
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
	b.events, err = actionlog.Open(c.Home, actionlog.Options{Now: b.clock.Now, Mono: b.clock.Mono})
	if errors.Is(err, durable.ErrLocked) {
		return nil, fmt.Errorf("another boxd runs with BOX_HOME %s: stop it first, or name another folder in BOX_HOME", c.Home)
	}
	if damaged := new(actionlog.DamageError); errors.As(err, &damaged) {
		return nil, fmt.Errorf("%w. `box log verify` tells more. Put the log back from a copy, or cut out what is damaged with `box log quarantine`", err)
	}
	if err != nil {
		return nil, err
	}
	f, err := openFiles(c, keys)
	if err != nil {
		return nil, err
	}
	if err := b.openSandboxes(); err != nil {
		return nil, err
	}
	if err := b.openTasks(ctx, f, o); err != nil {
		return nil, err
	}
	if err := b.openApps(ctx, f); err != nil {
		return nil, err
	}
	b.openAPI(f, o.Kit)
	return b, b.listen()
}

// weaker is what this machine can't hold tasks to that a box would.
func (b *Box) weaker() []string { return slices.Concat(b.host.Weaker(), b.net.Weaker()) }

// openSandboxes opens what a task's process, network and files are made by.
func (b *Box) openSandboxes() (err error) {
	c, name := b.conf, runName(b.conf)
	b.state = filepath.Join("/run", "gurtos", name)
	if b.net, err = netpolicy.Open(b.log.With("part", "network"), spareNetworks); err != nil {
		return err
	}
	if b.host, err = sandbox.Open(sandbox.Config{
		Namespaces: b.namespace,
		State:      b.state,
		TasksRoot:  c.TasksRoot,
		Tools:      c.Tools,
		Cgroup:     b.group(),
		Disk:       c.Home,
		Log:        b.log.With("part", "sandbox"),
	}); err != nil {
		return err
	}
	b.mounter, err = layers.NewMounter()
	return err
}

// openTasks opens the tasks and the broker through which they reach the box.
func (b *Box) openTasks(ctx context.Context, f files, o Options) (err error) {
	b.tools = newTools(o.Tools)
	if b.tasks, err = task.New(ctx, task.Options{
		Home:      b.conf.Home,
		Log:       b.events,
		Runner:    task.RunnerFunc(b.start),
		Network:   task.NetworkFunc(b.attach),
		Layers:    task.OnDisk(b.mounter),
		Tools:     b.tools,
		Settings:  f.settings,
		Workers:   workers(o.Workers),
		Keys:      f.vault,
		Authority: f.authority,
		Model:     b.conf.Model,
		Canary:    f.canary,
		Synced:    func() bool { return timeHeard(b.conf.OnBox) },
		Context:   b.context,
		Now:       b.clock.Now,
		Mono:      b.clock.Mono,
		Slog:      b.log.With("part", "task"),
	}); err != nil {
		return err
	}
	b.broker = broker.New(broker.Options{
		Tasks:  b.tasks,
		Tools:  b.tools,
		Vault:  f.vault,
		Canary: f.canary,
		Wait:   b.conf.ApprovalWait,
		Slog:   b.log.With("part", "broker"),
	})
	return nil
}

// openAPI makes the HTTP server over all of it.
func (b *Box) openAPI(f files, kit fs.FS) {
	facts, raw, err := readBoot()
	if err != nil {
		b.log.Error("what init tells of the boot can't be read", "err", err)
	}
	b.boot = raw
	b.api = api.New(api.Options{
		Tasks:        b.tasks,
		Events:       b.events,
		Settings:     f.settings,
		Devices:      f.devices,
		Vault:        f.vault,
		Workspaces:   f.spaces,
		Apps:         b.apps,
		Kit:          kit,
		Broken:       b.events.Err,
		Log:          b.log,
		Version:      config.Version,
		Edition:      config.Edition,
		Slot:         facts.Slot,
		Synced:       synced,
		Weaker:       b.weaker(),
		Home:         b.conf.Home,
		Port:         b.conf.Port,
		LANPort:      b.conf.LANPlain,
		KioskUID:     kiosk(b.conf),
		RootIsScreen: !b.conf.OnBox,
	})
	b.api.Watch(b.gauges)
}

// Serve runs tasks and answers requests until ctx ends, then closes everything.
// ready is called once the box answers.
func (b *Box) Serve(ctx context.Context, ready func()) error {
	defer b.close()
	// A log that takes nothing is told by health; the box still answers and shows.
	if err := b.tasks.Note(ctx, api.NoteStart, b.startFacts(), ""); err != nil {
		b.log.Error("the action log takes nothing", "err", err)
	} else if err := b.api.Mend(ctx); err != nil {
		b.log.Error("what a crash kept out of the action log was not written", "err", err)
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
	b.apps.Start()
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
	}{{"watches", closer(b.watches)}, {"apps", closer(b.apps)}, {"sandboxes", closer(b.host)}, {"networks", closer(b.net)}, {"layers", closer(b.mounter)}, {"action log", closer(b.events)}} {
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

// runName tells the sandboxes of several boxds on one machine apart.
func runName(c config.Config) string {
	if c.OnBox {
		return "tasks"
	}
	sum := sha256.Sum256([]byte(c.Home))
	return "tasks-" + hex.EncodeToString(sum[:5])
}

// group is the control group of all sandboxes.
func (b *Box) group() string { return filepath.Join("/gurtos", runName(b.conf)) }

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

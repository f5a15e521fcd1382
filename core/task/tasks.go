package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/budget"
	"gurtos/core/durable"
	"gurtos/core/settings"
	"gurtos/netpolicy/authority"
	"gurtos/sandbox"
	"gurtos/sandbox/layers"
)

// Log is what tasks need of the action log.
type Log interface {
	Submit(ev ...actionlog.Event) (last int64, err error)
	Wait(ctx context.Context, seq int64) error
	Read(ctx context.Context, after int64, fn actionlog.Reader) error
	Lines(ctx context.Context, seqs []int64, fn actionlog.Reader) error
	SaveCheckpoint(seq int64, state []byte) error
	LoadCheckpoint() (seq int64, state []byte, ok bool)
	Room() (actionlog.Room, error)
}

// Runner starts sandboxes.
type Runner interface {
	Start(ctx context.Context, spec sandbox.Spec) (Sandbox, error)
}

// RunnerFunc is a Runner made of its one function.
type RunnerFunc func(ctx context.Context, spec sandbox.Spec) (Sandbox, error)

// Start calls f.
func (f RunnerFunc) Start(ctx context.Context, spec sandbox.Spec) (Sandbox, error) {
	return f(ctx, spec)
}

// Sandbox is a started worker.
type Sandbox interface {
	Wait() sandbox.Exit
	Stop(grace time.Duration)
	Kill()
	Freeze() error
	Thaw() error
	Sync() error // of the layer: what the task wrote is on disk after it
	UID() int    // the host's user id of all that runs in it, no other's while anything of it lives
}

// Layers makes, seals and deletes the folders that hold what a task changes.
type Layers interface {
	Create(dir string) error
	Seal(ctx context.Context, view layers.View) error
	Sealed(dir string) bool
	Drop(dir string) error
	Recover(dir string) error // finishes what a power cut left half done
	Writer(view layers.View) (*layers.Writer, error)
	// Fold makes the oldest layers (given newest first) part of a workspace's base;
	// RecoverBase finishes one that a power cut broke off, and tells which of the
	// layers are part of the base.
	Fold(ctx context.Context, base string, lowers []string) error
	RecoverBase(base string, layers []string) (applied []string, err error)
}

// Broker opens the socket through which a task reaches the box.
type Broker interface{ Open(id string) Socket }

// Socket is one task's broker.
type Socket interface {
	Serve(inside net.Listener)         // the listener in the task's own file system; nobody is answered before Listen
	Listen(path string, uid int) error // on the host, for this user alone
	Close() error
}

// Tools knows which tools the apps that are on have.
type Tools interface {
	Has(name string) bool
	Title(app string) string // what people call the app
}

// Settings are the box's.
type Settings interface{ Values() settings.Values }

// Options are what Tasks is made of. Model, Now, Mono and Slog have defaults.
type Options struct {
	Home     string // BOX_HOME
	Log      Log
	Runner   Runner
	Network  Network // nil leaves a task a loopback of its own and nothing else
	Layers   Layers
	Tools    Tools
	Settings Settings
	Workers  map[string]Worker // by the name that a TaskSpec uses; one with a key needs Keys and Authority
	Keys     Keys
	// Context gives what apps have to add to a task's prompt; nil for nothing.
	Context func(ctx context.Context, spec json.RawMessage) string
	// Authority answers TLS in the place of models' hosts. The worker's tasks trust it.
	Authority *authority.Authority
	Prices    *budget.Prices // what models cost; ListPrices when nil
	Model     string         // BOX_MODEL; DefaultModel when empty
	Canary    Canary         // makes each task's false keys; nil for none
	Disk      durable.FS     // of BOX_HOME/model-calls; durable.Disk when nil
	Now       func() time.Time
	// Synced says whether a time server was heard since the machine started; nil for never.
	Synced func() bool
	Mono   func() time.Duration // a clock that is never stepped
	Slog   *slog.Logger
}

// Canary makes the false cloud keys of a task: always the same ones for an id.
type Canary interface {
	Keys(id string) (accessKeyID, secretAccessKey string)
}

// Caller is who asks for a task.
type Caller struct {
	App string // the app whose box asks, "" for the API
	By  string // a person's or device's name, for the log
}

// Tasks is every task of the box and the queue that runs them.
//
// Each change is decided and handed to the log under mu, folded in at once, and
// answered only when its line is on disk; a read waits for the last line that it
// saw. So nobody ever learns what a power cut could take back. Lock order: mu, then
// the log's own.
type Tasks struct {
	opt    Options
	kick   chan struct{} // the queue has something to look at
	litter chan struct{} // the janitor has

	holding sync.Mutex // one hold at a time; taken before mu, never under it

	mu       sync.Mutex
	fold     *fold
	broken   error                         // the log failed: nothing is decided any more
	live     map[string]*run               // sandboxes that were started and not yet gone, by task
	turn     map[string]int64              // when an app's task was last started, in turns
	turns    int64                         //
	answered map[string]chan struct{}      // closed when the approval is answered
	resumed  chan struct{}                 // closed when no pause holds any more, nil for none
	full     bool                          // the disk is: no new work
	disk     map[string]bool               // tasks whose folder is on disk
	flights  map[string]map[string]*Flight // calls that are not over, by task and key
	cuts     map[[2]string]string          // why apps left calls without an end, by task and key; forgotten at a restart
	saved    int64                         // line of the last checkpoint
	puts     map[string]put                // files being put in, by their task
	folding  map[string]bool               // tasks whose layers are becoming part of their workspace
	applied  map[string][]string           // found at the start: layers that are part of a base, and the log doesn't say so
	homeless map[string]bool               // done tasks whose home was deleted
	sights   map[[2]string]sighted         // by app and trigger: what watches of files need on disk

	refused refusals // when the log last told of one

	seen moment // when the last line was folded in
}

// New folds the log and returns the tasks as they stood. Nothing runs until Run.
func New(ctx context.Context, o Options) (*Tasks, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Mono == nil {
		start := time.Now()
		o.Mono = func() time.Duration { return time.Since(start) }
	}
	if o.Slog == nil {
		o.Slog = slog.Default()
	}
	if o.Model == "" {
		o.Model = DefaultModel
	}
	if o.Prices == nil {
		o.Prices = budget.ListPrices()
	}
	if o.Disk == nil {
		o.Disk = durable.Disk
	}
	t := &Tasks{
		opt: o, kick: make(chan struct{}, 1), litter: make(chan struct{}, 1), fold: newFold(), live: map[string]*run{}, turn: map[string]int64{},
		refused: refusals{}, sights: map[[2]string]sighted{}, answered: map[string]chan struct{}{}, homeless: map[string]bool{}, folding: map[string]bool{}, puts: map[string]put{}, applied: map[string][]string{}, disk: map[string]bool{}, flights: map[string]map[string]*Flight{},
		cuts: map[[2]string]string{},
	}
	for _, dir := range []string{"tasks", "workspaces"} {
		// Only search permission: a task's user may reach its own broker.sock.
		if err := os.MkdirAll(filepath.Join(o.Home, dir), 0o711); err != nil {
			return nil, fmt.Errorf("folder for %s: %w", dir, err)
		}
	}
	if err := t.load(ctx); err != nil {
		return nil, err
	}
	if t.fold.Paused {
		t.resumed = make(chan struct{})
	}
	if err := t.listDisk(); err != nil {
		return nil, err
	}
	t.holdSeen()
	return t, t.recoverBases()
}

// commit decides under the lock, writes what was decided and waits until it is on
// disk. A decision that is an error, too, is told only once what it rests on is there.
func (t *Tasks) commit(ctx context.Context, decide func(f *fold) ([]actionlog.Event, error)) error {
	seq, err := t.decide(decide)
	if werr := t.opt.Log.Wait(ctx, seq); werr != nil {
		return werr
	}
	return err
}

// decide is commit without the wait; seq is the line to wait for.
func (t *Tasks) decide(decide func(f *fold) ([]actionlog.Event, error)) (seq int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broken != nil {
		return t.fold.Seq, t.broken
	}
	evs, err := decide(t.fold)
	if err != nil || len(evs) == 0 {
		return t.fold.Seq, err
	}
	return t.fold.Seq, t.submit(evs)
}

// submit hands decided events to the log and folds them in. What the log can't take for
// what it says is refused, and nothing else; any other error ends all deciding. mu is
// held.
func (t *Tasks) submit(evs []actionlog.Event) error {
	if _, err := t.opt.Log.Submit(evs...); err != nil {
		if unfit := new(actionlog.Unfit); errors.As(err, &unfit) {
			return err
		}
		t.broken = fmt.Errorf("the action log: %w", err)
		t.wake()
		return t.broken
	}
	for i := range evs {
		if err := t.fold.apply(&evs[i]); err != nil {
			t.broken = err // what was decided can't be folded: a fault of this program
			t.wake()
			return err
		}
		t.follow(&evs[i])
	}
	t.seen = moment{t.opt.Now(), t.opt.Mono()}
	return nil
}

// follow wakes whoever waits for what an event says. mu is held.
func (t *Tasks) follow(ev *actionlog.Event) {
	switch ev.Type {
	case actionlog.TypeApprovalAnswered:
		if c := t.answered[ev.ID]; c != nil {
			close(c)
			delete(t.answered, ev.ID)
		}
	case actionlog.TypeTaskCreated, actionlog.TypeTaskState:
		t.wake()
	}
}

func (t *Tasks) wake() {
	select {
	case t.kick <- struct{}{}:
	default:
	}
}

// read looks at the fold under the lock and returns once what was seen is on disk.
func (t *Tasks) read(ctx context.Context, look func(f *fold) error) error {
	return t.commit(ctx, func(f *fold) ([]actionlog.Event, error) { return nil, look(f) })
}

func (t *Tasks) workspaceDir(name string) string {
	return filepath.Join(t.opt.Home, "workspaces", name)
}

func (t *Tasks) dir(id string) string { return filepath.Join(t.opt.Home, "tasks", id) }

func (t *Tasks) layerDir(id string) string { return filepath.Join(t.dir(id), "layer") }

func (t *Tasks) homeDir(id string) string { return filepath.Join(t.dir(id), "home") }

package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"gurtos/sandbox/cgroup"
	"gurtos/sandbox/layers"
	"gurtos/sandbox/quota"
	"gurtos/sandbox/seccomp"
)

// Host starts sandboxes on this machine.
type Host struct {
	conf       Config
	log        *slog.Logger
	lock       *os.File // on State, so that two boxds never sweep each other's
	containers string   // libcontainer's folder
	room       *room
	mounter    *layers.Mounter
	quota      *quota.Quota // nil when disk space has no cap
	filter     []bpf.RawInstruction
	files      uint64 // limit of open files
	weaker     []string

	watches sync.WaitGroup // for memory of sandboxes, on version 1

	stop   context.CancelFunc // ends the pool's goroutine
	pooled chan struct{}      // closed when it has ended
	refill chan struct{}      // wakes it

	mu     sync.Mutex
	last   int            // number of the latest birth
	slots  map[int]bool   // in use or parked
	next   int            // slot that the next sandbox is expected to have
	parked []*birth       // the pool, oldest first
	live   sync.WaitGroup // running sandboxes; added to under mu, while not closed
	closed bool
}

// lockPatience is how long Open waits for the state folder to be free.
const lockPatience = 3 * time.Second

// sweepPatience is how long Open waits for what an earlier boxd left to end: the last
// process of a sandbox takes its mounts down, and a layer's writes the disk's caches out.
const sweepPatience = time.Minute

// Open makes a Host. It checks what sandboxes need and says in one sentence
// what is missing, and it ends and removes whatever an earlier one with the
// same State left. Close it.
func Open(conf Config) (_ *Host, err error) {
	h := &Host{conf: conf, log: cmp.Or(conf.Log, slog.Default()), slots: map[int]bool{}, refill: make(chan struct{}, 1), pooled: make(chan struct{})}
	defer func() {
		if err != nil {
			h.release()
		}
	}()
	if os.Geteuid() != 0 {
		return nil, errors.New("sandboxes need root: start boxd as root")
	}
	if h.conf.Namespaces == nil {
		h.conf.Namespaces = newNet
	}
	if h.conf.State, err = filepath.Abs(conf.State); err != nil {
		return nil, err
	}
	if err := h.claim(); err != nil {
		return nil, err
	}
	missing, err := cgroup.Missing(conf.Cgroup)
	if err != nil {
		return nil, fmt.Errorf("this machine has no control groups that sandboxes can use: %w", err)
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("sandboxes need the control group controllers %q: mount them or enable them in the kernel", missing)
	}
	if cgroup.Unified() && !cgroup.SharesIO() {
		h.weaker = append(h.weaker, "This kernel's control groups have no io controller: disks are not shared out by weight.")
	}
	if !cgroup.Unified() {
		h.weaker = append(h.weaker, "Control groups are version 1: I/O is not shared out by weight, there is no pressure to read, and a task that runs out of memory is ended a moment later than on a box.")
	}
	if conf.Disk == "" {
		h.weaker = append(h.weaker, "Tasks have no cap on disk space.")
	} else if h.quota, err = quota.Open(conf.Disk); err != nil {
		return nil, err
	} else if why := h.quota.Weaker(); why != "" {
		h.weaker = append(h.weaker, why)
	}
	if err := h.sweep(); err != nil {
		return nil, fmt.Errorf("clearing what an earlier boxd left: %w", err)
	}
	if err := seccomp.Available(); err != nil {
		return nil, fmt.Errorf("sandboxes need what this machine lacks: %w", err)
	}
	if h.filter, err = seccomp.Filter(seccomp.Table); err != nil {
		return nil, err
	}
	if err := liftLimits(); err != nil {
		return nil, err
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return nil, err
	}
	h.files = min(mostOpen, files.Max)
	logrus.SetOutput(logWriter{h.log})
	// libcontainer tells it to the program that each sandbox is born by, which uses one
	// processor only: to set it up for more costs a tenth of a birth.
	if err := os.Setenv("GOMAXPROCS", "1"); err != nil {
		return nil, err
	}
	if h.room, err = newRoom(conf.TasksRoot, conf.Tools); err != nil {
		return nil, err
	}
	if h.mounter, err = layers.NewMounter(); err != nil {
		return nil, err
	}
	if conf.Disk != "" {
		if err := h.mounter.Probe(conf.Disk); err != nil {
			return nil, err
		}
	}
	size := poolSize(conf.Pool)
	if err := h.makeFirst(size); err != nil {
		return nil, fmt.Errorf("this machine can't make sandboxes: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	go h.keepPool(ctx, size)
	return h, nil
}

// makeFirst makes a sandbox, which shows whether that works here.
func (h *Host) makeFirst(size int) error {
	slot, _ := h.reserve()
	b, err := h.give(slot, nil, nil)
	if err != nil {
		return err
	}
	if size > 0 {
		h.parked = append(h.parked, b)
		return nil
	}
	h.free(slot)
	return b.end()
}

// claim makes the state folder and locks it.
func (h *Host) claim() error {
	if err := os.MkdirAll(h.conf.State, 0o700); err != nil {
		return err
	}
	var err error
	if h.lock, err = os.OpenFile(filepath.Join(h.conf.State, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	// A child that a killed boxd was just making has its descriptors until exec.
	tick, late := time.NewTicker(10*time.Millisecond), time.NewTimer(lockPatience)
	defer tick.Stop()
	defer late.Stop()
	for unix.Flock(int(h.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		select {
		case <-tick.C:
		case <-late.C:
			return fmt.Errorf("another boxd runs sandboxes with %s: stop it first", h.conf.State)
		}
	}
	h.containers = filepath.Join(h.conf.State, "containers")
	return nil
}

// sweep ends the processes of an earlier boxd's sandboxes, with which their
// mounts and namespaces go, and removes its groups and folders.
func (h *Host) sweep() error {
	killed, err := cgroup.Sweep(h.conf.Cgroup, sweepPatience)
	if err != nil {
		return err
	}
	if killed > 0 {
		h.log.Info("ended what an earlier boxd left", "processes", killed)
	}
	if err := cgroup.Prepare(h.conf.Cgroup); err != nil {
		return err
	}
	return os.RemoveAll(h.containers)
}

// Weaker gives sentences about what this machine can't hold tasks to.
func (h *Host) Weaker() []string { return h.weaker }

// Figures are how many sandboxes there are.
type Figures struct {
	Running, Waiting int
	Slots            int // in use by both
}

// Figures counts them.
func (h *Host) Figures() Figures {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Figures{Running: max(0, len(h.slots)-len(h.parked)), Waiting: len(h.parked), Slots: len(h.slots)}
}

// Mounter is the Host's, for views that no sandbox uses.
func (h *Host) Mounter() *layers.Mounter { return h.mounter }

// Close waits for every sandbox to end and frees what the Host holds. Sandboxes
// still running are to be stopped before.
func (h *Host) Close() error {
	h.mu.Lock()
	already := h.closed
	h.closed = true
	h.mu.Unlock()
	if already {
		return nil
	}
	h.stop()
	<-h.pooled
	h.live.Wait()
	var errs []error
	for _, b := range h.parked {
		errs = append(errs, b.end())
	}
	h.watches.Wait()
	_, err := cgroup.Sweep(h.conf.Cgroup, sweepPatience)
	errs = append(errs, err, os.RemoveAll(h.containers), h.release())
	return errors.Join(errs...)
}

func (h *Host) release() error {
	var errs []error
	if h.mounter != nil {
		errs = append(errs, h.mounter.Close())
	}
	if h.quota != nil {
		errs = append(errs, h.quota.Close())
	}
	if h.room != nil {
		errs = append(errs, h.room.Close())
	}
	if h.lock != nil {
		errs = append(errs, h.lock.Close())
	}
	return errors.Join(errs...)
}

var errClosed = errors.New("the box is stopping")

// take reserves the slot and gives its parked sandbox, or nil when none waits.
func (h *Host) take(slot int) (*birth, int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, 0, errClosed
	}
	for i, b := range h.parked {
		if b.slot == slot || slot == AnySlot {
			h.parked = append(h.parked[:i:i], h.parked[i+1:]...)
			h.live.Add(1)
			return b, b.slot, nil
		}
	}
	switch {
	case slot != AnySlot && h.slots[slot]:
		return nil, 0, fmt.Errorf("slot %d is in use", slot)
	case slot != AnySlot:
		h.next = (slot + 1) % layers.Slots // who chooses slots goes round, so that users come back late
		h.slots[slot] = true
	default:
		var ok bool
		if slot, ok = h.reserve(); !ok {
			return nil, 0, errors.New("every slot is in use")
		}
	}
	h.live.Add(1)
	return nil, slot, nil
}

// reserve takes the next slot that is free, round and round; h.mu is held.
func (h *Host) reserve() (int, bool) {
	for range layers.Slots {
		s := h.next
		h.next = (h.next + 1) % layers.Slots
		if !h.slots[s] {
			h.slots[s] = true
			return s, true
		}
	}
	return 0, false
}

// give back a slot whose sandbox is gone.
func (h *Host) free(slot int) {
	h.mu.Lock()
	delete(h.slots, slot)
	h.mu.Unlock()
}

func (h *Host) nextID() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	return "s" + strconv.Itoa(h.last)
}

// logWriter takes libcontainer's warnings.
type logWriter struct{ log *slog.Logger }

func (w logWriter) Write(p []byte) (int, error) {
	w.log.Warn("libcontainer", "says", string(p))
	return len(p), nil
}

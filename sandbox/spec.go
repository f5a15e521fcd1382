package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"gurtos/sandbox/cgroup"
	"gurtos/sandbox/layers"
)

// Config says what all sandboxes of one Host share.
type Config struct {
	State     string // folder for run-time state, on a tmpfs or other local file system, 0700 root; swept at Open
	TasksRoot string // root file system that sandboxes see: a folder or an EROFS image, read-only
	Tools     string // folder with the static programs box-init and worker, shown inside at /usr/lib/gurtos
	Cgroup    string // parent of all sandboxes' cgroups, such as "/gurtos/tasks"; no one else's
	Disk      string // folder on the file system that holds the layers, for their caps; "" caps none
	// Namespaces makes the network namespaces of sandboxes, ahead of their use. Nil
	// makes ones with a loopback and nothing else.
	Namespaces func() (Namespace, error)
	Pool       int // sandboxes kept ready for the next tasks; 0 sizes it by memory, negative keeps none
	Log        *slog.Logger
}

// Namespace is a network namespace that belongs to the machine's user namespace,
// so that no one in a sandbox has a say over it. The sandbox closes it at its end.
type Namespace interface {
	File() *os.File
	Close() error
}

// Limits of one sandbox. A zero field means the default that its comment gives.
type Limits struct {
	MemoryBytes int64 // memory with swap 0; default 2 GiB
	Pids        int64 // processes and threads; default 1024
	CPUWeight   int64 // 1 to 10000; default 100
	CPUMilli    int64 // thousandths of a core; default no cap
	DiskBytes   int64 // over upper, work and home together; default 5 GB
	TmpBytes    int64 // of /tmp and of /dev/shm each; default a quarter of MemoryBytes
}

// defaults are the limits of a sandbox that asks for none.
var defaults = Limits{MemoryBytes: 2 << 30, Pids: 1024, CPUWeight: 100, DiskBytes: 5_000_000_000, TmpBytes: 512 << 20}

// full gives l with every default filled in.
func (l Limits) full() Limits {
	l.MemoryBytes = cmp.Or(l.MemoryBytes, defaults.MemoryBytes)
	l.Pids = cmp.Or(l.Pids, defaults.Pids)
	l.CPUWeight = cmp.Or(l.CPUWeight, defaults.CPUWeight)
	l.DiskBytes = cmp.Or(l.DiskBytes, defaults.DiskBytes)
	l.TmpBytes = cmp.Or(l.TmpBytes, l.MemoryBytes/4)
	return l
}

// Floors under which a sandbox can't even start.
const (
	leastMemory = 32 << 20 // its init, before the program
	leastPids   = 16
)

func (l Limits) check() error {
	switch {
	case l.MemoryBytes < leastMemory:
		return fmt.Errorf("a memory limit of %d bytes: a sandbox needs %d", l.MemoryBytes, leastMemory)
	case l.Pids < leastPids:
		return fmt.Errorf("a limit of %d processes: a sandbox needs %d", l.Pids, leastPids)
	case l.CPUWeight < 1 || l.CPUWeight > 10000:
		return fmt.Errorf("a CPU weight of %d: 1 to 10000", l.CPUWeight)
	case l.CPUMilli < 0 || l.DiskBytes < 0 || l.TmpBytes < 0:
		return errors.New("a limit below 0")
	}
	return nil
}

func (l Limits) cgroup() cgroup.Limits {
	return cgroup.Limits{Memory: l.MemoryBytes, Pids: l.Pids, Weight: l.CPUWeight, CPUMilli: l.CPUMilli}
}

// Spec says what to run and what it sees.
type Spec struct {
	ID     string      // letters and digits; names cgroup and state
	User   string      // name that `id -un` gives, such as box-t1
	Slot   int         // index of the host uid, unique among live sandboxes, 0 to layers.Slots-1; AnySlot takes one that is free
	Work   layers.View // seen at /work, the working folder
	Home   layers.View // seen at /home/box
	Trees  []Tree      // seen beside them, read-only
	Args   []string    // program and its arguments, as paths inside
	Env    []string    // the whole environment
	Limits Limits

	// Trust is PEM certificates of authorities that programs inside trust besides those
	// of the root, in the file Authorities. Nil leaves the root's own.
	Trust []byte

	// Network is given the sandbox's namespace before the program starts. Nil
	// leaves it as it was made.
	Network func(ns Namespace) error

	// Files are the program's from its start, as descriptors 3 and up. They stay the
	// caller's to close, once Start has returned.
	Files []*os.File

	// Output is given what the program prints, as it comes, besides Exit.Output. A Write
	// that blocks holds up the program. It may be nil.
	Output io.Writer

	// Serve is called once, in a goroutine of its own, with the listener at
	// /run/box/broker.sock inside, which is owned by the sandbox's user with mode
	// 0600 and takes connections before the program starts. The listener is closed
	// when the program has ended; Serve must return then. Peers are to be checked
	// with Sandbox.UID.
	Serve func(net.Listener)
}

// Tree is a view without a Layer, seen at /opt/<Name>.
type Tree struct {
	Name string // letters and digits
	View layers.View
}

// Most of what a Spec may have besides its layers.
const (
	maxTrees = 16
	maxFiles = 8
)

// AnySlot in a Spec asks the Host for a slot; Sandbox.UID tells which it was.
const AnySlot = -1

// Exit says how a sandbox's program ended.
type Exit struct {
	Code   int       // exit code, -1 when a signal ended it
	Signal os.Signal // the signal, or nil
	OOM    bool      // the kernel killed for memory inside
	Shared bool      // and it was not its own that ran out, but that of all sandboxes together
	Pids   bool      // a fork was refused for the pids limit
	Disk   bool      // it ran into its disk limit
	Start  error     // the program could not be run: missing, wrong format, not executable
	Output string    // the last 8 KiB of its standard output and error together
	Spent  Usage
}

// check says what is wrong with a spec whose limits are full.
func (s Spec) check() error {
	if !plain(s.ID) || !plain(s.User) {
		return fmt.Errorf("a sandbox's id and user name are letters, digits and dashes, at most 60; got %q and %q", s.ID, s.User)
	}
	if s.Slot != AnySlot && (s.Slot < 0 || s.Slot >= layers.Slots) {
		return fmt.Errorf("slot %d: slots are 0 to %d", s.Slot, layers.Slots-1)
	}
	if len(s.Args) == 0 || !strings.HasPrefix(s.Args[0], "/") {
		return fmt.Errorf("the program %q is no absolute path", s.Args)
	}
	if len(s.Trees) > maxTrees || len(s.Files) > maxFiles {
		return fmt.Errorf("%d trees and %d files: at most %d and %d", len(s.Trees), len(s.Files), maxTrees, maxFiles)
	}
	for _, t := range s.Trees {
		if !plain(t.Name) || t.View.Layer != "" {
			return fmt.Errorf("tree %q: a name of letters, digits and dashes is needed, and a view that nothing writes to", t.Name)
		}
	}
	return s.Limits.check()
}

func plain(s string) bool {
	if s == "" || len(s) > 60 || s[0] == '-' {
		return false
	}
	for _, c := range s {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}

// Usage is what a sandbox consumed.
type Usage struct {
	CPU       time.Duration
	MaxMemory int64 // bytes, 0 where the kernel doesn't tell
}

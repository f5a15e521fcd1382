package sandbox

import (
	"log/slog"
	"net"
	"os"
	"time"

	"gurtos/sandbox/layers"
)

// Config says what all sandboxes of one Host share.
type Config struct {
	State     string // folder for run-time state, on a tmpfs or other local file system, 0700 root; swept at Open
	TasksRoot string // root file system that sandboxes see: a folder or an EROFS image, read-only
	Tools     string // folder with the static programs box-init and worker, shown inside at /usr/lib/gurtos
	Cgroup    string // parent of all sandboxes' cgroups, such as "/gurtos/tasks"
	Log       *slog.Logger
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

// Spec says what to run and what it sees.
type Spec struct {
	ID     string      // letters and digits; names cgroup and state
	User   string      // name that `id -un` gives, such as box-t1
	Slot   int         // index of the host uid, unique among live sandboxes, 0 to layers.Slots-1
	Work   layers.View // seen at /work, the working folder
	Home   layers.View // seen at /home/box
	Args   []string    // program and its arguments, as paths inside
	Env    []string    // the whole environment
	Limits Limits
	Net    *os.File // network namespace to join; nil makes one with a loopback only

	// Serve is called once with the listener at /run/box/broker.sock inside,
	// owned by the sandbox's user with mode 0600, before the program starts. The
	// listener is closed when the sandbox ends. Peers are to be checked with UID.
	Serve func(net.Listener)
}

// Exit says how a sandbox's program ended.
type Exit struct {
	Code   int       // exit code, -1 when a signal ended it
	Signal os.Signal // the signal, or nil
	OOM    bool      // the kernel killed for memory inside
	Pids   bool      // a fork was refused for the pids limit
	Disk   bool      // it ran into its disk limit
	Start  error     // the program could not be run: missing, wrong format, not executable
	Output string    // the last 8 KiB of its standard output and error
	Spent  Usage
}

// Usage is what a sandbox consumed.
type Usage struct {
	CPU       time.Duration
	MaxMemory int64 // bytes, 0 where the kernel doesn't tell
}

package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runc/libcontainer/configs"
	"golang.org/x/sys/unix"

	"gurtos/sandbox/cgroup"
	"gurtos/sandbox/layers"
)

// A birth is a sandbox that has everything but a task: libcontainer's init stood
// behind all namespaces at the exec fifo, with its privileges gone, the fifo was
// opened, and box-init, which runs in its place, waits for what to run.
type birth struct {
	id        string // of the container and its control group
	slot      int
	group     *cgroup.Group
	ct        *libcontainer.Container
	proc      *libcontainer.Process
	ended     bool     // proc was waited for
	users     *os.File // user namespace that maps its layers
	net       Namespace
	furniture furniture
	mounts    *os.File      // mount namespace
	box       *net.UnixConn // to box-init
	broker    *net.UnixListener
	out       *os.File // standard output and error
}

// mostOpen is the soft and hard limit of open files, if boxd itself has as many.
const mostOpen = 1 << 16

// mostSignals is how many signals and timers may wait in a sandbox.
const mostSignals = 4096

// rlimitSigpending is RLIMIT_SIGPENDING, for which x/sys has no name.
const rlimitSigpending = 11

// liftLimits takes away those limits of boxd's own that hold what all sandboxes
// have together: the kernel counts what is had in a user namespace for who made
// it too, up to the limit that its maker had. Else a task that has signals or
// locked memory up to its own limit leaves the others none.
func liftLimits() error {
	for _, kind := range []int{rlimitSigpending, unix.RLIMIT_MEMLOCK, unix.RLIMIT_NPROC} {
		err := unix.Setrlimit(kind, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
		if errors.Is(err, unix.EPERM) { // no CAP_SYS_RESOURCE, as in some containers: as far as one may
			var l unix.Rlimit
			if err = unix.Getrlimit(kind, &l); err == nil {
				l.Cur = l.Max
				err = unix.Setrlimit(kind, &l)
			}
		}
		if err != nil {
			return fmt.Errorf("lifting a limit of all sandboxes together: %w", err)
		}
	}
	return nil
}

// give makes a sandbox for the slot, up to box-init. What libcontainer has no need
// of is made while it works: namespaces, file systems, and what beside makes with the
// user namespace of the layers, unless that is nil. inside is what is done with it in
// the sandbox's mount namespace.
func (h *Host) give(slot int, beside func(users *os.File) error, inside func() error) (*birth, error) {
	b := &birth{id: h.nextID(), slot: slot}
	b.group = cgroup.Plan(filepath.Join(h.conf.Cgroup, b.id), defaults.cgroup())
	net, rest := make(chan error, 1), make(chan error, 1)
	var besides sync.WaitGroup
	besides.Go(func() {
		var err error
		b.net, err = h.conf.Namespaces()
		net <- err
		if err == nil {
			err = b.besides(beside)
		}
		rest <- err
	})
	err := h.bear(b, net, rest, inside)
	besides.Wait()
	if err != nil {
		b.end()
		return nil, err
	}
	return b, nil
}

// besides makes what a sandbox is not made of, but gets.
func (b *birth) besides(more func(users *os.File) error) (err error) {
	if err := b.group.Find(); err != nil {
		return err
	}
	if b.users, err = layers.NewUserns(layers.IDMap{Disk: 0, Host: 0}, layers.IDMap{Disk: layers.Canonical, Host: layers.UID(b.slot)}); err != nil {
		return err
	}
	if err := b.makeFurniture(); err != nil {
		return err
	}
	if more == nil {
		return nil
	}
	return more(b.users)
}

// bear has libcontainer make b in the network namespace that net tells of, lets
// box-init start, and furnishes the sandbox with what rest tells of.
func (h *Host) bear(b *birth, net, rest <-chan error, inside func() error) (err error) {
	conf := h.container(b)
	in, outside, err := sockets()
	if err != nil {
		return err
	}
	defer in.Close()
	if b.box, err = unixConn(outside); err != nil {
		return err
	}
	null, out, err := stdio(b.slot)
	if err != nil {
		return err
	}
	defer null.Close()
	defer out.Close()
	b.out = out.reader
	b.proc = &libcontainer.Process{
		Args: []string{toolsDir + "/box-init"}, Env: []string{"HOME=/"}, UID: layers.InsideUID, GID: layers.InsideUID,
		Cwd: "/", Init: true, Stdin: null, Stdout: out.writer, Stderr: out.writer, ExtraFiles: []*os.File{in}, LogLevel: "3",
	}
	started := make(chan error, 1)
	// The room's paths hold only in its namespace.
	err = inMounts(h.room.ns, func() error {
		if b.ct, err = libcontainer.Create(h.containers, b.id, conf); err != nil {
			return fmt.Errorf("making a sandbox: %w", err)
		}
		if err := <-net; err != nil {
			return err
		}
		conf.Namespaces.Add(configs.NEWNET, fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), b.net.File().Fd()))
		if err := b.ct.Start(b.proc); err != nil {
			return fmt.Errorf("making a sandbox: %w", err)
		}
		pid, err := b.proc.Pid()
		if err != nil {
			return err
		}
		if b.mounts, err = os.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid)); err != nil {
			return err
		}
		go func() { started <- b.ct.Exec() }() // box-init, which waits for its program
		if err := <-rest; err != nil {
			return errors.Join(err, <-started)
		}
		err = enter(b.mounts)
		if err == nil {
			err = b.furnish()
		}
		if err == nil && inside != nil {
			err = inside()
		}
		if err != nil {
			err = fmt.Errorf("furnishing a sandbox: %w", err)
		}
		return errors.Join(err, <-started)
	})
	return err
}

// container is what libcontainer is asked for. Mounts are few: each costs it a
// third of a millisecond, ours a fiftieth.
func (h *Host) container(b *birth) *configs.Config {
	umask, adj := uint32(0o077), 500
	ids := []configs.IDMap{{ContainerID: 0, HostID: layers.RootUID, Size: 1}, {ContainerID: layers.InsideUID, HostID: int64(layers.UID(b.slot)), Size: 1}}
	return &configs.Config{
		Rootfs: rootDir, Readonlyfs: true, RootPropagation: unix.MS_PRIVATE | unix.MS_REC,
		Mounts: []*configs.Mount{
			{Device: "proc", Source: "proc", Destination: "/proc", Flags: unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
			{Device: "bind", Source: devDir, Destination: "/dev", Flags: unix.MS_BIND},
		},
		Hostname: "box",
		Namespaces: configs.Namespaces{
			{Type: configs.NEWUSER}, {Type: configs.NEWNS}, {Type: configs.NEWPID}, {Type: configs.NEWIPC}, {Type: configs.NEWUTS},
			{Type: configs.NEWCGROUP}, {Type: configs.NEWNET}, // its path is told once it is made
		},
		UIDMappings: ids, GIDMappings: ids,
		Capabilities: &configs.Capabilities{}, NoNewPrivileges: true, NoNewKeyring: true, // box-init joins an own keyring
		Cgroups: b.group.Config, Umask: &umask, OomScoreAdj: &adj, // boxd outlives its tasks
		Rlimits: []configs.Rlimit{
			{Type: unix.RLIMIT_CORE}, // core_pattern runs on the machine
			{Type: unix.RLIMIT_NOFILE, Soft: h.files, Hard: h.files},
			{Type: unix.RLIMIT_MEMLOCK, Soft: 8 << 20, Hard: 8 << 20},
			{Type: rlimitSigpending, Soft: mostSignals, Hard: mostSignals},
		},
	}
}

// gone is whether box-init has ended, or given up, before it had a program: the kernel
// may take what waits when memory is short. Its socket says so, which nobody else holds.
func (b *birth) gone() bool {
	raw, err := b.box.SyscallConn()
	if err != nil {
		return true
	}
	waits := false
	err = raw.Control(func(fd uintptr) {
		_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		waits = errors.Is(err, unix.EAGAIN)
	})
	return err != nil || !waits
}

// end frees what b holds, its processes first.
func (b *birth) end() error {
	var errs []error
	if b.ct != nil && !b.ended {
		if err := b.ct.Signal(unix.SIGKILL); err == nil || errors.Is(err, libcontainer.ErrNotRunning) {
			b.proc.Wait() // one that ended by itself is a zombie until then
		}
	}
	b.furniture.Close()
	for _, c := range []interface{ Close() error }{b.box, b.broker, b.out, b.mounts, b.users, b.net} {
		if !isNil(c) {
			c.Close()
		}
	}
	if b.ct != nil {
		if err := b.ct.Destroy(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func isNil(c interface{ Close() error }) bool {
	switch c := c.(type) {
	case nil:
		return true
	case *os.File:
		return c == nil
	case *net.UnixConn:
		return c == nil
	case *net.UnixListener:
		return c == nil
	}
	return false
}

// sockets is the pair over which boxd and box-init speak.
func sockets() (inside, outside *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("making a pair of sockets: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "inside"), os.NewFile(uintptr(fds[1]), "outside"), nil
}

// unixConn takes f over.
func unixConn(f *os.File) (*net.UnixConn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return c.(*net.UnixConn), nil
}

type pipe struct{ reader, writer *os.File }

func (p pipe) Close() error { return p.writer.Close() }

// stdio makes an ended standard input and a pipe for the output, which the
// slot's user may open anew through /proc/self/fd.
func stdio(slot int) (in *os.File, out pipe, err error) {
	in, end, err := os.Pipe()
	if err != nil {
		return nil, out, err
	}
	end.Close()
	if out.reader, out.writer, err = os.Pipe(); err != nil {
		in.Close()
		return nil, out, err
	}
	for _, f := range []*os.File{in, out.writer} {
		if err := f.Chown(layers.UID(slot), layers.UID(slot)); err != nil {
			in.Close()
			out.reader.Close()
			out.writer.Close()
			return nil, out, err
		}
	}
	return in, out, nil
}

// listen makes the broker's socket in a small file system of its own.
func listen(m *os.File, slot int) (*net.UnixListener, error) {
	path := "/proc/self/fd/" + strconv.Itoa(int(m.Fd())) + "/broker.sock"
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // it goes with its file system
	if err := os.Chmod(path, 0o600); err == nil {
		err = os.Chown(path, layers.UID(slot), layers.UID(slot))
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/sandbox/boxinit"
	"gurtos/sandbox/cgroup"
	"gurtos/sandbox/layers"
	"gurtos/sandbox/quota"
)

// Sandbox is one program in its sandbox.
type Sandbox struct {
	h          *Host
	b          *birth
	spec       Spec
	work, home *layers.Mount
	trees      []*layers.Mount
	belongings belongings
	cap        *quota.Cap    // nil when there is none
	noMemory   atomic.Bool   // version 1 told so
	done       chan struct{} // closed when nothing of it is left

	ending sync.Mutex
	killed bool // guarded by ending

	exit Exit // valid once done is closed
}

// Start runs a program in a new sandbox and returns as soon as it is on its way;
// Wait tells how it went. An error means that nothing was started and nothing
// is left. ctx counts until Start returns.
func (h *Host) Start(ctx context.Context, spec Spec) (_ *Sandbox, err error) {
	spec.Limits = spec.Limits.full()
	if err := spec.check(); err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", spec.ID, err)
	}
	b, slot, err := h.take(spec.Slot)
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", spec.ID, err)
	}
	defer h.wakePool()
	spec.Slot = slot
	s := &Sandbox{h: h, b: b, spec: spec, done: make(chan struct{})}
	if err := s.start(ctx); err != nil {
		s.free() // kills what has begun
		return nil, fmt.Errorf("sandbox %s: %w", spec.ID, err)
	}
	go s.run()
	return s, nil
}

func (s *Sandbox) start(ctx context.Context) (err error) {
	if s.b != nil && s.b.gone() {
		if err := s.b.end(); err != nil {
			return err
		}
		s.b = nil
	}
	if s.b != nil {
		if err = s.openLayers(s.b.users); err == nil {
			err = inMounts(s.b.mounts, s.moveIn)
		}
	} else {
		s.b, err = s.h.give(s.spec.Slot, s.openLayers, s.moveIn)
	}
	if err != nil {
		return err
	}
	if s.spec.Limits.cgroup() != defaults.cgroup() {
		if err := s.b.group.Set(s.spec.Limits.cgroup()); err != nil {
			return err
		}
	}
	if err := s.watchMemory(); err != nil {
		return err
	}
	if s.spec.Network != nil {
		if err := s.spec.Network(s.b.net); err != nil {
			return err
		}
	}
	s.settled()
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.send()
}

// send gives box-init its program.
func (s *Sandbox) send() error {
	err := boxinit.Program{Filter: s.h.filter, Args: s.spec.Args, Env: s.spec.Env, Dir: workDir, Writable: writable, Files: s.spec.Files}.Send(s.b.box)
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) { // it has ended, and may have said why
		if r, rerr := boxinit.ReadReport(s.b.box); rerr == nil && r.Err() != nil {
			return r.Err()
		}
	}
	return err
}

// settled closes what was needed to make the sandbox and isn't to run it: a
// thousand sandboxes are a thousand times that many descriptors, each of which every
// start of another one has to close in its child.
func (s *Sandbox) settled() {
	s.b.users.Close()
	s.b.mounts.Close()
	s.belongings.Close()
	for _, m := range append([]*layers.Mount{s.work, s.home}, s.trees...) {
		m.File.Close() // it has its place
	}
}

// openLayers caps and mounts the layers, mapped through users, and makes what else is
// the task's.
func (s *Sandbox) openLayers(users *os.File) (err error) {
	h := s.h
	if h.quota != nil { // before anything is mounted
		if s.cap, err = h.quota.Limit(s.spec.Slot, s.spec.Limits.DiskBytes, s.spec.Work.Layer, s.spec.Home.Layer); err != nil {
			return err
		}
	}
	if s.work, err = h.mounter.Mount(s.spec.Work, users); err != nil {
		return err
	}
	if s.home, err = h.mounter.Mount(s.spec.Home, users); err != nil {
		return err
	}
	for _, t := range s.spec.Trees {
		m, err := h.mounter.Mount(t.View, users)
		if err != nil {
			return fmt.Errorf("tree %s: %w", t.Name, err)
		}
		s.trees = append(s.trees, m)
	}
	return s.belongings.pack(s.spec)
}

// writable is what Landlock lets a task write, where the kernel has it. The
// mounts and owners say the same; /proc has files of the task's own.
var writable = []string{workDir, homeDir, "/tmp", "/proc", "/dev/shm", "/dev/pts", "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// outputPatience is how long the end of the output is waited for once every
// process is gone.
const outputPatience = 2 * time.Second

// run owns the sandbox from its start to its end.
func (s *Sandbox) run() {
	output, served := make(chan string, 1), make(chan struct{})
	go func() { output <- drain(s.b.out, s.spec.Output) }()
	go func() {
		defer close(served)
		if s.spec.Serve != nil {
			s.spec.Serve(s.b.broker)
		}
	}()
	overDisk := s.watchDisk()
	s.exit = s.watch()
	s.exit.Disk = overDisk()
	// No process holds the pipe any more. A message that waits on a connection to
	// the broker still can, if the task put its end in it (SCM_RIGHTS): what was
	// written is in the pipe and is read long before the time is over.
	s.b.out.SetReadDeadline(time.Now().Add(outputPatience))
	s.exit.Output = <-output
	s.b.broker.Close()
	<-served
	u := s.b.group.Used()
	s.exit.OOM, s.exit.Pids = u.OOMKills > 0 || s.noMemory.Load(), u.NoPids > 0
	s.exit.Shared = cgroup.Unified() && u.OOMKills > 0 && u.Full == 0
	s.exit.Spent = Usage{CPU: u.CPU, MaxMemory: u.MaxMemory}
	s.free()
	close(s.done)
}

// watch waits until every process of the sandbox is gone.
func (s *Sandbox) watch() Exit {
	e := Exit{Code: -1}
	told := false
	for !told {
		r, err := boxinit.ReadReport(s.b.box)
		if err != nil {
			break // it was killed, box-init and all
		}
		switch r.Kind {
		case boxinit.Started:
			continue
		case boxinit.Exited:
			e.Code = int(r.Value)
		case boxinit.Signaled:
			e.Signal = syscall.Signal(r.Value)
		default:
			e.Start = &StartError{s.spec.Args[0], r.Err()}
		}
		told = true
	}
	st, err := s.b.proc.Wait() // PID 1: the kernel has ended the others before it
	s.b.ended = true
	var exit *os.ProcessState
	if st != nil {
		exit = st
	}
	if !told {
		switch ws := status(exit); {
		case ws.Signaled():
			e.Signal = ws.Signal()
		case err == nil || ws.Exited():
			e.Start = &StartError{s.spec.Args[0], fmt.Errorf("box-init ended with code %d and said nothing", ws.ExitStatus())}
		default:
			e.Start = &StartError{s.spec.Args[0], err}
		}
	}
	return e
}

func status(p *os.ProcessState) syscall.WaitStatus {
	if p == nil {
		return 0
	}
	return p.Sys().(syscall.WaitStatus)
}

// watchMemory ends the whole sandbox when memory runs out in it, as version 2
// does by itself (memory.oom.group).
func (s *Sandbox) watchMemory() error {
	if cgroup.Unified() {
		return nil
	}
	events, err := s.b.ct.NotifyOOM() // closed when the control group is gone
	if err != nil {
		return fmt.Errorf("watching its memory: %w", err)
	}
	// The kernel tells of the group's end some milliseconds late: it is the Host
	// that waits for it, not who waits for the sandbox.
	s.h.watches.Go(func() {
		for range events { // each tells of memory that could not be had; the counter of kills comes later
			s.noMemory.Store(true)
			s.Kill()
		}
	})
	return nil
}

// watchDisk ends the sandbox when it reaches its cap. The function that it
// returns ends the watch and tells whether the cap was reached.
func (s *Sandbox) watchDisk() (over func() bool) {
	if s.cap == nil {
		return func() bool { return false }
	}
	ctx, stop := context.WithCancel(context.Background())
	reached := make(chan bool, 1)
	go func() {
		over, err := s.cap.Watch(ctx)
		if err != nil {
			s.h.log.Warn("disk space can't be watched", "sandbox", s.spec.ID, "error", err)
		}
		if over {
			s.Kill()
		}
		reached <- over
	}()
	return func() bool {
		stop()
		if <-reached {
			return true
		}
		over, err := s.cap.Over() // at the very end
		return err == nil && over
	}
}

// free lets go of everything; what runs is killed.
func (s *Sandbox) free() {
	if s.b != nil {
		if err := s.b.end(); err != nil {
			s.h.log.Error("a sandbox left something behind", "sandbox", s.spec.ID, "error", err)
		}
	}
	s.belongings.Close()
	for _, m := range append(s.trees, s.work, s.home) {
		if m != nil {
			m.Close()
		}
	}
	if s.cap != nil {
		if err := s.cap.Release(); err != nil {
			s.h.log.Error("a disk cap stays", "sandbox", s.spec.ID, "error", err)
		}
	}
	s.h.free(s.spec.Slot)
	s.h.live.Done()
}

// UID is the machine's user id of the sandbox's user.
func (s *Sandbox) UID() int { return layers.UID(s.spec.Slot) }

// Done is closed when the sandbox has ended and nothing of it is left.
func (s *Sandbox) Done() <-chan struct{} { return s.done }

// Wait waits for that and says how the program ended.
func (s *Sandbox) Wait() Exit {
	<-s.done
	return s.exit
}

// Stop asks the program to end, by SIGTERM, and kills it after grace.
func (s *Sandbox) Stop(grace time.Duration) {
	s.Thaw()
	if err := s.b.proc.Signal(unix.SIGTERM); err == nil && grace > 0 {
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-s.done:
			return
		case <-t.C:
		}
	}
	s.Kill()
	<-s.done
}

// Kill ends every process of the sandbox at once, frozen or not.
func (s *Sandbox) Kill() {
	// All of them first: with version 1 a frozen PID 1 has to be thawed to end, and until
	// it has, the others would go on.
	s.ending.Lock()
	s.killed = true
	err := s.b.group.Kill()
	s.ending.Unlock()
	if err != nil {
		s.h.log.Warn("killing a sandbox", "sandbox", s.spec.ID, "error", err)
	}
	if err := s.b.ct.Signal(unix.SIGKILL); err != nil {
		s.b.proc.Signal(unix.SIGKILL)
	}
}

// Freeze stops all processes of the sandbox until Thaw. One that is killed, before or
// meanwhile, ends: with version 1 it could not while it is frozen.
func (s *Sandbox) Freeze() error {
	err := s.b.group.Freeze()
	s.ending.Lock()
	killed := s.killed
	s.ending.Unlock()
	if killed {
		return s.Thaw()
	}
	if err != nil {
		return fmt.Errorf("freezing sandbox %s: %w", s.spec.ID, err)
	}
	return nil
}

// Thaw lets them go on.
func (s *Sandbox) Thaw() error {
	if err := s.b.group.Thaw(); err != nil {
		return fmt.Errorf("thawing sandbox %s: %w", s.spec.ID, err)
	}
	return nil
}

// Sync writes what the program changed in its layers to disk.
func (s *Sandbox) Sync() error { return errors.Join(s.work.Sync(), s.home.Sync()) }

// CPU is how long its processes have used processors so far, all of them together.
func (s *Sandbox) CPU() time.Duration { return s.b.group.Used().CPU }

// Pressure is what the sandbox waits for; ok is false where the kernel doesn't
// tell.
func (s *Sandbox) Pressure() (p cgroup.Pressure, ok bool) { return s.b.group.Pressure() }

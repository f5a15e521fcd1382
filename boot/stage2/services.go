package stage2

import (
	"context"
	"errors"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/boot/power"
	"gurtos/boot/proc"
	"gurtos/boot/ring"
	"gurtos/boot/screen"
	"gurtos/boot/supervise"
	"gurtos/boot/watchdog"
	"gurtos/core/config"
	"gurtos/core/durable"
	"gurtos/image/layout"
)

const (
	grace = time.Minute // for boxd to stop its tasks
	// endTime is how long a shutdown may take before the watchdog cuts it short.
	endTime = 4 * time.Minute
)

// path is where programs are looked for, by init and by services.
const path = "/usr/sbin:/usr/bin:/sbin:/bin"

func logAs(r *ring.Ring, source string) *log.Logger { return log.New(r.Writer(source), "", 0) }

func (b *Box) startServices(ctx context.Context, wait *sync.WaitGroup) error {
	b.services = []*supervise.Supervisor{{
		Service: supervise.Service{
			Name: "boxd",
			Path: filepath.Join(layout.Bin, "boxd"),
			Env: []string{
				"PATH=" + path, "HOME=/root", "LANG=C.UTF-8", "TZ=UTC",
				"BOX_HOME=" + boxHome,
				"BOX_VAULT=/etc/box/vault.env",
				"BOX_LAN=80,443",
				"BOX_TASKS_ROOT=" + layout.TasksRoot,
			},
			Grace: grace,
			Hold:  config.ExitDamaged,
		},
		Ring:   b.Ring,
		Log:    b.log,
		Cgroup: filepath.Join(cgroups, services, "boxd"),
	}}
	for _, s := range b.services {
		wait.Add(1)
		b.guard(ctx, "running "+s.Service.Name, func(ctx context.Context) {
			defer wait.Done()
			s.Run(ctx)
		})
	}
	return nil
}

// startWatchdog feeds the hardware watchdog as soon as its driver is there.
func (b *Box) startWatchdog(ctx context.Context) error {
	b.guard(ctx, "feeding the watchdog", func(ctx context.Context) {
		for {
			// Not ctx: a shutdown that hangs is to be cut short too.
			err := watchdog.Run(context.WithoutCancel(ctx), b.log, "/dev/watchdog", b.well)
			if !errors.Is(err, os.ErrNotExist) {
				b.log.Print(err)
				return
			}
			select {
			case <-b.dog:
			case <-ctx.Done():
				return
			}
		}
	})
	return nil
}

// startShell gives a debug build a shell on the first serial port.
func (b *Box) startShell(ctx context.Context) error {
	b.guard(ctx, "running the shell", func(ctx context.Context) {
		for ctx.Err() == nil {
			tty, err := os.OpenFile("/dev/ttyS0", os.O_RDWR, 0)
			if err != nil {
				b.log.Printf("shell: %v", err)
				return
			}
			cmd := exec.Command("/bin/sh", "-i")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
			cmd.Env = []string{"PATH=" + path + ":" + layout.Bin, "HOME=/root", "TERM=linux", "BOX_HOME=" + boxHome, "PS1=# "}
			cmd.Dir = "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err = proc.Start(cmd); err == nil {
				err = proc.Wait(cmd)
			}
			tty.Close()
			b.log.Printf("shell: ended (%v)", err)
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	})
	return nil
}

// hold stands still after a step of the first boot, when a debug build is told
// to: the tests cut the power there.
func (b *Box) hold(step string) {
	if b.release.Debug && b.words["gurtos.hold"] == step {
		b.log.Printf("held after %s", step)
		select {}
	}
}

// shutdown ends the machine in order: services, which stop ends, clock, mark,
// disks.
func (b *Box) shutdown(stop func(), how power.How) error {
	b.mu.Lock()
	b.stopping = time.Now()
	b.mu.Unlock()
	b.screen.Update(func(s *screen.Status) {
		s.State, s.Doing, s.Pair, s.Hint = screen.Stopping, "tasks are stopped and everything is written", "", ""
	})
	ask, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	if seq, hash, err := b.boxd.Head(ask); err == nil {
		b.log.Printf("log head: %d %s", seq, hash)
	}
	cancel()
	// The network stays until the end: stop ends it with the rest, and boxd's
	// last words need none.
	stop()
	b.saveTime()
	b.mu.Lock()
	writable := b.writable
	b.writable = false
	b.mu.Unlock()
	if writable {
		if err := durable.Remove(durable.Disk, markFile); err != nil {
			b.log.Print(err)
		}
	}
	b.screen.Update(func(s *screen.Status) { s.Doing = how.String() })
	power.Settle(b.log)
	b.log.Print(how)
	b.Ring.Drain(time.Second)
	if err := power.Now(how); err != nil {
		return err
	}
	for { // the kernel has been asked; init must not end before it obeys
		_ = unix.Pause()
	}
}

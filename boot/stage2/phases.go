package stage2

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/boot/clock"
	"gurtos/boot/console"
	"gurtos/boot/facts"
	"gurtos/boot/keys"
	"gurtos/boot/modules"
	"gurtos/boot/mounts"
	"gurtos/boot/network"
	"gurtos/boot/power"
	"gurtos/boot/release"
	"gurtos/boot/screen"
	"gurtos/boot/uevent"
	"gurtos/image/layout"
)

func (b *Box) mounts(context.Context) error {
	return errors.Join(
		mounts.All("/", mounts.Kernel), // there already, but for a start without an initramfs
		mounts.All("/", mounts.System),
		mounts.MakeFolders("/"),
		os.WriteFile(filepath.Join(runDir, "hostname"), []byte("gurtos\n"), 0o644),
		link("/usr/share/zoneinfo/Etc/UTC", filepath.Join(runDir, "localtime")),
		unix.Sethostname([]byte("gurtos")), // until the data disk tells the box's own
	)
}

func link(to, at string) error {
	if err := os.Symlink(to, at); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// readRelease reads what runs, and begins the facts of this boot.
func (b *Box) readRelease(context.Context) error {
	var errs []error
	var err error
	if b.words, err = release.CommandLine("/proc/cmdline"); err != nil {
		errs = append(errs, err)
	}
	if b.release, err = release.Read(layout.Release); err != nil {
		errs = append(errs, err)
		b.release.Version = b.words[layout.CmdVersion]
	}
	slot := readLine(filepath.Join(runDir, "slot"))
	stage1, _ := strconv.ParseInt(readLine(filepath.Join(runDir, "stage1")), 10, 64)
	var u unix.Utsname
	_ = unix.Uname(&u)
	b.facts = facts.New(filepath.Join(runDir, "boot.json"), facts.Facts{
		Slot:     slot,
		Version:  b.release.Version,
		Commit:   b.release.Commit,
		Debug:    b.release.Debug,
		Kernel:   unix.ByteSliceToString(u.Release[:]),
		Previous: "none",
		Clock:    facts.Clock{Source: "rtc"},
		Data:     facts.Data{State: "missing"},
		Stages:   facts.Stages{Stage1: stage1, Stage2: b.since()},
	})
	b.screen.Update(func(s *screen.Status) { s.Version, s.Slot = b.version(), slot })
	if _, err := os.Stat(filepath.Join(layout.TasksRoot, "usr")); err != nil {
		b.because("tasks", "The tasks file system is missing, so no task can run: the system disk is incomplete.")
	}
	return errors.Join(errs...)
}

func (b *Box) console(ctx context.Context) error {
	// The kernel's own messages would be written over the screen; warnings and
	// worse are in its log all the same.
	if err := os.WriteFile("/proc/sys/kernel/printk", []byte("2 4 1 7"), 0); err != nil {
		b.log.Print(err)
	}
	list := console.List("/proc", "/dev")
	if len(list) == 0 {
		return errors.New("there is no console to show anything on")
	}
	b.screen.Enter = func() { poke(b.enter) }
	b.screen.Line = func(line string) {
		select {
		case b.lines <- line:
		default: // one that came just before is being looked at
		}
	}
	b.screen.Shell = func(c console.Console) bool { return b.debugShell() && c.Name == "ttyS0" }
	// Not ended with the rest: the shutdown is to be seen too.
	b.screen.Attach(context.WithoutCancel(ctx), list)
	return nil
}

func (b *Box) settings(context.Context) error {
	absent, err := mounts.SetSysctls("/proc")
	if len(absent) > 0 {
		b.log.Printf("this kernel has no %s", strings.Join(absent, ", "))
	}
	return errors.Join(err, mounts.RaiseFiles())
}

func (b *Box) controlGroups(context.Context) error {
	absent, err := mounts.EnableControllers(cgroups)
	if len(absent) > 0 {
		b.log.Printf("this kernel has no controller for %s", strings.Join(absent, ", "))
	}
	return errors.Join(err, mounts.Protect(filepath.Join(cgroups, services)))
}

// services is the control group of the box's own programs.
const services = "services"

// clockFloor corrects a clock that can't be right by the build's own time. The
// data disk may know better.
func (b *Box) clockFloor(context.Context) error {
	b.mu.Lock()
	b.known.Build = b.release.Time
	b.mu.Unlock()
	return b.correctClock()
}

func (b *Box) correctClock() error {
	b.mu.Lock()
	known := b.known
	b.mu.Unlock()
	now := time.Now()
	to, source, wrong := known.Correct(now)
	if !wrong {
		return nil
	}
	if err := clock.Step(to); err != nil {
		return err
	}
	b.log.Printf("the clock showed %s and was set to %s (%s)", now.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339), source)
	b.fact(func(f *facts.Facts) { f.Clock.Source = source })
	return nil
}

// ahead are the modules that boxd's first network and first layer need, and that no device
// asks for. The kernel would run modprobe for each in turn, boxd waiting.
var ahead = []string{
	"nft_chain_nat", "nft_ct", "nft_limit", "nft_log", "nfnetlink_log", "nft_queue", "nfnetlink_queue", "nft_redir", "nft_reject_inet",
	"overlay",
}

// drivers loads what the devices ask for and goes on without waiting.
func (b *Box) drivers(ctx context.Context) error {
	b.keys = &keys.Keyboard{Log: b.log, Press: b.pressed}
	events, err := uevent.Listen()
	if err != nil {
		return err
	}
	dir, err := modules.Dir(layout.Modules)
	if err == nil {
		b.loader, err = modules.New(dir, b.log)
	}
	b.guard(ctx, "listening to devices", func(ctx context.Context) {
		if err := events.Run(ctx, func(e uevent.Event) { b.hear(ctx, e) }); err != nil {
			b.log.Print(err)
		}
	})
	b.keys.Look(ctx, "/dev/input")
	if err != nil {
		return err
	}
	b.loader.Hold()
	// The largest module by far, and no device asks for it.
	b.guard(ctx, "loading the file system", func(context.Context) {
		_ = b.loader.Load("xfs")
		for _, name := range ahead {
			b.guard(ctx, "loading "+name, func(context.Context) {
				if err := b.loader.Load(name); err != nil {
					b.log.Print(err)
				}
			})
		}
	})
	b.guard(ctx, "loading drivers", func(context.Context) { b.loader.Coldplug("/sys") })
	return nil
}

func (b *Box) hear(ctx context.Context, e uevent.Event) {
	if b.loader != nil {
		b.loader.Hear(e)
	}
	if e.Lost || e.Subsystem == "block" {
		poke(b.disks)
	}
	if e.Lost || e.Action == "add" && e.Subsystem == "watchdog" {
		poke(b.dog)
	}
	if e.Lost || e.Action == "add" && e.Subsystem == "input" && strings.HasPrefix(e.Device, "input/event") {
		b.keys.Look(ctx, "/dev/input")
	}
	if e.Lost || e.Action == "add" && (e.Subsystem == "tty" || e.Subsystem == "vtconsole" || e.Subsystem == "graphics") {
		b.screen.Attach(context.WithoutCancel(ctx), console.List("/proc", "/dev"))
	}
}

func (b *Box) pressed(k keys.Key) {
	switch k {
	case keys.Power:
		b.log.Print("the power button was pressed")
		select {
		case b.end <- power.Off:
		default:
		}
	default:
		poke(b.enter)
	}
}

func (b *Box) startNetwork(ctx context.Context) error {
	b.network = &network.Network{
		Log:      b.log,
		Resolv:   filepath.Join(runDir, "resolv.conf"),
		HostName: func() string { return readLine(filepath.Join(runDir, "hostname")) },
		Changed: func() {
			var list []string
			for _, a := range b.network.Addresses() {
				list = append(list, a.String())
			}
			b.screen.Update(func(s *screen.Status) { s.Addresses = list })
			poke(b.wake)
			poke(b.again)
		},
	}
	b.guard(ctx, "keeping the network", func(ctx context.Context) {
		if err := b.network.Run(ctx); err != nil {
			b.because("network", sentence(fmt.Errorf("the network can't be kept: %w", err)))
		}
	})
	return nil
}

func (b *Box) startClock(ctx context.Context) error {
	s := &clock.Syncer{
		Log:     b.log,
		Servers: b.timeServers,
		Known:   func() clock.Known { b.mu.Lock(); defer b.mu.Unlock(); return b.known },
		Wake:    b.wake,
		Synced:  b.synced,
		Query:   clock.Query,
		Set:     clock.Adjust,
	}
	b.screen.Update(func(st *screen.Status) { st.Clock = "not confirmed by a time server yet" })
	b.guard(ctx, "keeping the time", s.Run)
	b.guard(ctx, "keeping the last known time", b.keepTime)
	return nil
}

func (b *Box) timeServers() []string {
	var list []string
	for _, a := range b.network.TimeServers() {
		list = append(list, a.String())
	}
	return append(list, clock.Pool...)
}

func (b *Box) synced(s clock.Sync) {
	b.mu.Lock()
	first := b.known.Synced.IsZero() || s.Offset.Abs() >= time.Second
	b.known.Synced, b.known.Seen = s.At, s.At
	b.mu.Unlock()
	if first {
		b.log.Printf("clock: %s, %v off by %s", s.At.UTC().Format(time.RFC3339), s.Offset.Round(time.Millisecond), s.Server)
	}
	b.screen.Update(func(st *screen.Status) { st.Clock = "confirmed by " + s.Server })
	b.fact(func(f *facts.Facts) { f.Clock = facts.Clock{Source: "ntp", Synced: true, Server: s.Server} })
	b.saveTime()
}

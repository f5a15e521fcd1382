package stage1

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/u-root/u-root/pkg/mount"
	"golang.org/x/sys/unix"

	"gurtos/boot/disk"
	"gurtos/boot/guard"
	"gurtos/boot/modules"
	"gurtos/boot/mounts"
	"gurtos/boot/phase"
	"gurtos/boot/release"
	"gurtos/boot/uevent"
	"gurtos/image/layout"
)

const (
	newRoot = "/sysroot"
	// patience is how long partitions may stay away before people are told;
	// the search itself never ends, a slow or late disk still boots the box.
	patience = 15 * time.Second
)

// fileSystems are the modules that no device asks for.
var fileSystems = []string{"erofs"}

// Stage1 is one run.
type Stage1 struct {
	Log   *log.Logger
	Lines func() []string // all that was logged, for stage 2
	Say   func(string)    // tells people on the console what is waited for
	Start time.Time       // of the kernel

	words     release.Words
	loader    *modules.Loader
	began     int64         // milliseconds after the kernel's start
	changed   chan struct{} // a block device came; room for one
	mountable chan struct{} // closed when fileSystems are loaded
	system    disk.Part
}

// Run goes through all phases. It returns only when one failed: otherwise this
// process has become stage 2.
func (s *Stage1) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.changed = make(chan struct{}, 1)
	s.began = time.Since(s.Start).Milliseconds()
	return phase.Run(ctx, s.Log, s.phases(), func(string) {}, func(string, error) {})
}

func (s *Stage1) phases() []phase.Phase {
	return []phase.Phase{
		{Name: "kernel file systems", Run: s.mounts, Must: true},
		{Name: "drivers", Run: s.drivers, Must: true},
		{Name: "system partition", Run: s.mountSystem, Must: true},
		{Name: "tasks partition", Run: s.mountTasks},
		{Name: "switch to the system", Run: s.leave, Must: true},
	}
}

func (s *Stage1) mounts(context.Context) error {
	if err := mounts.All("/", mounts.Kernel); err != nil {
		return err
	}
	var err error
	s.words, err = release.CommandLine("/proc/cmdline")
	if err != nil {
		return err
	}
	for _, name := range []string{layout.CmdSystem, layout.CmdTasks} {
		if s.words[name] == "" {
			return fmt.Errorf("the kernel's command line has no %s, so there is no knowing which system belongs to it", name)
		}
	}
	return nil
}

// drivers starts loading and does not wait: the search for the partitions goes
// on as soon as the first disk shows.
func (s *Stage1) drivers(ctx context.Context) error {
	dir, err := modules.Dir(layout.Modules)
	if err != nil {
		return err
	}
	if s.loader, err = modules.New(dir, s.Log); err != nil {
		return err
	}
	events, err := uevent.Listen()
	if err != nil {
		return err
	}
	guard.Go("listening to devices", func() {
		if err := events.Run(ctx, s.hear); err != nil {
			s.Log.Print(err)
		}
	})
	s.mountable = make(chan struct{})
	guard.Go("loading file systems", func() {
		defer close(s.mountable)
		for _, name := range fileSystems {
			if err := s.loader.Load(name); err != nil {
				s.Log.Print(err) // the mount will say whether that matters
			}
		}
	})
	s.loader.Coldplug("/sys")
	return nil
}

func (s *Stage1) hear(e uevent.Event) {
	s.loader.Hear(e)
	if e.Lost || e.Subsystem == "block" {
		select {
		case s.changed <- struct{}{}:
		default:
		}
	}
}

// find waits for the partition of a type whose own GUID the command line gives.
func (s *Stage1) find(ctx context.Context, what, typ, guid string) (disk.Part, error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		disks, err := disk.List("/sys", "/dev")
		if err != nil {
			return disk.Part{}, err
		}
		for _, p := range disk.Find(disks, typ) {
			if !strings.EqualFold(p.GUID, guid) {
				continue
			}
			if _, err := os.Stat(p.Path()); err == nil { // the kernel may not have read the table yet
				return p, nil
			}
		}
		select {
		case <-s.changed:
		case <-late.C:
			s.Say(missing(what, guid, disks))
		case <-ctx.Done():
			return disk.Part{}, ctx.Err()
		}
	}
}

func missing(what, guid string, disks []disk.Disk) string {
	if len(disks) == 0 {
		return fmt.Sprintf("Still waiting for the %s partition %s: no disk has shown up.", what, guid)
	}
	names := make([]string, len(disks))
	for i, d := range disks {
		names[i] = d.String()
	}
	return fmt.Sprintf("Still waiting for the %s partition %s: it is on none of %s.", what, guid, strings.Join(names, ", "))
}

func (s *Stage1) mountSystem(ctx context.Context) error {
	p, err := s.find(ctx, "system", layout.TypeSystem, s.words[layout.CmdSystem])
	if err != nil {
		return err
	}
	s.system = p
	s.Log.Printf("system: %s, %s", p, p.GUID)
	<-s.mountable
	return mountRead(p, newRoot)
}

func (s *Stage1) mountTasks(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*patience) // without it the box still starts, and says so
	defer cancel()
	p, err := s.find(ctx, "tasks", layout.TypeTasks, s.words[layout.CmdTasks])
	if err != nil {
		return fmt.Errorf("the tasks partition %s was not found: %w", s.words[layout.CmdTasks], err)
	}
	return mountRead(p, filepath.Join(newRoot, layout.TasksRoot))
}

func mountRead(p disk.Part, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil && !errors.Is(err, unix.EROFS) {
		return err
	}
	// nodev holds for both: /dev is a file system of its own.
	if err := unix.Mount(p.Path(), dir, "erofs", unix.MS_RDONLY|unix.MS_NODEV|unix.MS_NOATIME, ""); err != nil {
		return fmt.Errorf("mount %s on %s: %w", p, dir, err)
	}
	return nil
}

// leave makes the system the root and becomes its init. The rootfs is emptied
// and hidden below, not left: a later pivot_root needs a root that hangs on
// another mount, and has it so.
func (s *Stage1) leave(context.Context) error {
	if err := os.MkdirAll("/run/gurtos", 0o755); err != nil {
		return err
	}
	slot := s.system.Name[strings.LastIndexByte(s.system.Name, '-')+1:]
	for name, text := range map[string]string{
		"slot":       slot,
		"stage1":     strconv.FormatInt(s.began, 10),
		"stage1.log": strings.Join(s.Lines(), "\n"),
	} {
		if err := os.WriteFile(filepath.Join("/run/gurtos", name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	log.SetOutput(s.Log.Writer()) // u-root's package speaks through the standard logger
	log.SetFlags(0)
	return mount.SwitchRoot(newRoot, layout.Bin+"/init")
}

package stage2

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/boot/data"
	"gurtos/boot/disk"
	"gurtos/boot/facts"
	"gurtos/boot/phase"
	"gurtos/boot/proc"
	"gurtos/boot/screen"
	"gurtos/core/durable"
	"gurtos/firstboot"
)

const (
	// quiet is how long no driver may have been loading before a blank disk is
	// taken: the box's own disk may just be slow to show.
	quiet = 2 * time.Second
	// timeEvery is how often the last known time is saved.
	timeEvery = 10 * time.Minute
)

var (
	timeFile = filepath.Join(dataDir, firstboot.Init, "time")
	markFile = filepath.Join(dataDir, firstboot.Init, "running")
)

// awaitData returns when there is a data disk that boxd can work on, or when
// ctx ends. Until then it tries again whenever the disks have changed; what it
// does to a disk itself makes the kernel tell of block devices too.
func (b *Box) awaitData(ctx context.Context) {
	for {
		var err error
		tried := diskNames()
		b.phases(ctx, []phase.Phase{{Name: "data disk", Run: func(ctx context.Context) error {
			err = b.bringData(ctx)
			return nil // said below, by its own reason
		}}})
		if err == nil {
			b.because("data", "")
			return
		}
		b.because("data", sentence(err))
		if b.loader != nil {
			b.loader.Release() // boxd may never answer: the power button and the screen are wanted all the same
		}
		b.screen.Update(func(s *screen.Status) { s.State, s.Doing = screen.Degraded, "" })
		for slices.Equal(tried, diskNames()) {
			select {
			case <-b.disks:
			case <-ctx.Done():
				return
			}
		}
	}
}

// diskNames describes all disks that are there.
func diskNames() []string {
	disks, err := disk.List("/sys", "/dev")
	if err != nil {
		return nil
	}
	names := make([]string, len(disks))
	for i, d := range disks {
		names[i] = d.String()
	}
	return names
}

// bringData finds the data disk, makes it on the first boot, and mounts it.
func (b *Box) bringData(ctx context.Context) error {
	d, err := b.findData(ctx)
	if err != nil {
		return err
	}
	if err := b.load("xfs"); err != nil {
		b.log.Print(err) // it may be built in
	}
	setup := &firstboot.Setup{Log: logAs(b.Ring, "firstboot"), MkFS: mkfs, Done: b.hold}
	if d.Fresh() {
		b.log.Printf("first boot: %s becomes the data disk", d.Disk)
	}
	if err := setup.Disk(ctx, &d); err != nil {
		return err
	}
	room, err := setup.Grow(&d)
	if err != nil {
		b.log.Print(err) // the file system is there all the same
	}
	if err := os.MkdirAll(dataDir, 0o755); err != nil && !errors.Is(err, unix.EROFS) {
		return err
	}
	shape, err := data.New(b.log).Attach(ctx, d.Part, dataDir)
	if err != nil {
		return err
	}
	if room && !shape.ReadOnly {
		if err := proc.Run(ctx, "xfs_growfs", "-d", dataDir); err != nil {
			b.log.Print(err)
			room = false
		}
	}
	b.describe(d, shape, room)
	if shape.ReadOnly {
		return errors.New(shape.Reason)
	}
	b.because("repair", shape.Reason)
	return b.settle(setup)
}

// findData looks for the data disk. A blank one is taken only after all
// drivers had their chance to bring the box's own.
func (b *Box) findData(ctx context.Context) (firstboot.Data, error) {
	find := func() (firstboot.Data, error) {
		disks, err := disk.List("/sys", "/dev")
		if err != nil {
			return firstboot.Data{}, err
		}
		return firstboot.Find(disks)
	}
	d, err := find()
	if err == nil && !d.Blank {
		return d, nil
	}
	if b.loader != nil {
		b.loader.Settle(ctx, quiet)
	}
	return find()
}

func (b *Box) load(module string) error {
	if b.loader == nil {
		return nil
	}
	return b.loader.Load(module)
}

// mkfs makes the data file system and waits until it is on the disk.
func mkfs(ctx context.Context, p disk.Part, options ...string) error {
	if err := proc.Run(ctx, "mkfs.xfs", append(options, p.Path())...); err != nil {
		return err
	}
	f, err := os.OpenFile(p.Path(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (b *Box) describe(d firstboot.Data, shape data.Shape, grown bool) {
	size, free, low, err := data.Space(dataDir)
	if err != nil {
		b.log.Print(err)
	}
	b.because("space", low)
	state := "ready"
	if shape.ReadOnly {
		state = "read-only"
	}
	b.fact(func(f *facts.Facts) {
		f.Data = facts.Data{State: state, Disk: d.Disk.String(), Size: size, Free: free, Fixed: shape.Repaired, Grown: grown}
		f.Stages.Data = b.since()
	})
}

// settle makes what first boot makes in the file system, and reads what the
// last run left.
func (b *Box) settle(setup *firstboot.Setup) error {
	b.mu.Lock()
	known := b.known
	b.mu.Unlock()
	if err := known.Load(timeFile); err != nil {
		b.log.Print(err)
	}
	b.mu.Lock()
	b.known = known
	b.mu.Unlock()
	if err := b.correctClock(); err != nil {
		b.log.Print(err)
	}

	box, err := setup.Files(durable.Disk, dataDir, time.Now())
	if errors.Is(err, unix.ENOSPC) && box.ID == "" {
		return err
	}
	if err != nil {
		return err
	}
	name := box.HostName
	if name != "" {
		if err := unix.Sethostname([]byte(name)); err != nil {
			b.log.Print(err)
		}
		if err := os.WriteFile(filepath.Join(runDir, "hostname"), []byte(name+"\n"), 0o644); err != nil {
			b.log.Print(err)
		}
	}
	b.screen.Update(func(s *screen.Status) { s.Name = name })

	previous := "clean"
	if _, err := os.Stat(markFile); err == nil {
		previous = "unclean"
		b.log.Print("the box was not shut down in order the last time")
	} else if box.Fresh {
		previous = "none"
	}
	// A full disk takes no mark: the next boot is then taken for one after a
	// shutdown in order, which costs a line in the log and nothing else.
	if err := durable.Replace(durable.Disk, markFile, []byte(time.Now().UTC().Format(time.RFC3339)+"\n"), 0o600); err != nil {
		b.log.Print(err)
	}
	b.mu.Lock()
	b.writable = true
	b.mu.Unlock()
	b.fact(func(f *facts.Facts) { f.BoxID, f.FirstRun, f.Previous = box.ID, box.Fresh, previous })
	return nil
}

// keepTime saves what the clock shows now and then.
func (b *Box) keepTime(ctx context.Context) {
	tick := time.NewTicker(timeEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			b.mu.Lock()
			b.known.Seen = time.Now()
			b.mu.Unlock()
			b.saveTime()
			_, _, low, err := data.Space(dataDir)
			if err == nil {
				b.because("space", low)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (b *Box) saveTime() {
	b.mu.Lock()
	known, writable := b.known, b.writable
	b.mu.Unlock()
	if !writable {
		return
	}
	if err := known.Save(durable.Disk, timeFile); err != nil {
		b.log.Print(err)
	}
}

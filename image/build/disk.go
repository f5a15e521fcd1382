package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"gurtos/image/disk"
	"gurtos/image/layout"
	"gurtos/image/step"
	"gurtos/image/uki"
)

// Image is a built system disk and what it was put together from, for those who boot parts of it alone.
type Image struct {
	Disk    string // the whole disk
	UKI     string
	Kernel  string
	Initrd  string
	Cmdline string // content, not a file
	System  string // file system
	Tasks   string // file system
	Modules string // folder of the kernel's modules, with their tables
}

// cmdline is what the kernel is told.
func (b *Build) cmdline(system, tasks uuid.UUID) string {
	words := []string{
		"console=tty0", "console=ttyS0,115200n8", "quiet", "loglevel=3", "panic=10",
		layout.CmdSystem + "=" + system.String(), layout.CmdTasks + "=" + tasks.String(),
		layout.CmdVersion + "=" + b.Release.Version, fmt.Sprintf("%s=%d", layout.CmdEpoch, b.Release.Time.Unix()),
	}
	if b.Debug {
		words = append(words, layout.CmdDebug)
	}
	return strings.Join(words, " ")
}

// chain is every step of the image, each after those it stands on.
type chain struct{ base, tasks, system, initrd, uki, disk step.Step }

func (c chain) steps() []step.Step {
	return []step.Step{c.base, c.tasks, c.system, c.initrd, c.uki, c.disk}
}

func (b *Build) chain(ctx context.Context) (c chain, err error) {
	c.base = b.base()
	if c.tasks, err = b.tasks(ctx, shipped); err != nil {
		return c, err
	}
	if c.system, err = b.system(ctx); err != nil {
		return c, err
	}
	if c.initrd, err = b.initrd(); err != nil {
		return c, err
	}
	c.uki = step.Step{
		Name: "uki", What: "boot file (UKI)", Room: 5e8,
		In: []step.Input{
			{Name: "the kernel and tools", Hash: c.base.Key()}, {Name: "the initramfs", Hash: c.initrd.Key()},
			{Name: "the system file system", Hash: c.system.Key()}, {Name: "the tasks file system", Hash: c.tasks.Key()},
			{Name: "the kernel command line", Hash: hashOf(b.cmdline(uuid.Nil, uuid.Nil))},
		},
		Make: func(ctx context.Context, w *step.Work) error { return b.makeUKI(ctx, w, c) },
	}
	c.disk = step.Step{
		Name: "disk", What: "system disk", Room: 2e9,
		In: []step.Input{
			{Name: "the boot file", Hash: c.uki.Key()}, {Name: "the system file system", Hash: c.system.Key()}, {Name: "the tasks file system", Hash: c.tasks.Key()},
			{Name: "the layout", Hash: hashOf(b.partitions(c, "", "", ""))},
		},
		Make: func(ctx context.Context, w *step.Work) error { return b.makeDisk(ctx, w, c) },
	}
	return c, nil
}

func (b *Build) makeUKI(ctx context.Context, w *step.Work, c chain) error {
	base, err := b.store.Get(ctx, c.base)
	if err != nil {
		return err
	}
	initrd, err := b.store.Get(ctx, c.initrd)
	if err != nil {
		return err
	}
	var files [4][]byte
	for i, name := range []string{base + "/" + baseStub, base + "/" + baseUname, base + "/" + baseKernel, initrd + "/" + InitrdFile} {
		if files[i], err = os.ReadFile(name); err != nil {
			return err
		}
	}
	cmdline := b.cmdline(idOf(c.system.Key()), idOf(c.tasks.Key()))
	if err := os.WriteFile(filepath.Join(w.Dir, CmdFile), []byte(cmdline), 0o644); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(w.Dir, UKIFile))
	if err != nil {
		return err
	}
	parts := uki.Parts{OSRelease: b.osRelease(), Uname: string(files[1]), Cmdline: cmdline, Kernel: files[2], Initrd: files[3]}
	return errors.Join(uki.Write(f, files[0], parts), f.Close())
}

// partitions is the system disk's table, filled from the given files.
func (b *Build) partitions(c chain, esp, system, tasks string) []disk.Partition {
	systemID, tasksID := idOf(c.system.Key()), idOf(c.tasks.Key())
	empty := func(name string) string { return uuid.NewSHA1(systemID, []byte(name)).String() }
	return []disk.Partition{
		{Name: layout.NameESP, Type: layout.TypeESP, ID: empty("esp"), Size: layout.SizeESP, From: esp},
		{Name: layout.NameSystemA, Type: layout.TypeSystem, ID: systemID.String(), Size: layout.SizeSystem, From: system},
		{Name: layout.NameTasksA, Type: layout.TypeTasks, ID: tasksID.String(), Size: layout.SizeTasks, From: tasks},
		{Name: layout.NameSystemB, Type: layout.TypeSystem, ID: empty("system-b"), Size: layout.SizeSystem},
		{Name: layout.NameTasksB, Type: layout.TypeTasks, ID: empty("tasks-b"), Size: layout.SizeTasks},
	}
}

func (b *Build) makeDisk(ctx context.Context, w *step.Work, c chain) error {
	boot, err := b.store.Get(ctx, c.uki)
	if err != nil {
		return err
	}
	system, err := b.store.Get(ctx, c.system)
	if err != nil {
		return err
	}
	tasks, err := b.store.Get(ctx, c.tasks)
	if err != nil {
		return err
	}
	loader := filepath.Join(w.Temp, "loader.efi")
	if err := copyFile(loader, filepath.Join(boot, UKIFile)); err != nil {
		return err
	}
	if err := os.Chtimes(loader, b.Release.Time, b.Release.Time); err != nil {
		return err
	}
	esp := filepath.Join(w.Temp, "esp.img")
	if err := disk.ESP(ctx, esp, layout.SizeESP, loader, b.Release.Time, w.Log); err != nil {
		return err
	}
	parts := b.partitions(c, esp, filepath.Join(system, SystemFile), filepath.Join(tasks, TasksFile))
	return disk.Write(filepath.Join(w.Dir, DiskFile), uuid.NewSHA1(space, []byte(c.disk.Name+c.system.Key())).String(), parts)
}

// Image makes the system disk, and all it is put together from. Programs must have been built.
func (b *Build) Image(ctx context.Context) (img Image, err error) {
	c, err := b.chain(ctx)
	if err != nil {
		return img, err
	}
	var dirs []string
	for _, st := range c.steps() {
		dir, err := b.store.Get(ctx, st)
		if err != nil {
			return img, err
		}
		dirs = append(dirs, dir)
	}
	cmdline, err := os.ReadFile(filepath.Join(dirs[4], CmdFile))
	if err != nil {
		return img, err
	}
	uname, err := os.ReadFile(filepath.Join(dirs[0], baseUname))
	if err != nil {
		return img, err
	}
	img = Image{
		Disk: filepath.Join(dirs[5], DiskFile), UKI: filepath.Join(dirs[4], UKIFile), Kernel: filepath.Join(dirs[0], baseKernel),
		Initrd: filepath.Join(dirs[3], InitrdFile), Cmdline: string(cmdline), System: filepath.Join(dirs[2], SystemFile), Tasks: filepath.Join(dirs[1], TasksFile),
		Modules: filepath.Join(dirs[0], baseRoot, "usr/lib/modules", string(uname)),
	}
	return img, b.record(img)
}

// Why tells of each step whether it would be made anew, and for which reasons.
func (b *Build) Why(ctx context.Context) (lines []string, err error) {
	c, err := b.chain(ctx)
	if err != nil {
		return nil, err
	}
	for _, st := range c.steps() {
		if why := b.store.Why(st); why == nil {
			lines = append(lines, st.What+": is there")
		} else {
			lines = append(lines, st.What+": would be made, since "+strings.Join(why, ", "))
		}
	}
	return lines, nil
}

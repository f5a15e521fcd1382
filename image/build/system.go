package build

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gurtos/image"
	"gurtos/image/erofs"
	"gurtos/image/kmod"
	"gurtos/image/layout"
	"gurtos/image/sbom"
	"gurtos/image/step"
	"gurtos/initramfs"
)

// The files of the system and boot steps.
const (
	SystemFile = "system.erofs"
	InitrdFile = "initrd"
	UKIFile    = "gurtos.efi"
	CmdFile    = "cmdline"
	DiskFile   = "disk.img"
)

// onBox are the programs that the box carries.
func onBox() (names []string) {
	for _, p := range programs {
		names = append(names, p.name)
	}
	return append(names, boxInit)
}

// binaries makes inputs of programs in bin/, which must have been built.
func (b *Build) binaries(names ...string) (in []step.Input, err error) {
	for _, name := range names {
		h, err := hashFile(filepath.Join(b.Root, "bin", name))
		if err != nil {
			return nil, fmt.Errorf("the box needs %s: %w", name, err)
		}
		in = append(in, step.Input{Name: name, Hash: h})
	}
	return in, nil
}

// system is the step that makes the system file system: what base picked and our own programs.
func (b *Build) system(ctx context.Context) (step.Step, error) {
	tool, err := erofs.Version(ctx)
	if err != nil {
		return step.Step{}, err
	}
	in, err := b.binaries(onBox()...)
	if err != nil {
		return step.Step{}, err
	}
	apps, err := b.apps()
	if err != nil {
		return step.Step{}, err
	}
	st := step.Step{
		Name: "system", What: "system file system", Room: 2e9,
		In: append(in,
			step.Input{Name: "the kernel and tools", Hash: b.base().Key()},
			step.Input{Name: "apps and their packages", Hash: apps.hash},
			step.Input{Name: "version", Hash: b.Release.Version},
			step.Input{Name: "the commit", Hash: hashOf(b.Release)},
			step.Input{Name: "the way it is put together", Hash: systemForm},
			step.Input{Name: "mkfs.erofs", Hash: tool},
			step.Input{Name: "compression", Hash: strings.Join(erofs.Compression, " ")},
		),
	}
	st.Make = func(ctx context.Context, w *step.Work) error { return b.makeSystem(ctx, w, st.Key(), apps) }
	return st, nil
}

// systemForm is counted up when makeSystem lays things differently.
const systemForm = "1"

func (b *Build) makeSystem(ctx context.Context, w *step.Work, key string, apps appTree) error {
	base, err := b.store.Get(ctx, b.base())
	if err != nil {
		return err
	}
	epoch, err := b.epoch()
	if err != nil {
		return err
	}
	w.Say("laying programs in")
	root := filepath.Join(w.Temp, "root")
	if err := copyTree(root, filepath.Join(base, baseRoot), nil); err != nil {
		return err
	}
	var parts []sbom.Part
	for _, name := range onBox() {
		from := filepath.Join(b.Root, "bin", name)
		if err := copyFile(root+layout.Bin+"/"+name, from); err != nil {
			return err
		}
		if name == boxInit {
			continue
		}
		p, err := sbom.Program(from)
		if err != nil {
			return err
		}
		parts = append(parts, p...)
	}
	if err := apps.lay(root); err != nil {
		return err
	}
	parts = append(parts, apps.parts...)
	for link, to := range map[string]string{"/usr/sbin/init": layout.Bin + "/init", "/usr/bin/box": layout.Bin + "/box"} {
		if err := replace(root+link, func(name string) error { return os.Symlink(to, name) }); err != nil {
			return err
		}
	}
	if b.Debug {
		if err := copyFile(root+"/usr/bin/busybox", filepath.Join(base, baseShell)); err != nil {
			return err
		}
		if err := os.Symlink("busybox", root+"/usr/bin/sh"); err != nil {
			return err
		}
	}
	release, err := b.releaseFile()
	if err != nil {
		return err
	}
	for path, text := range map[string][]byte{layout.Release: release, "/usr/lib/os-release": []byte(b.osRelease())} {
		if err := os.WriteFile(root+path, text, 0o644); err != nil {
			return err
		}
	}
	if err := replace(root+"/etc/os-release", func(name string) error { return os.Symlink("../usr/lib/os-release", name) }); err != nil {
		return err
	}
	debian, err := sbom.Read(filepath.Join(base, "system.cdx.json"))
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(w.Dir, "system.cdx.json"))
	if err != nil {
		return err
	}
	if err := errors.Join(sbom.Write(f, "gurtos-system", append(parts, debian...)), f.Close()); err != nil {
		return err
	}
	if err := copyFile(root+layout.SBOM, f.Name()); err != nil {
		return err
	}
	w.Say("packing")
	return erofs.Make(ctx, filepath.Join(w.Dir, SystemFile), root, idOf(key), epoch, w.Log)
}

func (b *Build) releaseFile() ([]byte, error) {
	j, err := json.MarshalIndent(b.Release, "", "\t")
	return append(j, '\n'), err
}

func (b *Build) osRelease() string {
	return fmt.Sprintf("ID=gurtos\nNAME=GurtOS\nPRETTY_NAME=\"GurtOS %s\"\nVERSION_ID=%s\nIMAGE_VERSION=%s\n", b.Release.Version, base, b.Release.Version)
}

// initrd is the step that makes the initramfs.
func (b *Build) initrd() (step.Step, error) {
	in, err := b.binaries("init")
	if err != nil {
		return step.Step{}, err
	}
	return step.Step{
		Name: "initramfs", What: "initramfs", Room: 5e8,
		In: append(in,
			step.Input{Name: "the kernel and tools", Hash: b.base().Key()},
			step.Input{Name: "the list of early drivers", Hash: hashOf(image.EarlyDrivers)},
			step.Input{Name: "the commit", Hash: hashOf(b.Release)},
			step.Input{Name: "the way it is put together", Hash: initrdForm},
		),
		Make: b.makeInitrd,
	}, nil
}

// initrdForm is counted up when makeInitrd lays things differently.
const initrdForm = "3"

func (b *Build) makeInitrd(ctx context.Context, w *step.Work) error {
	base, err := b.store.Get(ctx, b.base())
	if err != nil {
		return err
	}
	uname, err := os.ReadFile(filepath.Join(base, baseUname))
	if err != nil {
		return err
	}
	from := filepath.Join(base, baseRoot, "usr/lib/modules", string(uname))
	all, err := kmod.ReadAll(from)
	if err != nil {
		return err
	}
	builtin, err := kmod.Builtin(from)
	if err != nil {
		return err
	}
	early, err := all.Choose(image.EarlyDrivers, builtin)
	if err != nil {
		return err
	}
	release, err := b.releaseFile()
	if err != nil {
		return err
	}
	tree := initramfs.New()
	tree.Dir("/sysroot", 0o755)
	tree.File("/init", filepath.Join(b.Root, "bin", "init"), 0o755)
	tree.Text(layout.Release, string(release), 0o644)
	dir := layout.Modules + "/" + string(uname) + "/"
	for _, name := range early.Names() {
		tree.File(dir+early[name].Path, filepath.Join(from, early[name].Path), 0o644)
	}
	for name, text := range early.Tables() {
		tree.Text(dir+name, string(text), 0o644)
	}
	tree.File(dir+"modules.builtin", from+"/modules.builtin", 0o644)
	f, err := os.Create(filepath.Join(w.Dir, InitrdFile))
	if err != nil {
		return err
	}
	return errors.Join(tree.Write(f), f.Close())
}

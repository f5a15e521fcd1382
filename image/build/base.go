package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"gurtos/image"
	"gurtos/image/debian"
	"gurtos/image/kmod"
	"gurtos/image/step"
)

// What the base step's folder holds.
const (
	baseRoot   = "root"     // the picked tree
	baseKernel = "vmlinuz"  // the kernel
	baseStub   = "stub.efi" // systemd's UKI stub
	baseShell  = "busybox"  // for debug builds
	baseUname  = "uname"    // the kernel's release
)

// base is the step that picks the system root out of Debian's packages.
func (b *Build) base() step.Step {
	return step.Step{
		Name: "base", What: "kernel and tools from Debian", Room: 3e9,
		In: []step.Input{
			{Name: "the system recipe", Hash: hashOf([]any{image.System, image.Programs, image.Shell, image.Data, image.Drivers, image.NoDrivers})},
			{Name: "the way it is picked", Hash: baseForm},
			{Name: "Debian's suite", Hash: image.Suite},
			{Name: "the day of its packages", Hash: b.lock.AsOf},
		},
		Make: b.makeBase,
	}
}

// loader is Debian's program loader, where the kernel looks for it.
const loader = "/lib64/ld-linux-x86-64.so.2"

// baseForm is counted up when makeBase picks differently.
const baseForm = "3"

func (b *Build) makeBase(ctx context.Context, w *step.Work) error {
	epoch, err := b.epoch()
	if err != nil {
		return err
	}
	all := filepath.Join(w.Temp, "all")
	packages, err := debian.Root{Suite: image.Suite, Packages: image.System.Packages, Skip: image.System.Skip, Keep: image.System.Keep, Unpack: true, Epoch: epoch}.
		Make(ctx, all, w.Temp, w.Log, func(s string) { w.Say("%s", s) })
	if err != nil {
		return err
	}
	w.Say("picking programs and their libraries")
	root := filepath.Join(w.Dir, baseRoot)
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	if err := lay(root, image.System); err != nil {
		return fmt.Errorf("laying the recipe's files: %w", err)
	}
	p := &picker{from: all, to: root, taken: map[string]bool{}}
	for _, name := range image.Programs {
		if err := p.program(name); err != nil {
			return err
		}
		if err := run(ctx, w, "", nil, "chroot", root, loader, "--list", name); err != nil {
			return fmt.Errorf("%s would not start on the box: %w", name, err)
		}
	}
	if err := p.match(image.Data); err != nil {
		return err
	}
	if err := certificates(all, root, p); err != nil {
		return err
	}
	if err := b.bootFiles(ctx, w, p); err != nil {
		return err
	}
	var used []debian.Package
	for _, pkg := range packages {
		if slices.ContainsFunc(pkg.Files, func(f string) bool { return p.taken[f] }) {
			used = append(used, pkg)
			if err := licence(p, pkg, packages); err != nil {
				return err
			}
		}
	}
	return writeParts(w.Dir, "system", used, debianParts(used))
}

// licence takes a package's licence. Where its folder of documents is a link to that of another package of the same source, it is that one's.
func licence(p *picker, of debian.Package, all []debian.Package) error {
	for _, pkg := range append([]debian.Package{of}, all...) {
		path := "/usr/share/doc/" + pkg.Name + "/copyright"
		if _, err := os.Stat(p.from + path); pkg.Source == of.Source && err == nil {
			_, err := p.file(path)
			return err
		}
	}
	return fmt.Errorf("package %s brought no licence", of.Name)
}

// certificates joins the authorities that Debian trusts into the one file that programs read.
func certificates(all, root string, p *picker) error {
	files, err := filepath.Glob(all + "/usr/share/ca-certificates/mozilla/*.crt")
	if err != nil || len(files) < 50 {
		return errors.Join(err, fmt.Errorf("ca-certificates brought %d authorities", len(files)))
	}
	var joined bytes.Buffer
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		joined.Write(bytes.TrimSpace(text))
		joined.WriteByte('\n')
		p.taken[strings.TrimPrefix(f, all)] = true
	}
	to := root + "/etc/ssl/certs/ca-certificates.crt"
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, joined.Bytes(), 0o644)
}

// bootFiles takes the kernel, the stub, the shell and the modules.
func (b *Build) bootFiles(ctx context.Context, w *step.Work, p *picker) error {
	kernels, err := filepath.Glob(p.from + "/boot/vmlinuz-*")
	if err != nil || len(kernels) != 1 {
		return errors.Join(err, fmt.Errorf("the packages hold %d kernels, not one", len(kernels)))
	}
	uname := strings.TrimPrefix(filepath.Base(kernels[0]), "vmlinuz-")
	stub := "/usr/lib/systemd/boot/efi/linuxx64.efi.stub"
	for to, from := range map[string]string{baseKernel: strings.TrimPrefix(kernels[0], p.from), baseStub: stub, baseShell: image.Shell} {
		if err := copyFile(filepath.Join(w.Dir, to), p.from+from); err != nil {
			return err
		}
		p.taken[from] = to != baseShell
	}
	if err := os.WriteFile(filepath.Join(w.Dir, baseUname), []byte(uname), 0o644); err != nil {
		return err
	}
	w.Say("choosing and unpacking kernel modules")
	tree, err := kmod.OpenTree(p.from + "/usr/lib/modules/" + uname)
	if err != nil {
		return err
	}
	want, not := image.Match(image.Drivers), image.Match(image.NoDrivers)
	names := tree.Choose(func(path string) bool { return want.Has(path) && !not.Has(path) })
	out := p.to + "/usr/lib/modules/" + uname
	set, err := tree.Unpack(out, names, func(pairs [][2]string) error { return unxz(ctx, w, pairs) })
	if err != nil {
		return err
	}
	fmt.Fprintf(w.Log, "%d of %d kernel modules\n", len(set), tree.Len())
	for _, name := range []string{"modules.builtin", "modules.builtin.modinfo", "modules.order"} {
		if err := copyFile(out+"/"+name, p.from+"/usr/lib/modules/"+uname+"/"+name); err != nil {
			return err
		}
	}
	// modprobe reads depmod's binary tables.
	return run(ctx, w, "", []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin"}, "depmod", "--basedir", p.to, uname)
}

// unxz unpacks each pair's first file into its second.
func unxz(ctx context.Context, w *step.Work, pairs [][2]string) error {
	var files []string
	for _, p := range pairs {
		if err := copyFile(p[1]+".xz", p[0]); err != nil {
			return err
		}
		files = append(files, p[1]+".xz")
	}
	n := runtime.NumCPU()
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		var share []string
		for j := i; j < len(files); j += n {
			share = append(share, files[j])
		}
		if len(share) == 0 {
			continue
		}
		group.Go(func() {
			cmd := exec.CommandContext(ctx, "xz", append([]string{"--decompress", "--"}, share...)...)
			out, err := cmd.CombinedOutput()
			w.Log.Write(out)
			if err != nil {
				errs[i] = fmt.Errorf("unpacking %d modules with xz: %w", len(share), err)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

package build

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"gurtos/image/step"
)

// pinnedVersions reads what package-lock.json pins of the packages that go into the tasks root.
func (b *Build) pinnedVersions() (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(b.Root, "package-lock.json"))
	if err != nil {
		return nil, err
	}
	var lock struct {
		Packages map[string]struct{ Version, Integrity string }
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return nil, fmt.Errorf("package-lock.json: %w", err)
	}
	versions := map[string]string{}
	for _, p := range pinned {
		v := lock.Packages["node_modules/"+p].Version
		if v == "" {
			return nil, fmt.Errorf("package-lock.json pins no %s", p)
		}
		versions[p] = v
	}
	return versions, nil
}

// Packages brings the npm packages that package-lock.json pins into node_modules, unless they are there: Node for tasks and apps, and what tests of
// TypeScript need.
func (b *Build) Packages(ctx context.Context) (err error) {
	if b.packagesThere() {
		return nil
	}
	line := b.Show.Begin("npm packages")
	defer func() { line.End(err) }()
	log, err := os.Create(filepath.Join(b.cache, "log", "npm"))
	if err != nil {
		return err
	}
	defer log.Close()
	if err := b.node(ctx, log); err != nil {
		return &step.Failed{What: "npm packages", Log: log.Name(), Err: err}
	}
	return nil
}

// packagesThere says whether node_modules is what package-lock.json pins.
func (b *Build) packagesThere() bool {
	hash, err := hashFile(filepath.Join(b.Root, "package-lock.json"))
	have, herr := os.ReadFile(b.packagesStamp())
	return err == nil && herr == nil && string(have) == hash
}

func (b *Build) packagesStamp() string {
	return filepath.Join(b.Root, "node_modules", ".gurtos-lock")
}

// node is Packages with npm's output in a log.
func (b *Build) node(ctx context.Context, log io.Writer) error {
	unlock, err := b.lockPackages()
	if err != nil {
		return err
	}
	defer unlock()
	if b.packagesThere() { // perhaps another process brought them meanwhile
		return nil
	}
	// What npm leaves when it is interrupted must not look whole.
	if err := os.Remove(b.packagesStamp()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	hash, err := hashFile(filepath.Join(b.Root, "package-lock.json"))
	if err != nil {
		return err
	}
	known, own, err := b.workspaces()
	if err != nil {
		return err
	}
	dir := b.Root
	if own {
		if dir, err = b.without(known); err != nil {
			return err
		}
	}
	// With --prefix it doesn't look at folders above, where the tree is.
	cmd := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund", "--prefix", dir)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("npm ci: %w", err)
	}
	if own {
		if err := b.bring(dir, known); err != nil {
			return err
		}
	}
	return os.WriteFile(b.packagesStamp(), []byte(hash), 0o644)
}

// lockPackages keeps another process of this tree from changing node_modules.
func (b *Build) lockPackages() (unlock func(), err error) {
	dir := filepath.Join(b.Root, ".cache", "lock")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "npm"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := flock(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("locking node_modules: %w", err)
	}
	return func() { f.Close() }, nil
}

func flock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != unix.EINTR {
			return err
		}
	}
}

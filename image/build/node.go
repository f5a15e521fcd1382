package build

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

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

// node brings the npm packages that package-lock.json pins into node_modules, unless they are there.
func (b *Build) node(ctx context.Context, w *step.Work) error {
	hash, err := hashFile(filepath.Join(b.Root, "package-lock.json"))
	if err != nil {
		return err
	}
	stamp := filepath.Join(b.Root, "node_modules", ".gurtos-lock")
	if have, err := os.ReadFile(stamp); err == nil && string(have) == hash {
		return nil
	}
	w.Say("fetching npm packages")
	if err := run(ctx, w, b.Root, nil, "npm", "ci", "--no-audit", "--no-fund"); err != nil {
		return err
	}
	return os.WriteFile(stamp, []byte(hash), 0o644)
}

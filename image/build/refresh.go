package build

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"gurtos/image"
	"gurtos/image/step"
)

// LockFile is where packages.lock lies in the source tree.
const LockFile = "image/packages.lock"

// Refresh makes both roots of today's packages and writes down which those are.
func (b *Build) Refresh(ctx context.Context) error {
	b.lock = image.Lock{AsOf: time.Now().UTC().Format(time.DateOnly)}
	versions, err := b.Versions(ctx)
	if err != nil {
		return err
	}
	b.lock.Roots = versions
	return os.WriteFile(filepath.Join(b.Root, LockFile), []byte(b.lock.String()), 0o644)
}

// Versions tells which Debian packages at which versions are in each root, making the roots where they aren't there.
func (b *Build) Versions(ctx context.Context) (map[string]map[string]string, error) {
	tasks, err := b.tasks(ctx, shipped)
	if err != nil {
		return nil, err
	}
	versions := map[string]map[string]string{}
	for root, st := range map[string]step.Step{"tasks": tasks, "system": b.base()} {
		dir, err := b.store.Get(ctx, st)
		if err != nil {
			return nil, err
		}
		text, err := os.ReadFile(filepath.Join(dir, root+".versions.json"))
		if err != nil {
			return nil, err
		}
		var of map[string]string
		if err := json.Unmarshal(text, &of); err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		versions[root] = of
	}
	return versions, nil
}

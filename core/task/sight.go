package task

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/watch"
	"gurtos/sandbox/layers"
)

var _ watch.Tasks = (*Tasks)(nil)

// sighted is what a watch of files needs on disk: the workspace as its app last knew it,
// and perhaps as it is now.
type sighted struct {
	workspace string
	sights    []watch.Sight
}

// Watched is what is remembered of a watch, and how much time really passed since its
// Base.
func (t *Tasks) Watched(ctx context.Context, app, trigger string) (m watch.Memo, since time.Duration, ok bool, err error) {
	err = t.read(ctx, func(f *fold) error {
		m, ok = f.Memory.Watches.Get(app, trigger)
		since = time.Duration(f.Memory.Watches.Even-m.Base) * time.Millisecond
		if !t.seen.wall.IsZero() {
			since += t.opt.Mono() - t.seen.ran
		} else {
			since += max(t.opt.Now().Sub(time.UnixMilli(f.Memory.Watches.At)), 0)
		}
		return nil
	})
	return m, since, ok, err
}

// WorkspaceOf is the workspace of a task, "" when there is no such task.
func (t *Tasks) WorkspaceOf(id string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.fold.Tasks[id]; e != nil {
		return e.Workspace
	}
	return ""
}

// See is a workspace as it stands now. Its layers stay on disk for the watch until Hold
// says otherwise.
func (t *Tasks) See(ctx context.Context, app, trigger, workspace string) (watch.Sight, error) {
	if err := CheckWorkspaceName(workspace); err != nil {
		return watch.Sight{}, err
	}
	var s watch.Sight
	err := t.read(ctx, func(f *fold) error {
		s = watch.Sight{Layers: f.seen(workspace)}
		if t.hasWorkspace(workspace) != nil {
			s = watch.Sight{None: true}
		}
		h := t.sights[[2]string{app, trigger}]
		base := h.sights[:min(len(h.sights), 1)] // a look that failed is made again, and needs no other
		t.sights[[2]string{app, trigger}] = sighted{workspace, append(slices.Clip(base), s)}
		return nil
	})
	return s, err
}

// Hold keeps on disk what is needed to look at the workspace as it was in s, and lets go
// of all else that the watch held; without s, of all.
func (t *Tasks) Hold(app, trigger, workspace string, s ...watch.Sight) {
	t.mu.Lock()
	if len(s) == 0 {
		delete(t.sights, [2]string{app, trigger})
	} else {
		t.sights[[2]string{app, trigger}] = sighted{workspace, s}
	}
	t.mu.Unlock()
	t.tidy()
}

// HoldFor lets go of what watches hold that keep says no to.
func (t *Tasks) HoldFor(keep func(app, trigger string) bool) {
	t.mu.Lock()
	had := len(t.sights)
	for k := range t.sights {
		if !keep(k[0], k[1]) {
			delete(t.sights, k)
		}
	}
	gone := had - len(t.sights)
	t.mu.Unlock()
	if gone > 0 {
		t.tidy()
	}
}

// holdSeen holds what the log says that apps were told of last, as far as it is still
// there, for the watches that will be added again.
func (t *Tasks) holdSeen() {
	t.fold.Memory.Watches.Seen(func(app, trigger, workspace string, s watch.Sight) {
		t.sights[[2]string{app, trigger}] = sighted{workspace, []watch.Sight{{Layers: t.left(s), None: s.None}}}
	})
}

// left are the layers of a sight that are still layers: not those that became part of
// the base, nor those that were deleted, which nobody had to look at any more. mu is
// held, or nobody else is there yet.
func (t *Tasks) left(s watch.Sight) []string {
	var out []string
	for _, id := range s.Layers {
		if e := t.fold.Tasks[id]; e != nil && !e.Folded && t.disk[id] {
			out = append(out, id)
		}
	}
	return out
}

// Differ lists the files that differ between two sights, and whose paths keep takes.
func (t *Tasks) Differ(ctx context.Context, workspace string, was, is watch.Sight, keep func(path string) bool) ([]watch.Change, error) {
	for {
		v1, v2 := t.sightView(workspace, was), t.sightView(workspace, is)
		list, err := layers.Between(ctx, v1, v2, keep)
		if errors.Is(err, layers.ErrGone) && !(slices.Equal(v1.Lowers, t.sightView(workspace, was).Lowers) && slices.Equal(v2.Lowers, t.sightView(workspace, is).Lowers)) {
			continue // a layer became part of the base between the look and the opening
		}
		if err != nil {
			return nil, err
		}
		out := []watch.Change{}
		for _, c := range list {
			out = append(out, watch.Change{Path: c.Path, Change: c.Change})
		}
		return out, nil
	}
}

func (t *Tasks) sightView(workspace string, s watch.Sight) layers.View {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := layers.View{}
	if s.None {
		return v
	}
	if _, err := os.Lstat(t.workspaceDir(workspace)); err == nil {
		v.Base = t.workspaceDir(workspace)
	}
	for _, id := range t.left(s) {
		v.Lowers = append(v.Lowers, t.layerDir(id))
	}
	return v
}

// Saw notes that an app was told of the changes up to s.
func (t *Tasks) Saw(ctx context.Context, app, trigger, workspace string, s watch.Sight, changes int) error {
	return t.commit(ctx, func(f *fold) ([]actionlog.Event, error) {
		data := map[string]any{"app": app, "trigger": trigger, "changes": changes}
		if !slices.Equal(f.seen(workspace), s.Layers) {
			data["layers"] = append([]string{}, s.Layers...)
		}
		return one(note(watch.NoteSeen, data, ""))
	})
}

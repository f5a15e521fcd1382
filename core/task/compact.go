package task

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"gurtos/core/actionlog"
)

// A workspace may have any number of done tasks, but a view only so many layers. So
// the oldest ones become part of the workspace's base: those older than keepDays once
// there are foldAbove of them more than are kept, and foldAbove of any age, at once
// since each fold looks at the whole workspace, when there are more than mostLayers.
// Such a task can't be undone any more.
const (
	keptLayers = 64
	foldAbove  = 16
	mostLayers = 200 // a view takes layers.MaxLowers: those that a long task sees can't go before it ends
)

// foldedError says that a task can't be undone. at is empty while its changes are on
// their way into the workspace.
func foldedError(id, at string) error {
	if at == "" {
		return &Invalid{"", id + " can't be undone any more: its changes are just becoming part of the workspace, which has so many tasks"}
	}
	return &Invalid{"", id + " can't be undone any more: its changes have been part of the workspace since " + at}
}

func foldedNote(workspace string, tasks []string) actionlog.Event {
	return mustNote(noteFolded, map[string]any{"workspace": workspace, "tasks": tasks}, "")
}

// folded takes tasks out of the layers of their workspace.
func (f *fold) folded(tasks []string, at string) {
	for _, id := range tasks {
		if e := f.own(id); e != nil && e.State == Done {
			e.Folded, e.FoldedAt = true, at
			f.done[e.Workspace] = slices.DeleteFunc(f.done[e.Workspace], func(o string) bool { return o == id })
		}
	}
}

// compact makes old layers part of their workspaces' bases.
func (t *Tasks) compact(ctx context.Context) {
	for workspace, tasks := range t.foldable() {
		if err := t.foldLayers(ctx, workspace, tasks); err != nil && ctx.Err() == nil {
			t.opt.Slog.Error("old layers did not become part of their workspace", "workspace", workspace, "why", err)
		}
	}
}

// foldable are the tasks whose layers are to become part of their workspace now,
// oldest first. They count as folded from here on: nobody may undo them.
func (t *Tasks) foldable() map[string][]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[string][]string{}
	for workspace, done := range t.fold.done {
		n, most := 0, mostLayers
		if len(done) > mostLayers {
			most -= foldAbove
		}
		for n < len(done) && (len(done)-n > most || len(done)-n > keptLayers && t.aged(t.fold.Tasks[done[n]])) {
			n++
		}
		if n < foldAbove && len(done) <= mostLayers {
			continue
		}
		if n = t.seenByAll(workspace, done[:n]); n > 0 {
			out[workspace] = slices.Clone(done[:n])
			for _, id := range done[:n] {
				t.folding[id] = true
			}
		}
	}
	return out
}

// seenByAll is how many of the oldest layers everyone who looks at the workspace now
// sees as its oldest, in the same order: their views stay what they are.
func (t *Tasks) seenByAll(workspace string, done []string) int {
	n := len(done)
	common := func(newestFirst []string) {
		i := 0
		for _, id := range slices.Backward(newestFirst) {
			if e := t.fold.Tasks[id]; e != nil && e.Folded {
				continue
			}
			if i == n || id != done[i] {
				break
			}
			i++
		}
		n = i
	}
	for id := range t.fold.live {
		if e := t.fold.Tasks[id]; e.Workspace == workspace {
			common(e.Layers)
		}
	}
	// What was killed may live a moment longer than its state says.
	for id, r := range t.live {
		if t.fold.Tasks[id].Workspace == workspace {
			common(r.layers)
		}
	}
	for _, p := range t.puts {
		if p.workspace == workspace {
			common(p.seen)
		}
	}
	for key, h := range t.sights {
		was := n
		for _, s := range h.sights {
			if h.workspace == workspace && !s.None {
				common(s.Layers)
			}
		}
		// A watch that nobody looks after must not keep a workspace from folding until
		// no task can start in it: it goes on from what is left of its sight.
		if n < was && len(t.fold.done[workspace]) > mostLayers {
			n = was
			delete(t.sights, key)
		}
	}
	return n
}

func (t *Tasks) foldLayers(ctx context.Context, workspace string, tasks []string) error {
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, id := range tasks {
			delete(t.folding, id)
		}
	}()
	// What isn't on disk yet may not have happened.
	if err := t.read(ctx, func(*fold) error { return nil }); err != nil {
		return err
	}
	var lowers []string
	for _, id := range slices.Backward(tasks) {
		lowers = append(lowers, t.layerDir(id))
	}
	if err := t.opt.Layers.Fold(ctx, t.workspaceDir(workspace), lowers); err != nil {
		return err
	}
	return t.commit(context.WithoutCancel(ctx), func(*fold) ([]actionlog.Event, error) {
		return []actionlog.Event{foldedNote(workspace, tasks)}, nil
	})
}

// recoverBases finishes what a power cut broke off, before anything is mounted. Layers
// that are part of a base, though the log doesn't say so yet, are noted by mend.
func (t *Tasks) recoverBases() error {
	names, err := os.ReadDir(filepath.Join(t.opt.Home, "workspaces"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the workspaces: %w", err)
	}
	for _, n := range names {
		workspace := n.Name()
		if !n.IsDir() || CheckWorkspaceName(workspace) != nil || t.hasWorkspace(workspace) != nil {
			continue
		}
		dirs, ids := []string{}, map[string]string{}
		for _, id := range t.fold.done[workspace] {
			dirs = append(dirs, t.layerDir(id))
			ids[t.layerDir(id)] = id
		}
		applied, err := t.opt.Layers.RecoverBase(t.workspaceDir(workspace), dirs)
		if err != nil {
			return fmt.Errorf("workspace %s: %w", workspace, err)
		}
		for _, dir := range applied {
			if id, ok := ids[dir]; ok {
				t.applied[workspace] = append(t.applied[workspace], id)
				t.folding[id] = true
			}
		}
	}
	return nil
}

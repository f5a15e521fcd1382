package task

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"gurtos/sandbox/layers"
)

// Change is one path that a task changed.
type Change struct {
	Path          string   `json:"path"`
	Change        string   `json:"change"` // added, modified or deleted
	Size          int64    `json:"size"`   // bytes of a file, as the task left it
	Binary        bool     `json:"binary"`
	AlsoChangedBy []string `json:"alsoChangedBy"` // done tasks that this one did not see
}

// UndoPath is what undo would do to one path.
type UndoPath struct {
	Path    string   `json:"path"`
	Outcome string   `json:"outcome"` // removed, restored, kept or conflict
	Later   []string `json:"later"`   // tasks above that have the path too, newest first
}

// Tree opens a workspace as it is now: its base and every done task. Close it.
func (t *Tasks) Tree(ctx context.Context, workspace string) (*layers.Tree, error) {
	if err := CheckWorkspaceName(workspace); err != nil {
		return nil, err
	}
	if err := t.hasWorkspace(workspace); err != nil {
		var bad *Invalid
		if errors.As(err, &bad) {
			return nil, &NotFound{"workspace", workspace}
		}
		return nil, err
	}
	// A task that is undone between the look and the opening takes its layer along;
	// then the view has changed, and is looked at anew.
	for {
		v, err := t.now(ctx, workspace)
		if err != nil {
			return nil, err
		}
		tree, err := layers.OpenTree(v)
		if !errors.Is(err, layers.ErrGone) {
			return tree, err
		}
		again, nerr := t.now(ctx, workspace)
		if nerr != nil || slices.Equal(again.Lowers, v.Lowers) {
			return nil, errors.Join(err, nerr)
		}
	}
}

// now is the view of a workspace as it stands.
func (t *Tasks) now(ctx context.Context, workspace string) (layers.View, error) {
	v := layers.View{Base: t.workspaceDir(workspace)}
	err := t.read(ctx, func(f *fold) error {
		for _, id := range f.seen(workspace) {
			v.Lowers = append(v.Lowers, t.layerDir(id))
		}
		return nil
	})
	return v, err
}

// changed returns a task whose layer may be looked at, its view, and the layers of
// done tasks that it did not see.
func (t *Tasks) changed(ctx context.Context, id string) (e Task, v layers.View, others []string, err error) {
	var p part
	var done []string
	err = t.read(ctx, func(f *fold) error {
		en, err := f.entry(id)
		if err == nil {
			p, done = en.part(), f.seen(en.Workspace)
		}
		return err
	})
	if err != nil {
		return Task{}, layers.View{}, nil, err
	}
	if e, err = t.wholeOf(ctx, p); err != nil {
		return Task{}, layers.View{}, nil, err
	}
	for _, other := range done {
		if other != id && !slices.Contains(e.Layers, other) {
			others = append(others, t.layerDir(other))
		}
	}
	return e, t.view(e), others, nil
}

// EachChange gives fn what a task changed, against what it saw, path by path.
func (t *Tasks) EachChange(ctx context.Context, id string, fn func(Change) error) error {
	e, v, others, err := t.changed(ctx, id)
	if err != nil {
		return err
	}
	return t.noFiles(e, layers.EachChange(ctx, v, others, func(c layers.Change, also []string) error {
		return fn(Change{c.Path, c.Change, c.Size, c.Binary, tasksOf(also)})
	}))
}

// Diff is what a task changed at a path, "" for all, as a unified diff against what
// it saw.
func (t *Tasks) Diff(ctx context.Context, id, path string) (string, error) {
	e, v, _, err := t.changed(ctx, id)
	if err != nil {
		return "", err
	}
	b, err := layers.Diff(ctx, v, path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", &NotFound{"change of " + id + " at", shown(path)}
	}
	if err != nil {
		return "", t.noFiles(e, err)
	}
	return string(b), nil
}

// noFiles words the error of a layer that can't be read: nil where the task never had
// one, Gone where it was deleted.
func (t *Tasks) noFiles(e Task, err error) error {
	if !errors.Is(err, layers.ErrGone) {
		return err
	}
	if e.State == Queued || e.State == Failed && len(e.Layers) == 0 && e.Step == "" {
		return nil
	}
	return &Gone{e.ID}
}

func tasksOf(dirs []string) []string {
	out := []string{}
	for _, d := range dirs {
		out = append(out, filepath.Base(filepath.Dir(d)))
	}
	return out
}

// UndoPreview gives fn what undoing a task would do to the workspace, path by path.
func (t *Tasks) UndoPreview(ctx context.Context, id string, fn func(UndoPath) error) error {
	told := false
	tell := func(p UndoPath) error { told = true; return fn(p) }
	// A task that is undone between the look and the opening takes its layer along, as in
	// Tree. Nothing was told by then, and all is looked at anew.
	for tries, was := 0, []string(nil); ; tries++ {
		e, now, err := t.undoPreview(ctx, id, tell)
		if told || !errors.Is(err, layers.ErrGone) || tries > 0 && slices.Equal(now, was) {
			return t.noFiles(e, err)
		}
		was = now
	}
}

// undoPreview does so once, and gives the task and the layers that it looked at besides.
func (t *Tasks) undoPreview(ctx context.Context, id string, fn func(UndoPath) error) (e Task, lowers []string, err error) {
	e, v, _, err := t.changed(ctx, id)
	if err != nil {
		return e, nil, err
	}
	folded, since := false, ""
	if err := t.read(ctx, func(f *fold) error {
		folded, since = f.Tasks[id].Folded || t.folding[id], f.Tasks[id].FoldedAt
		return nil
	}); err != nil {
		return e, nil, err
	}
	if !e.State.Can(Undone) {
		return e, nil, &Refused{id, e.State, Undone}
	}
	if folded {
		return e, nil, foldedError(id, since)
	}
	if e.State != Done {
		// Nobody sees its layer: undo only takes it away.
		return e, v.Lowers, layers.EachChange(ctx, v, nil, func(c layers.Change, _ []string) error {
			outcome := layers.Restored
			if c.Change == layers.Added {
				outcome = layers.Removed
			}
			return fn(UndoPath{c.Path, outcome, []string{}})
		})
	}
	now, err := t.now(ctx, e.Workspace)
	if err != nil {
		return e, nil, err
	}
	return e, now.Lowers, layers.UndoPreview(ctx, now, t.layerDir(id), func(p layers.UndoPath) error {
		return fn(UndoPath{p.Path, p.Outcome, tasksOf(p.Later)})
	})
}

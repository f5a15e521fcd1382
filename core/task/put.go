package task

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"gurtos/core/actionlog"
	"gurtos/core/budget"
	"gurtos/sandbox/layers"
)

// PutFiles makes a finished task of what fill writes into a workspace: a layer like
// any other, so that it can be undone. When fill fails, nothing was made.
func (t *Tasks) PutFiles(ctx context.Context, workspace string, fill func(w *layers.Writer) error, by string) (Task, error) {
	if err := CheckWorkspaceName(workspace); err != nil {
		return Task{}, err
	}
	if err := t.hasWorkspace(workspace); err != nil {
		return Task{}, err
	}
	return t.change(ctx, Spec{Title: "Files put in", Prompt: "# files put in by " + cut(shown(by), 60), Workspace: workspace}, fill)
}

// DeleteFile makes a finished task of the deletion of a file or folder of a workspace,
// which can be undone as what was put in can.
func (t *Tasks) DeleteFile(ctx context.Context, workspace, path, by string) (Task, error) {
	if err := CheckWorkspaceName(workspace); err != nil {
		return Task{}, err
	}
	if err := t.hasWorkspace(workspace); err != nil {
		return Task{}, err
	}
	s := Spec{Title: "Files deleted", Prompt: "# " + cut(shown(path), 1000) + " deleted by " + cut(shown(by), 60), Workspace: workspace}
	return t.change(ctx, s, func(w *layers.Writer) error { return w.Delete(path) })
}

// change makes a finished task of what fill does to the workspace that s names.
func (t *Tasks) change(ctx context.Context, s Spec, fill func(w *layers.Writer) error) (Task, error) {
	id, seen, err := t.claim(ctx, s.Workspace)
	if err != nil {
		return Task{}, err
	}
	defer t.unclaim(id)
	s.Worker, s.Source, s.Tools, s.Hosts, s.BudgetCents = "fake", "api", []string{}, []string{}, budget.Cents{}
	out, err := t.write(ctx, id, s, seen, fill)
	if err != nil {
		if derr := t.dropAll(id); derr != nil {
			t.opt.Slog.Warn("files that were not taken stay on the disk until the next start", "folder", id, "why", derr)
		}
	}
	return out, err
}

// put is files that are being put into a workspace.
type put struct {
	workspace string
	seen      []string // tasks whose layers they are laid over, newest first
}

// claim takes an id, and holds the layers that its files are laid over, so that none
// is deleted under the writer.
func (t *Tasks) claim(ctx context.Context, workspace string) (id string, seen []string, err error) {
	err = t.read(ctx, func(f *fold) error {
		id, seen = newID(f), f.seen(workspace)
		t.puts[id] = put{workspace, seen}
		return nil
	})
	return id, seen, err
}

func (t *Tasks) unclaim(id string) {
	t.mu.Lock()
	delete(t.puts, id)
	t.mu.Unlock()
	t.tidy()
}

func (t *Tasks) write(ctx context.Context, id string, s Spec, seen []string, fill func(w *layers.Writer) error) (Task, error) {
	if err := os.MkdirAll(t.dir(id), 0o711); err != nil {
		return Task{}, err
	}
	if err := t.opt.Layers.Create(t.layerDir(id)); err != nil {
		return Task{}, err
	}
	view := t.view(Task{Spec: s, ID: id, Layers: seen})
	w, err := t.opt.Layers.Writer(view)
	if err != nil {
		return Task{}, err
	}
	err = fill(w)
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return Task{}, err
	}
	if err := t.opt.Layers.Seal(ctx, view); err != nil {
		return Task{}, fmt.Errorf("keeping the files: %w", err)
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return Task{}, err
	}
	var out part
	// One batch. A power cut in the middle of it leaves a task whose layer is sealed,
	// which the next start takes for what it is: done.
	err = t.commit(context.WithoutCancel(ctx), func(f *fold) ([]actionlog.Event, error) {
		err := t.submit([]actionlog.Event{
			{Type: actionlog.TypeTaskCreated, Task: id, Spec: raw, User: "box-" + id},
			{Type: actionlog.TypeTaskState, Task: id, State: string(Running), Layers: seen},
			{Type: actionlog.TypeTaskState, Task: id, State: string(Done)},
		})
		if err != nil {
			return nil, err
		}
		t.disk[id] = true
		out = f.Tasks[id].part()
		return nil, nil
	})
	if err != nil {
		return Task{}, err
	}
	return t.wholeOf(context.WithoutCancel(ctx), out)
}

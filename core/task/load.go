package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"gurtos/core/actionlog"
	"gurtos/core/approval"
	"gurtos/core/budget"
	"gurtos/core/permission"
)

// checkpointVersion is that of the folded state as it is kept beside the log. A
// state of another version is left alone and the log folded anew.
const checkpointVersion = 7

// checkpointEvery is after how many lines the folded state is kept anew.
const checkpointEvery = 20_000

// checkpoint is the fold as it is kept. A cache: the log alone is the truth.
type checkpoint struct {
	Version   int                          `json:"version"`
	At        string                       `json:"at"`
	Tasks     []*entry                     `json:"tasks"` // as they were created
	Done      map[string][]string          `json:"done"`
	Approvals *approval.Book               `json:"approvals"`
	Ledger    *budget.Ledger               `json:"ledger"`
	Paused    bool                         `json:"paused"`
	Full      bool                         `json:"full,omitempty"`
	Rights    map[string]permission.Rights `json:"rights"`
	Apps      map[string]bool              `json:"apps"`
	Noted     Noted                        `json:"noted"`
	Passed    passed                       `json:"passed"`
	InFlight  map[string]budget.Cents      `json:"inFlight"`
	Memory    memory                       `json:"memory"`
	Gap       bool                         `json:"gap,omitempty"`
	Marked    bool                         `json:"marked,omitempty"`
	Untold    bool                         `json:"untold,omitempty"`
	Orphans   orphans                      `json:"orphans,omitempty"`
}

// snapshot is the fold as it stands now, for one who encodes it aside while the fold
// goes on. It takes no time that grows with what old tasks were about.
func (f *fold) snapshot() checkpoint {
	c := checkpoint{
		Version: checkpointVersion, At: f.At, Done: map[string][]string{}, Approvals: f.Approvals.Snapshot(), Ledger: f.Ledger.Clone(),
		Paused: f.Paused, Full: f.Full, Rights: maps.Clone(f.Rights), Apps: maps.Clone(f.Apps), Noted: f.Noted.clone(), Passed: f.Passed, InFlight: maps.Clone(f.InFlight), Memory: f.Memory.clone(), Gap: f.Gap, Marked: f.Marked, Untold: f.Untold, Orphans: f.Orphans.clone(), Tasks: slices.Clone(f.order),
	}
	for workspace, done := range f.done {
		c.Done[workspace] = slices.Clone(done)
	}
	for id := range f.live {
		e := f.Tasks[id]
		c.Tasks[e.place] = e.clone()
	}
	return c
}

func decodeFold(seq int64, b []byte) (*fold, error) {
	f := newFold()
	c := checkpoint{Approvals: &f.Approvals, Ledger: &f.Ledger}
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, err
	}
	if c.Version != checkpointVersion {
		return nil, fmt.Errorf("version %d", c.Version)
	}
	f.Seq, f.At, f.Paused, f.Full, f.Memory, f.Gap = seq, c.At, c.Paused, c.Full, c.Memory, c.Gap
	f.Noted, f.Passed, f.Marked, f.Untold, f.Orphans = c.Noted, c.Passed, c.Marked, c.Untold, c.Orphans
	if c.Apps != nil {
		f.Apps = c.Apps
	}
	if c.Rights != nil {
		f.Rights = c.Rights
	}
	if c.InFlight != nil {
		f.InFlight = c.InFlight
	}
	for _, e := range c.Tasks {
		state := e.State
		e.State = ""
		f.add(e)
		f.enter(e, state)
	}
	// enter has them in the order of creation; the order in which they ended counts.
	if f.done = c.Done; f.done == nil {
		f.done = map[string][]string{}
	}
	return f, nil
}

// load folds the log, from the checkpoint on where there is one that can be read.
func (t *Tasks) load(ctx context.Context) error {
	if seq, b, ok := t.opt.Log.LoadCheckpoint(); ok {
		if f, err := decodeFold(seq, b); err == nil {
			t.fold = f
		} else {
			t.opt.Slog.Warn("the kept state is left alone and the log is read from its start", "why", err)
		}
	}
	return t.opt.Log.Read(ctx, t.fold.Seq, func(_ []byte, event func() (actionlog.Event, error)) error {
		ev, err := event()
		if err != nil {
			return err
		}
		return t.fold.apply(&ev)
	})
}

// save keeps the folded state beside the log when enough lines came since.
func (t *Tasks) save(least int64) error {
	t.mu.Lock()
	seq := t.fold.Seq
	if seq-t.saved < least || t.broken != nil {
		t.mu.Unlock()
		return nil
	}
	state := t.fold.snapshot()
	t.saved = seq
	t.mu.Unlock()
	b, err := approval.Plain(state)
	if err != nil {
		return err
	}
	// A state must not run ahead of the log that it is made of.
	if err := t.opt.Log.Wait(context.Background(), seq); err != nil {
		return err
	}
	return t.opt.Log.SaveCheckpoint(seq, b)
}

// listDisk finds the folders of tasks and deletes those that no task in the log has:
// a power cut came before the task's first line was on disk.
func (t *Tasks) listDisk() error {
	names, err := os.ReadDir(filepath.Join(t.opt.Home, "tasks"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the folders of tasks: %w", err)
	}
	for _, n := range names {
		id := n.Name()
		for _, layer := range []string{t.layerDir(id), t.homeDir(id)} {
			if err := t.opt.Layers.Recover(layer); err != nil {
				return fmt.Errorf("the layer of %s: %w", id, err)
			}
		}
		if t.fold.Tasks[id] != nil {
			t.disk[id] = true
			continue
		}
		if t.fold.Gap {
			stays, err := t.stays(id)
			if err != nil {
				return fmt.Errorf("the folder of %s: %w", id, err)
			}
			if stays {
				t.opt.Slog.Warn("a folder that no task has stays: what is cut out of the log may tell of it", "folder", id)
				continue
			}
		}
		if err := t.dropAll(id); err != nil {
			t.opt.Slog.Warn("a folder that no task has stays", "folder", id, "why", err)
		}
	}
	return nil
}

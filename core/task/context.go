package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gurtos/core/durable"
)

// contextFile holds, in a task's folder, what apps had to add to its prompt when it
// first started. The task can't write there.
const contextFile = "context"

// addContext asks the apps what they have to add, once, before the task first starts.
func (q *queue) addContext(t Task) error {
	name := filepath.Join(q.dir(t.ID), contextFile)
	if _, err := os.Lstat(name); q.opt.Context == nil || err == nil {
		return nil
	}
	spec, err := json.Marshal(t.Spec)
	if err != nil {
		return err
	}
	text := q.opt.Context(q.ctx, spec)
	if text == "" || q.ctx.Err() != nil {
		return nil
	}
	if err := durable.Replace(durable.Disk, name, []byte(text), 0o600); err != nil {
		return fmt.Errorf("what apps add to the prompt: %w", err)
	}
	return nil
}

// Context is what apps had to add to a task's prompt; "" for nothing.
func (t *Tasks) Context(id string) (string, error) {
	b, err := os.ReadFile(filepath.Join(t.dir(id), contextFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(b), err
}

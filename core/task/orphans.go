package task

import (
	"encoding/json"
	"maps"
	"os"

	"gurtos/core/actionlog"
	"gurtos/core/approval"
	"gurtos/core/budget"
)

// orphans are the tasks whose first line was cut out of the log, by id, and the tools of
// their calls that have no result yet, by key.
type orphans map[string]map[string]string

func (o orphans) clone() orphans {
	c := maps.Clone(o)
	for id, calls := range c {
		c[id] = maps.Clone(calls)
	}
	return c
}

// orphaned folds in a line of a task whose first line was cut out. What its tools were
// paid counts as spent: else their apps could spend the limit of that day once more.
func (f *fold) orphaned(ev *actionlog.Event) {
	calls := f.Orphans[ev.Task]
	if calls == nil {
		if calls = map[string]string{}; f.Orphans == nil {
			f.Orphans = orphans{}
		}
		f.Orphans[ev.Task] = calls
	}
	switch ev.Type {
	case actionlog.TypeToolCall:
		calls[ev.Key] = ev.Tool
	case actionlog.TypeApprovalAsked: // of a call, whose own line may be cut out too
		var a approval.Approval
		if json.Unmarshal(ev.Approval, &a) == nil && a.Tool != "" {
			calls[a.Key] = a.Tool
		}
	case actionlog.TypeToolResult:
		if c := cents(ev.Cents); c.Sign() > 0 {
			f.Ledger.AddTool(budget.Day(ev.At), AppOf(calls[ev.Key]), c, f.Passed.Known)
		}
		delete(calls, ev.Key)
	}
}

// stays says whether a folder that no task has is that of a task whose lines were cut out
// of the log, or may be: it was there at the first start after that. Such ones are marked
// then, by rights that let nobody else in; a folder that comes later and has no task is of
// one whose first line a power cut took. No clock is asked, which may have been wrong.
func (t *Tasks) stays(id string) (bool, error) {
	info, err := os.Lstat(t.dir(id))
	if err != nil {
		return false, err
	}
	if !info.IsDir() || info.Mode().Perm() == keptMode || t.fold.Orphans[id] != nil {
		return true, nil
	}
	if t.fold.Marked {
		return false, nil
	}
	dir, err := os.Open(t.dir(id))
	if err != nil {
		return false, err
	}
	defer dir.Close()
	if err := dir.Chmod(keptMode); err != nil {
		return false, err
	}
	return true, dir.Sync()
}

// keptMode marks a folder that stays. That of a task lets its user reach its socket.
const keptMode = 0o700

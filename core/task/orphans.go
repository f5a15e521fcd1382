package task

import (
	"maps"

	"gurtos/core/actionlog"
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
	case actionlog.TypeToolResult:
		if c := cents(ev.Cents); c.Sign() > 0 {
			f.Ledger.AddTool(budget.Day(ev.At), AppOf(calls[ev.Key]), c, f.Passed.Known)
		}
		delete(calls, ev.Key)
	}
}

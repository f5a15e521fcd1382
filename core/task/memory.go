package task

import (
	"encoding/json"

	"gurtos/core/actionlog"
	"gurtos/core/permission"
	"gurtos/core/watch"
)

const (
	noteUsed = "permission used" // {app, item}: at most hourly for an item
)

// memory is what the log tells of apps, besides what the owner decided.
type memory struct {
	Watches watch.Memory    `json:"watches"`
	Used    permission.Uses `json:"used,omitempty"`
}

func (m *memory) clone() memory { return memory{m.Watches.Clone(), m.Used.Clone()} }

// remember folds a line into the memory. It comes before the line changes anything else.
func (f *fold) remember(ev *actionlog.Event) {
	f.Memory.Watches.Pass(ev.At, ev.Clock)
	if f.Memory.Used == nil {
		f.Memory.Used = permission.Uses{}
	}
	used := f.Memory.Used
	switch ev.Type {
	case actionlog.TypeTaskCreated:
		var s struct {
			Worker  string
			Hosts   []string
			Folder  string
			Folders []string
		}
		if ev.App == "" || json.Unmarshal(ev.Spec, &s) != nil {
			return
		}
		for _, item := range needs(s.Worker, s.Hosts, s.Folder != "" || len(s.Folders) > 0) {
			used.See(ev.App, item, ev.At)
		}
	case actionlog.TypeToolCall:
		if extraCents(ev, "reserved").Sign() > 0 {
			used.See(AppOf(ev.Tool), permission.Money, ev.At)
		}
	case actionlog.TypeCost:
		if spender := extraText(ev, "spender"); spender != "" && ev.Model == "" {
			used.See(spender, permission.Money, ev.At)
		}
	case actionlog.TypeNote:
		f.rememberNote(ev)
	}
}

func (f *fold) rememberNote(ev *actionlog.Event) {
	if ev.Track != "box" {
		return
	}
	var d struct {
		What  string
		App   string
		Item  string
		Hosts []struct{ Host string }
	}
	if json.Unmarshal(ev.Data, &d) != nil {
		return
	}
	switch d.What {
	case noteUsed:
		f.Memory.Used.See(d.App, d.Item, ev.At)
	case noteNetwork:
		if e := f.Tasks[ev.Task]; e != nil && e.App != "" {
			for _, h := range d.Hosts {
				f.Memory.Used.Reached(e.App, h.Host, ev.At)
			}
		}
	default:
		f.Memory.Watches.Note(d.What, ev.Data, f.seen)
	}
}

// needs are the items that an app needs to start a task.
func needs(worker string, hosts []string, folders bool) []string {
	var items []string
	if worker != "fake" {
		items = append(items, permission.Shell)
	}
	if folders {
		items = append(items, permission.Folders)
	}
	for _, h := range hosts {
		items = append(items, "host:"+h)
	}
	return items
}

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

	parsed permission.Parsed // of Used
}

func (m *memory) clone() memory { return memory{Watches: m.Watches.Clone(), Used: m.Used.Clone()} }

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
		used.See(ev.App, ev.At, needs(s.Worker, s.Hosts, s.Folder != "" || len(s.Folders) > 0)...)
	case actionlog.TypeToolCall:
		if extraCents(ev, "reserved").Sign() > 0 {
			used.See(AppOf(ev.Tool), ev.At, permission.Money)
		}
	case actionlog.TypeCost:
		if spender := extraText(ev, "spender"); spender != "" && ev.Model == "" {
			used.See(spender, ev.At, permission.Money)
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
		f.Memory.Used.See(d.App, ev.At, d.Item)
	case noteNetwork:
		if e := f.Tasks[ev.Task]; e != nil && e.App != "" {
			if f.Memory.parsed == nil {
				f.Memory.parsed = permission.Parsed{}
			}
			hosts := make([]string, len(d.Hosts))
			for i, h := range d.Hosts {
				hosts[i] = h.Host
			}
			f.Memory.Used.Reached(e.App, hosts, ev.At, f.Memory.parsed)
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

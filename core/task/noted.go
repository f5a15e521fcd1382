package task

import (
	"context"
	"encoding/json"
	"maps"
)

// What the box notes about files of its own, whose state the log knows by it.
const (
	NoteKeySet        = "vault key set"     // {name, setAt, by}
	NoteKeyRemoved    = "vault key removed" // {name, by}
	NoteSettings      = "settings"          // {set, by}: values by name
	NoteWorkspace     = "workspace made"    // {name, by}
	NotePaired        = "device paired"     // {device, name, role}
	NoteDeviceRemoved = "device removed"    // {device, name, by}
)

// Noted is what the log says of the box's files. They are changed before their line is
// written, so a crash between the two leaves a change that Noted doesn't have; the next
// start finds it so.
type Noted struct {
	Settings map[string]json.RawMessage `json:"settings,omitempty"` // the last value of each that was ever set
	Keys     map[string]string          `json:"keys,omitempty"`     // of the vault, and when each was set
	Devices  map[string]string          `json:"devices,omitempty"`  // that are paired, and their names
	Spaces   map[string]bool            `json:"spaces,omitempty"`   // workspaces
}

func (k Noted) clone() Noted {
	return Noted{maps.Clone(k.Settings), maps.Clone(k.Keys), maps.Clone(k.Devices), maps.Clone(k.Spaces)}
}

// Noted is what the log says of the box's files up to now.
func (t *Tasks) Noted(ctx context.Context) (Noted, error) {
	var k Noted
	err := t.read(ctx, func(f *fold) error { k = f.Noted.clone(); return nil })
	return k, err
}

// take folds in a note about a file. One that isn't as this build writes it says nothing.
func (k *Noted) take(what string, data json.RawMessage) {
	var d struct {
		Name   string                     `json:"name"`
		SetAt  string                     `json:"setAt"`
		Device string                     `json:"device"`
		Set    map[string]json.RawMessage `json:"set"`
	}
	if json.Unmarshal(data, &d) != nil {
		return
	}
	switch what {
	case NoteSettings:
		for name, v := range d.Set {
			enterIn(&k.Settings, name, v)
		}
	case NoteKeySet:
		enterIn(&k.Keys, d.Name, d.SetAt)
	case NoteKeyRemoved:
		delete(k.Keys, d.Name)
	case NotePaired:
		enterIn(&k.Devices, d.Device, d.Name)
	case NoteDeviceRemoved:
		delete(k.Devices, d.Device)
	case NoteWorkspace:
		enterIn(&k.Spaces, d.Name, true)
	}
}

func enterIn[V any](m *map[string]V, name string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[name] = v
}

package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"gurtos/core/device"
	"gurtos/core/settings"
)

// byStart is who the log names for what a start found changed in a file.
const byStart = "box start"

// note logs a change of a file that is done. It doesn't end with the one who asked for it.
func (s *Server) note(what string, data map[string]any) error {
	return s.opt.Tasks.Note(context.Background(), what, data, "")
}

// Mend writes the lines that a crash kept out of the log: settings, keys, devices and
// workspaces are changed first and logged then, and what was changed by hand has no line
// either. A device whose pairing has no line is removed: nobody was told its token. Call
// it before anyone is answered.
func (s *Server) Mend(ctx context.Context) error {
	known, err := s.opt.Tasks.Noted(ctx)
	if err != nil {
		return err
	}
	note := func(what string, data map[string]any) error {
		if _, ok := data["by"]; !ok {
			data["by"] = byStart
		}
		return s.opt.Tasks.Note(ctx, what, data, "")
	}
	if set := settingsUnlike(known.Settings, s.opt.Settings.Values()); len(set) > 0 {
		if err := note(NoteSettings, map[string]any{"set": set}); err != nil {
			return err
		}
	}
	have := map[string]bool{}
	for _, k := range s.opt.Vault.List() {
		have[k.Name] = true
		if at, ok := known.Keys[k.Name]; ok && at == k.SetAt {
			continue
		}
		if err := note(NoteKeySet, map[string]any{"name": k.Name, "setAt": k.SetAt}); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known.Keys)) {
		if !have[name] {
			if err := note(NoteKeyRemoved, map[string]any{"name": name}); err != nil {
				return err
			}
		}
	}
	if err := s.mendDevices(known.Devices, note); err != nil {
		return err
	}
	spaces, err := s.opt.Workspaces.List()
	if err != nil {
		return err
	}
	for _, w := range spaces {
		if !known.Spaces[w.Name] {
			if err := note(NoteWorkspace, map[string]any{"name": w.Name}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Server) mendDevices(known map[string]string, note func(what string, data map[string]any) error) error {
	have := map[string]bool{}
	for _, d := range s.opt.Devices.List() {
		have[d.ID] = true
		if _, ok := known[d.ID]; ok {
			continue
		}
		if _, err := s.opt.Devices.Remove(d.ID); err != nil && !errors.Is(err, device.ErrMissing) {
			return fmt.Errorf("a device whose pairing broke off: %w", err)
		}
		if err := note(NoteDeviceRemoved, map[string]any{"device": d.ID, "name": d.Name}); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(known)) {
		if !have[id] {
			if err := note(NoteDeviceRemoved, map[string]any{"device": id, "name": known[id]}); err != nil {
				return err
			}
		}
	}
	return nil
}

// settingsUnlike are the settings that are not what the log says, which is the default
// where it says nothing.
func settingsUnlike(known map[string]json.RawMessage, now settings.Values) map[string]json.RawMessage {
	std, set := settings.Defaults(), map[string]json.RawMessage{}
	for _, row := range settings.Table {
		want, ok := known[row.Name]
		if !ok {
			want = row.JSON(std)
		}
		var plain bytes.Buffer
		if json.Compact(&plain, want) != nil || !bytes.Equal(plain.Bytes(), row.JSON(now)) {
			set[row.Name] = row.JSON(now)
		}
	}
	return set
}

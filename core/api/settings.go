package api

import (
	"encoding/json"
	"net/http"
	"slices"

	"gurtos/core/settings"
	"gurtos/core/strict"
)

// SettingsChange is settings by name; its shape is that of settings.Table.
type SettingsChange map[string]json.RawMessage

func (s *Server) settings(c *call) error {
	return c.json(http.StatusOK, s.opt.Settings.Values())
}

func (s *Server) setSettings(c *call) error {
	to, err := c.object()
	if err != nil {
		return err
	}
	changed, err := s.opt.Settings.Change(to)
	if err != nil {
		return err
	}
	if len(changed) > 0 {
		set, now := map[string]json.RawMessage{}, s.opt.Settings.Values()
		for _, row := range settings.Table {
			if slices.Contains(changed, row.Name) {
				set[row.Name] = row.JSON(now)
			}
		}
		if err := s.note(NoteSettings, map[string]any{"set": set, "by": c.caller.name()}); err != nil {
			return err
		}
	}
	return c.json(http.StatusOK, s.opt.Settings.Values())
}

// object reads the body as an object whose names the handler judges.
func (c *call) object() (map[string]json.RawMessage, error) {
	b, err := c.all()
	if err != nil {
		return nil, err
	}
	if err := strict.Check(b); err != nil {
		return nil, err
	}
	var to map[string]json.RawMessage
	if err := json.Unmarshal(b, &to); err != nil || to == nil {
		return nil, bad("the body is not a JSON object")
	}
	return to, nil
}

package api

import (
	"mime"
	"net/http"
	"strings"

	"gurtos/core/strict"
	"gurtos/core/vault"
)

func (s *Server) vaultList(c *call) error {
	return c.json(http.StatusOK, s.opt.Vault.List())
}

// Value is a key's value as JSON.
type Value struct {
	Value *string `json:"value" doc:"The key's value, at least 8 characters on one line."`
}

func (s *Server) vaultSet(c *call) error {
	body, err := c.all()
	if err != nil {
		return err
	}
	value, err := valueOf(body, c.r.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	name := c.r.PathValue("name")
	if err := s.opt.Vault.Set(name, value); err != nil {
		return err
	}
	if err := s.opt.Tasks.Note(c.r.Context(), NoteKeySet, map[string]any{"name": name, "by": c.caller.name()}, ""); err != nil {
		return err
	}
	for _, k := range s.opt.Vault.List() {
		if k.Name == name {
			return c.json(http.StatusOK, k)
		}
	}
	return vault.ErrMissing // removed by another request meanwhile
}

// noValue is all that a mistake in a value's JSON is told: the cause would tell
// some of its text.
const noValue = `value: the body is said to be JSON and is no {"value": "…"}`

// valueOf reads a value as it is, or {"value": "…"}: always the latter when the
// body says that it is JSON, and when it could be nothing else.
func valueOf(body []byte, contentType string) (string, error) {
	kind, _, _ := mime.ParseMediaType(contentType)
	var v Value
	err := strict.Decode(body, &v)
	if err == nil && v.Value != nil {
		return strings.TrimSpace(*v.Value), nil
	}
	if kind == "application/json" {
		return "", bad(noValue)
	}
	return strings.TrimSpace(string(body)), nil
}

func (s *Server) vaultDelete(c *call) error {
	if err := c.nothing(); err != nil {
		return err
	}
	name := c.r.PathValue("name")
	if err := s.opt.Vault.Delete(name); err != nil {
		return err
	}
	if err := s.opt.Tasks.Note(c.r.Context(), NoteKeyRemoved, map[string]any{"name": name, "by": c.caller.name()}, ""); err != nil {
		return err
	}
	return c.json(http.StatusOK, OK{true})
}

// OK says that it was done.
type OK struct {
	OK bool `json:"ok" doc:"Always true."`
}

package api

import (
	"encoding/json"
	"mime"
	"net/http"
	"slices"
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
	list := s.opt.Vault.List()
	i := slices.IndexFunc(list, func(k vault.Key) bool { return k.Name == name })
	if i < 0 {
		return vault.ErrMissing // removed by another request meanwhile
	}
	if err := s.note(NoteKeySet, map[string]any{"name": name, "setAt": list[i].SetAt, "by": c.caller.name()}); err != nil {
		return err
	}
	return c.json(http.StatusOK, list[i])
}

// noValue is all that a mistake in a value's JSON is told: the cause would tell
// some of its text.
const noValue = `value: the body is JSON and no {"value": "…"} with a string and nothing else in it`

// valueOf reads a value as it is, or {"value": "…"}. What was meant as the latter and
// isn't is refused: an object with that field, whatever the body is called, and what is
// called JSON and begins like it. Else it would be taken for the key itself.
func valueOf(body []byte, contentType string) (string, error) {
	var v Value
	if strict.Decode(body, &v) == nil && v.Value != nil {
		return strings.TrimSpace(*v.Value), nil
	}
	text := strings.TrimSpace(string(body))
	kind, _, _ := mime.ParseMediaType(contentType)
	var object map[string]json.RawMessage
	meant := json.Unmarshal(body, &object) == nil && object["value"] != nil
	if meant || kind == "application/json" && text != "" && strings.ContainsRune("{[\"", rune(text[0])) {
		return "", bad(noValue)
	}
	return text, nil
}

func (s *Server) vaultDelete(c *call) error {
	if err := c.nothing(); err != nil {
		return err
	}
	name := c.r.PathValue("name")
	if err := s.opt.Vault.Delete(name); err != nil {
		return err
	}
	if err := s.note(NoteKeyRemoved, map[string]any{"name": name, "by": c.caller.name()}); err != nil {
		return err
	}
	return c.json(http.StatusOK, OK{true})
}

// OK says that it was done.
type OK struct {
	OK bool `json:"ok" doc:"Always true."`
}

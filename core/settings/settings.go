package settings

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"gurtos/core/durable"
)

// version of settings.json that this build writes; it reads all up to it.
const version = 1

// Invalid is a setting that was refused.
type Invalid struct{ Field, Sentence string }

func (e *Invalid) Error() string { return e.Field + ": " + e.Sentence }

// Settings is the box's settings and their file.
type Settings struct {
	path string
	disk durable.FS

	change sync.Mutex // one Change at a time, over its sync; taken before mu

	mu     sync.Mutex // never held over a sync: every task asks for the values
	values Values     // guarded by mu; written with change held too
}

type file struct {
	Version  int                        `json:"version"`
	Settings map[string]json.RawMessage `json:"settings"`
}

// Open reads the file, which may be missing on a new box.
func Open(disk durable.FS, path string) (*Settings, error) {
	s := &Settings{path: path, disk: disk, values: Defaults()}
	b, err := durable.ReadFile(disk, path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the settings: %w", err)
	}
	var f file
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("%s is damaged: %v. Mend it, or move it away to start with the defaults", path, err)
	}
	if f.Version > version {
		return nil, fmt.Errorf("%s is of version %d and this build knows up to %d: a newer GurtOS wrote it, and this one leaves it as it is. Install the newer one again", path, f.Version, version)
	}
	if f.Version < 1 {
		return nil, fmt.Errorf("%s names no version. Mend it, or move it away to start with the defaults", path)
	}
	for name, raw := range f.Settings {
		if err := apply(&s.values, name, raw); err != nil {
			return nil, fmt.Errorf("%s: %w. Mend it, or move it away to start with the defaults", path, err)
		}
	}
	return s, nil
}

// Values are the settings as they hold now.
func (s *Settings) Values() Values {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.values
	v.DefaultHosts = slices.Clone(v.DefaultHosts)
	return v
}

// Change sets all that are named, or none when one of them is refused (an
// *Invalid). It returns the names of those that changed once they are on disk.
func (s *Settings) Change(to map[string]json.RawMessage) ([]string, error) {
	s.change.Lock()
	defer s.change.Unlock()
	next := s.values
	for _, n := range slices.Sorted(maps.Keys(to)) {
		if err := apply(&next, n, to[n]); err != nil {
			return nil, err
		}
	}
	was, is, std := fields(s.values), fields(next), fields(Defaults())
	var changed []string
	chosen := map[string]json.RawMessage{}
	for _, row := range Table {
		if string(was[row.Name]) != string(is[row.Name]) {
			changed = append(changed, row.Name)
		}
		if string(is[row.Name]) != string(std[row.Name]) {
			chosen[row.Name] = is[row.Name]
		}
	}
	if len(changed) == 0 {
		return nil, nil
	}
	b, err := json.MarshalIndent(file{version, chosen}, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := durable.Replace(s.disk, s.path, append(b, '\n'), 0o600); err != nil {
		return nil, fmt.Errorf("writing the settings: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values = next
	return changed, nil
}

func apply(v *Values, name string, raw json.RawMessage) error {
	row, ok := find(name)
	if !ok {
		return &Invalid{cmp.Or(clip(name), `""`), "the box has no setting of this name"}
	}
	if err := row.set(v, raw); err != nil {
		return &Invalid{name, err.Error()}
	}
	return nil
}

// JSON is the setting's value in v.
func (s Setting) JSON(v Values) json.RawMessage { return fields(v)[s.Name] }

// fields is each setting as JSON, by name.
func fields(v Values) map[string]json.RawMessage {
	m := map[string]json.RawMessage{}
	rv := reflect.ValueOf(v)
	for i := range rv.NumField() {
		raw, err := json.Marshal(rv.Field(i).Interface())
		if err != nil {
			panic(err) // numbers, strings and booleans alone
		}
		m[rv.Type().Field(i).Tag.Get("json")] = raw
	}
	return m
}

func clip(s string) string {
	if len(s) > 100 {
		return strings.ToValidUTF8(s[:100], "") + "…"
	}
	return s
}

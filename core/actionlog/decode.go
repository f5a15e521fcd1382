package actionlog

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Decode reads a line. Fields that this build doesn't know end up in Extra.
func Decode(line []byte) (Event, error) {
	var ev Event
	if !json.Valid(line) {
		return ev, errors.New("decode event: no JSON")
	}
	seen := make(map[string]bool, 16)
	err := eachField(line, func(name string, value []byte) error {
		if seen[name] {
			return fmt.Errorf("%s is there twice", name)
		}
		seen[name] = true
		return ev.set(name, value)
	})
	if err != nil {
		return Event{}, fmt.Errorf("decode event: %w", err)
	}
	return ev, nil
}

// MarshalJSON writes the event as Encode does.
func (ev Event) MarshalJSON() ([]byte, error) { return appendEvent(nil, &ev) }

// UnmarshalJSON reads an event as Decode does.
func (ev *Event) UnmarshalJSON(b []byte) error {
	got, err := Decode(b)
	if err == nil {
		*ev = got
	}
	return err
}

func (ev *Event) set(name string, value []byte) error {
	var into any
	switch name {
	case "seq":
		into = &ev.Seq
	case "at":
		into = &ev.At
	case "type":
		into = &ev.Type
	case "task":
		into = &ev.Task
	case "spec":
		ev.Spec = keep(value)
	case "user":
		into = &ev.User
	case "app":
		into = &ev.App
	case "state":
		into = &ev.State
	case "layers":
		into = &ev.Layers
	case "error":
		into = &ev.Error
	case "summary":
		into = &ev.Summary
	case "text":
		into = &ev.Text
	case "data":
		ev.Data = keep(value)
	case "key":
		into = &ev.Key
	case "tool":
		into = &ev.Tool
	case "input":
		ev.Input = keep(value)
	case "ok":
		into = &ev.OK
	case "output":
		ev.Output = keep(value)
	case "cents":
		into = &ev.Cents
	case "what":
		into = &ev.What
	case "model":
		into = &ev.Model
	case "tokens":
		ev.Tokens = keep(value)
	case "approval":
		ev.Approval = keep(value)
	case "id":
		into = &ev.ID
	case "approved":
		into = &ev.Approved
	case "by":
		into = &ev.By
	case "reason":
		into = &ev.Reason
	case "host":
		into = &ev.Host
	case "count":
		into = &ev.Count
	case "track":
		into = &ev.Track
	case "clock":
		into = &ev.Clock
	case "start":
		into = &ev.Start
	case "prev":
		into = &ev.Prev
	default:
		ev.Extra = append(ev.Extra, Field{name, keep(value)})
	}
	if into == nil {
		return nil
	}
	if s, ok := into.(*string); ok && plain(value) {
		*s = string(value[1 : len(value)-1])
		return nil
	}
	if err := json.Unmarshal(value, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func keep(value []byte) json.RawMessage { return append(json.RawMessage{}, value...) }

// plain says whether a value is a string that stands for itself.
func plain(value []byte) bool {
	if value[0] != '"' {
		return false
	}
	for _, c := range value[1 : len(value)-1] {
		if c == '\\' || c >= 0x80 {
			return false
		}
	}
	return true
}

// eachField calls fn for each field of a JSON object, which is known to be valid.
func eachField(object []byte, fn func(name string, value []byte) error) error {
	i := space(object, 0)
	if object[i] != '{' {
		return errors.New("an object is needed")
	}
	i = space(object, i+1)
	for object[i] != '}' {
		end := skip(object, i)
		raw := object[i:end]
		i = space(object, space(object, end)+1) // past the colon
		end = skip(object, i)
		var name string
		if plain(raw) {
			name = string(raw[1 : len(raw)-1])
		} else if err := json.Unmarshal(raw, &name); err != nil {
			return err
		}
		if err := fn(name, object[i:end]); err != nil {
			return err
		}
		if i = space(object, end); object[i] == ',' {
			i = space(object, i+1)
		}
	}
	return nil
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skip is the index behind the value that begins at b[i].
func skip(b []byte, i int) int {
	depth := 0
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		case ',', ':', ' ', '\t', '\n', '\r':
			continue
		default:
			for i+1 < len(b) && !ends(b[i+1]) {
				i++
			}
		}
		if depth == 0 {
			return i + 1
		}
	}
	return i
}

func ends(c byte) bool {
	switch c {
	case ',', ':', '}', ']', ' ', '\t', '\n', '\r':
		return true
	}
	return false
}

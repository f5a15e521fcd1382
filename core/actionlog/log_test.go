package actionlog

import (
	"encoding/json"
	"testing"
)

func TestAppendRead(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := l.Append(t.Context(), Event{Type: TypeNote, Track: "box", Data: json.RawMessage(`{"what": "x"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	l.Read(t.Context(), 1, func(line []byte, ev func() (Event, error)) error { n++; t.Log(string(line)); return nil })
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	t.Log(n)
}

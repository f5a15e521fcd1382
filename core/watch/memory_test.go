package watch

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"
)

// An app that gives its triggers ever other names fills no memory: the last ones are
// remembered.
func TestMemoryHasAnEnd(t *testing.T) {
	var m Memory
	at := time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC)
	for i := range 3 * maxMemos {
		m.Pass(stamp(at.Add(time.Duration(i)*time.Second)), 0)
		m.Note(NoteArmed, json.RawMessage(fmt.Sprintf(`{"app":"a","trigger":"t%d","watch":{"kind":"daily","name":"t%d","at":"08:00"}}`, i, i)), nil)
	}
	if len(m.Apps["a"]) != maxMemos {
		t.Errorf("%d are remembered", len(m.Apps["a"]))
	}
	for i := range maxMemos {
		if _, ok := m.Get("a", fmt.Sprint("t", 3*maxMemos-1-i)); !ok {
			t.Fatalf("the last but %d is forgotten", i)
		}
	}
}

// What a checkpoint keeps is all of it, and a copy shares nothing.
func TestMemoryOfACheckpoint(t *testing.T) {
	var m Memory
	done := func(string) []string { return []string{"t2", "t1"} }
	for i, n := range []struct{ what, data string }{
		{NoteArmed, `{"app":"a","trigger":"d","watch":{"kind":"daily","name":"d","at":"08:00","weekdays":["mon"]}}`},
		{NoteArmed, `{"app":"a","trigger":"f","watch":{"kind":"files","name":"f","workspace":"home","paths":["a/**"]}}`},
		{NoteArmed, `{"app":"b","trigger":"f","watch":{"kind":"files","name":"f","workspace":"none"},"none":true}`},
		{NoteRan, `{"app":"a","trigger":"d","due":"2026-12-01T08:00:00.000Z","date":"2026-12-01"}`},
		{NoteMissed, `{"app":"a","trigger":"d","due":"2026-12-05T08:00:00.000Z","date":"2026-12-05","left":2,"from":"2026-12-03"}`},
		{NoteSeen, `{"app":"a","trigger":"f","changes":1,"layers":["t1"]}`},
		{"another note", `{"app":"a","trigger":"d","date":"2026-12-09"}`},
		{NoteRan, `not JSON`},
		{NoteRan, `{"app":"nobody","trigger":"d","date":"2026-12-09"}`},
	} {
		m.Pass(stamp(time.Date(2026, 12, 1, 8, i, 0, 0, time.UTC)), int64(i%2)*1000)
		m.Note(n.what, json.RawMessage(n.data), done)
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var again Memory
	if err := json.Unmarshal(b, &again); err != nil || !reflect.DeepEqual(m, again) {
		t.Errorf("%v: %s", err, b)
	}
	if c := m.Clone(); !reflect.DeepEqual(m, c) {
		t.Error("the copy is another")
	} else {
		c.Apps["a"]["d"].Ran[0].To = 9
		c.Apps["a"]["f"].Sight.Layers[0] = "x"
		c.Apps["a"]["f"].Of.Paths[0] = "x"
	}
	if again, _ := json.Marshal(m); string(again) != string(b) {
		t.Error("the copy shares with it")
	}
	d := m.Apps["a"]["d"]
	if !d.Ran.has(day(t, "2026-12-01")) || d.Ran.has(day(t, "2026-12-09")) || !d.Told.has(day(t, "2026-12-04")) || d.Told.has(day(t, "2026-12-02")) {
		t.Errorf("%+v", d)
	}
	if s := m.Apps["a"]["f"].Sight; fmt.Sprint(s.Layers, s.None, m.Apps["b"]["f"].Sight.None) != "[t1] false true" {
		t.Errorf("%+v", s)
	}
}

package actionlog

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func yes() *bool { v := true; return &v }
func no() *bool  { v := false; return &v }

// TestEncode holds the exact line of each type: what it requires is there even if
// empty, what it doesn't have is absent.
func TestEncode(t *testing.T) {
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	for _, c := range []struct {
		ev   Event
		want string
	}{
		{Event{Type: TypeTaskCreated, Task: "t1", Spec: raw(`{"title": "x"}`), User: "box-t1"},
			`"type":"task.created","task":"t1","spec":{"title":"x"},"user":"box-t1"`},
		{Event{Type: TypeTaskCreated, Task: "t1", Spec: raw(`{}`), App: "jira"},
			`"type":"task.created","task":"t1","spec":{},"user":"","app":"jira"`},
		{Event{Type: TypeTaskState, Task: "t1", State: "running"},
			`"type":"task.state","task":"t1","state":"running"`},
		{Event{Type: TypeTaskState, Task: "t1", State: "done", Layers: []string{}, Summary: "s", Error: "e"},
			`"type":"task.state","task":"t1","state":"done","layers":[],"error":"e","summary":"s"`},
		{Event{Type: TypeTaskState, Task: "t1", State: "running", Layers: []string{"b", "a"}},
			`"type":"task.state","task":"t1","state":"running","layers":["b","a"]`},
		{Event{Type: TypeTaskStep, Task: "t1"}, `"type":"task.step","task":"t1","text":""`},
		{Event{Type: TypeTaskStep, Task: "t1", Text: "a", Data: raw("{ \"line\":\n1 }")},
			`"type":"task.step","task":"t1","text":"a","data":{"line":1}`},
		{Event{Type: TypeToolCall, Task: "t1"}, `"type":"tool.call","task":"t1","key":"","tool":"","input":null`},
		{Event{Type: TypeToolCall, Task: "t1", Key: "1", Tool: "a.b", Input: raw(`[1.10, "<&>"]`)},
			`"type":"tool.call","task":"t1","key":"1","tool":"a.b","input":[1.10,"<&>"]`},
		{Event{Type: TypeToolResult, Task: "t1", OK: no()}, `"type":"tool.result","task":"t1","key":"","ok":false`},
		{Event{Type: TypeToolResult, Task: "t1", Key: "1", OK: yes(), Output: raw(`null`), Error: "e", Cents: "0.10"},
			`"type":"tool.result","task":"t1","key":"1","ok":true,"output":null,"error":"e","cents":0.10`},
		{Event{Type: TypeApprovalAsked, Task: "t1", Approval: raw(`{"id":"t1.1"}`)},
			`"type":"approval.asked","task":"t1","approval":{"id":"t1.1"}`},
		{Event{Type: TypeApprovalAnswered, Task: "t1", ID: "t1.1", Approved: no()},
			`"type":"approval.answered","task":"t1","id":"t1.1","approved":false,"by":""`},
		{Event{Type: TypeApprovalAnswered, Task: "t1", ID: "t1.1", Approved: yes(), By: "box screen", Reason: "r"},
			`"type":"approval.answered","task":"t1","id":"t1.1","approved":true,"by":"box screen","reason":"r"`},
		{Event{Type: TypeCost}, `"type":"cost","cents":0,"what":""`},
		{Event{Type: TypeCost, Task: "t1", Cents: "12.5", What: "w", Model: "m", Tokens: raw(`{"input":1}`)},
			`"type":"cost","task":"t1","cents":12.5,"what":"w","model":"m","tokens":{"input":1}`},
		{Event{Type: TypeNetBlocked, Task: "t1"}, `"type":"net.blocked","task":"t1","host":""`},
		{Event{Type: TypeNetBlocked, Task: "t1", Host: "a:1", Count: 3}, `"type":"net.blocked","task":"t1","host":"a:1","count":3`},
		{Event{Type: TypeNote}, `"type":"note","track":"","data":null`},
		{Event{Type: TypeNote, Task: "t1", Track: "box", Data: raw(`{}`), Clock: -5, Extra: []Field{{"new", raw(` [ ]`)}}},
			`"type":"note","task":"t1","track":"box","data":{},"clock":-5,"new":[]`},
		{Event{Type: TypeNote, Track: "box", Data: raw(`{}`), Start: true}, `"type":"note","track":"box","data":{},"start":true`},
	} {
		c.ev.Seq, c.ev.At, c.ev.Prev = 7, "2026-01-02T03:04:05.006Z", "00"
		line, err := Encode(&c.ev)
		if err != nil {
			t.Errorf("%s: %v", c.want, err)
			continue
		}
		want := `{"seq":7,"at":"2026-01-02T03:04:05.006Z",` + c.want + `,"prev":"00"}`
		if string(line) != want {
			t.Errorf("line\n%s, want\n%s", line, want)
		}
		back, err := Decode(line)
		if err != nil {
			t.Errorf("decode %s: %v", line, err)
			continue
		}
		if again, err := Encode(&back); err != nil || string(again) != want {
			t.Errorf("encoded again\n%s (%v), want\n%s", again, err, want)
		}
	}
}

// TestEncodeRefuses holds what is a mistake of the caller, and that the error
// names the field.
func TestEncodeRefuses(t *testing.T) {
	for _, c := range []struct {
		ev    Event
		names string
	}{
		{Event{Type: "task.begun"}, "task.begun"},
		{Event{Type: TypeKeep, Task: "t1"}, "keep"},
		{Event{Type: TypeTaskStep, Text: "x"}, "task is missing"},
		{Event{Type: TypeTaskStep, Task: "t1", Summary: "x"}, "summary"},
		{Event{Type: TypeTaskState, Task: "t1"}, "state is missing"},
		{Event{Type: TypeTaskCreated, Task: "t1"}, "spec is missing"},
		{Event{Type: TypeToolResult, Task: "t1"}, "ok is missing"},
		{Event{Type: TypeApprovalAnswered, Task: "t1", ID: "x"}, "approved is missing"},
		{Event{Type: TypeToolCall, Task: "t1", Input: json.RawMessage(`{"a":}`)}, "input"},
		{Event{Type: TypeNote, Data: json.RawMessage("1\n{}")}, "data"},
		{Event{Type: TypeCost, Cents: "1,5"}, "cents"},
		{Event{Type: TypeCost, Cents: "NaN"}, "cents"},
		{Event{Type: TypeCost, Cents: "null"}, "cents"},
		{Event{Type: TypeCost, Cents: `"1"`}, "cents"},
	} {
		if line, err := Encode(&c.ev); err == nil || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%+v: line %s, error %v, want one about %q", c.ev, line, err, c.names)
		}
	}
}

// TestEncodeText holds that a line is one line and UTF-8, whatever the text is.
func TestEncodeText(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                     `"plain"`,
		"":                          `""`,
		"a\"b\\c":                   `"a\"b\\c"`,
		"line\nnext\r\tand\x00\x1f": `"line\nnext\r\tand\u0000\u001f"`,
		"\u2028 and \u2029":         `"\u2028 and \u2029"`,
		"bad \xff\xfe utf8":         `"bad \ufffd\ufffd utf8"`,
		"cut \xe2\x80":              `"cut \ufffd\ufffd"`,
		"surrogate \xed\xa0\x80":    `"surrogate \ufffd\ufffd\ufffd"`,
		"real \ufffd, ü, 🙂":         `"real ` + "\ufffd" + `, ü, 🙂"`,
		"<b>&\x7f":                  `"<b>&` + "\x7f" + `"`,
	} {
		got := string(appendString(nil, in))
		if got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	compact := string(appendCompact(nil, []byte("{ \"a\u2028\" : \"x \\\" \\\\\",\n\t\"b\xff\" : [ 1 , 2.50 , true ] }")))
	if want := `{"a\u2028":"x \" \\","b\ufffd":[1,2.50,true]}`; compact != want {
		t.Errorf("compact %s, want %s", compact, want)
	}
}

// TestDecode holds that a newer writer's fields survive, with their digits.
func TestDecode(t *testing.T) {
	line := `{"seq":3,"at":"2026-01-02T03:04:05.006Z","type":"note","track":"box","data":{"n":1.000},"mood":{"é": 12345678901234567890.10},"prev":"ab"}`
	ev, err := Decode([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	want := Event{Seq: 3, At: "2026-01-02T03:04:05.006Z", Type: TypeNote, Track: "box", Data: json.RawMessage(`{"n":1.000}`), Prev: "ab",
		Extra: []Field{{"mood", json.RawMessage(`{"é": 12345678901234567890.10}`)}}}
	if !reflect.DeepEqual(ev, want) {
		t.Errorf("event %+v, want %+v", ev, want)
	}
	for _, bad := range []string{"", "[]", "1", "null", `{"seq":"1"}`, `{"seq":1,"seq":2}`, `{"ok":1}`, `{"at":5}`, `{"seq":1}x`, `{"seq":1`} {
		if ev, err := Decode([]byte(bad)); err == nil {
			t.Errorf("%q decoded as %+v", bad, ev)
		}
	}
}

// FuzzDecode: what can be read and written is read again as the same.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"seq":3,"at":"x","type":"note","track":"box","data":{"n":1.000},"prev":"ab"}`))
	f.Add([]byte(`{"seq":3,"type":"tool.result","task":"t","key":"\u2028","ok":true,"output":[{}],"cents":1e5,"prev":""}`))
	f.Add([]byte("{\"type\":\"task.step\",\"task\":\"t\",\"text\":\"\xff\",\"zz\":\"\u2028\"}"))
	f.Add([]byte(` { "type" : "note" , "data" : "a\\\"b" } `))
	f.Fuzz(func(t *testing.T, in []byte) {
		ev, err := Decode(in)
		if err != nil {
			return
		}
		line, err := Encode(&ev)
		if err != nil {
			return
		}
		if !json.Valid(line) || !utf8.Valid(line) || strings.ContainsAny(string(line), "\n\r\u2028\u2029") {
			t.Fatalf("no line: %q", line)
		}
		back, err := Decode(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		again, err := Encode(&back)
		if err != nil || string(again) != string(line) {
			t.Fatalf("%s encodes as %s (%v)", line, again, err)
		}
	})
}

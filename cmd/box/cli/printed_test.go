package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"gurtos/core/actionlog"
)

// What a step printed stands below it, cut and safe for a terminal.
func TestPrinted(t *testing.T) {
	many := ""
	for i := range 50 {
		many += fmt.Sprintf("line %d.\n", i)
	}
	for _, c := range []struct{ data, want string }{
		{`{"line":1}`, ""},
		{`[1]`, ""},
		{`{"exit":0,"output":""}`, ""},
		{`{"exit":0,"output":"one\r\n\ttwo\n\n"}`, "one\n    two\n"},
		{`{"exit":3,"output":"\u001b[31mred\u001b[0m\u0007"}`, "exit code 3\nred \n"},
		{`{"text":"of a file"}`, "of a file\n"},
		{`{"status":404,"body":"no\n"}`, "status 404\nno\n"},
		{`{"error":"no such host"}`, "failed: no such host\n"},
		{`{"answer":{"ok":true,"output":{"a": 1}}}`, "{\"a\":1}\n"},
		{`{"answer":{"ok":true}}`, ""},
		{`{"answer":{"ok":false,"error":"not allowed"}}`, "failed: not allowed\n"},
		{`{"output":{"of":"a tool"},"text":"x"}`, "x\n"},
		{`{"output":"` + strings.Repeat("x", 1000) + `"}`, strings.Repeat("x", mostWide-1) + "…\n"},
	} {
		if got := below(t, c.data); got != c.want {
			t.Errorf("%s: %q, want %q", c.data, got, c.want)
		}
	}
	data, err := json.Marshal(map[string]string{"output": many})
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(below(t, string(data)), "\n"), "\n")
	if len(got) != mostPrinted+1 || got[0] != "line 0." || got[9] != "line 9." || got[11] != "line 40." || got[20] != "line 49." ||
		got[10] != "… 30 lines are left out here: box task log --json t1 has them" {
		t.Errorf("%q", got)
	}
}

// below is what is printed below a step of these data, without its indentation.
func below(t *testing.T, data string) string {
	t.Helper()
	var out bytes.Buffer
	s := &session{Env: Env{Out: &out}}
	ev := line{Event: actionlog.Event{Type: actionlog.TypeTaskStep, Task: "t1", Text: "x", Data: json.RawMessage(data)}}
	if err := s.showPrinted(ev); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for l := range strings.Lines(out.String()) {
		rest, ok := strings.CutPrefix(l, "        ")
		if !ok {
			t.Errorf("%q is not indented", l)
		}
		all.WriteString(rest)
	}
	return all.String()
}

package meter

import (
	"net/http"
	"strings"
	"testing"
)

const (
	begins   = `data: {"type":"message_start","message":{"type":"message","model":"m","usage":{"input_tokens":25,"cache_creation_input_tokens":7,"cache_read_input_tokens":100,"output_tokens":1}}}` + "\n\n"
	says     = `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"eight by"}}` + "\n\n"
	thinks   = `data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"eight by"}}` + "\n\n"
	calls    = `data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"eight by"}}` + "\n\n"
	letter   = `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}` + "\n\n"
	nothing  = `data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":""}}` + "\n\n"
	odd      = `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":7}}` + "\n\n"
	counts12 = `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":12}}` + "\n\n"
	oddCount = `data: {"type":"message_delta","delta":"end","usage":{"output_tokens":12}}` + "\n\n"
	stops    = `data: {"type":"message_stop"}` + "\n\n"
)

// TestStream holds what a stream is counted as, wherever it breaks off and however it is
// cut into pieces.
func TestStream(t *testing.T) {
	for _, c := range []struct {
		name, body string
		output     int64 // -1: nothing was said
		ended      bool
	}{
		{"whole", begins + says + counts12 + stops, 12, true},
		{"whole, with less than it looks", begins + strings.Repeat(says, 100) + counts12 + stops, 12, true},
		{"broken off before anything", "", -1, false},
		{"broken off in its first event", begins[:len(begins)-20], -1, false},
		{"broken off before its first word", begins + nothing, 1, false},
		{"broken off after some words", begins + strings.Repeat(says, 10), 20, false},
		{"broken off while it thinks", begins + strings.Repeat(thinks, 10), 20, false},
		{"broken off in a call", begins + strings.Repeat(calls, 10), 20, false},
		{"broken off after some letters", begins + strings.Repeat(letter, 10), 10, false},
		{"broken off in its last event", begins + strings.Repeat(says, 10) + counts12[:len(counts12)-4], 20, false},
		{"broken off before it says that it is over", begins + strings.Repeat(says, 10) + counts12, 12, false},
		{"with an event of another shape", begins + says + odd + oddCount + stops, 12, true},
		{"with what is no JSON", begins + "data: {\n\ndata:\n\n: comment\n\nevent: x\n\n" + says, 2, false},
	} {
		for _, size := range []int{1, 7, len(c.body) + 1} {
			m := For(&http.Response{Header: http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}}})
			for rest := c.body; rest != ""; {
				n := min(size, len(rest))
				m.Write([]byte(rest[:n])) //nolint:errcheck // it never fails
				rest = rest[n:]
			}
			u, ok := m.Usage()
			told := strings.Contains(c.body, counts12) || strings.Contains(c.body, oddCount)
			want := Usage{Model: "m", Input: 25, Output: c.output, CacheWrite: 7, CacheRead: 100, Estimate: !told}
			if c.output < 0 {
				want = Usage{}
			}
			if u != want || ok != (c.output >= 0) || m.Ended() != c.ended {
				t.Errorf("%s, %d bytes at a time: %+v, %v, ended %v", c.name, size, u, ok, m.Ended())
			}
		}
	}
}

// TestHidden holds which answers may have more in them than came, and which are none.
func TestHidden(t *testing.T) {
	block := func(kind string) string {
		return `data: {"type":"content_block_start","index":0,"content_block":{"type":"` + kind + `","text":"","data":"eA=="}}` + "\n\n"
	}
	const fault = `data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}` + "\n\n"
	for _, c := range []struct {
		name, kind, body string
		hidden, failed   bool
	}{
		{"nothing", "text/event-stream", "", true, false},
		{"before its first block", "text/event-stream", begins, true, false},
		{"text", "text/event-stream", begins + block("text") + says, false, false},
		{"a call", "text/event-stream", begins + block("text") + says + block("tool_use") + calls, false, false},
		{"thinking", "text/event-stream", begins + block("thinking"), true, false},
		{"thinking, then text", "text/event-stream", begins + block("thinking") + block("text") + says, true, false},
		{"thinking that nobody may read", "text/event-stream", begins + block("redacted_thinking") + block("text") + says, true, false},
		{"a block of another time", "text/event-stream", begins + block("daydream") + block("text") + says, true, false},
		{"an error alone", "text/event-stream", fault, true, true},
		{"an error in the middle", "text/event-stream", begins + block("text") + says + fault, false, false},
		{"an error as one object", "application/json", `{"type":"error","error":{"type":"api_error"}}`, true, true},
		{"half an object", "application/json", `{"type":"message","model":"m"`, true, false},
	} {
		m := For(&http.Response{Header: http.Header{"Content-Type": {c.kind}}})
		m.Write([]byte(c.body)) //nolint:errcheck // it never fails
		m.Usage()
		if m.Hidden() != c.hidden || m.Failed() != c.failed {
			t.Errorf("%s: hidden %v, failed %v", c.name, m.Hidden(), m.Failed())
		}
	}
}

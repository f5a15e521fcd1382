package meter

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// FuzzAsked holds that what a request asks is read the same however it is cut, never costs less than nothing nor more than
// there is, and ends where encoding/json has it end.
func FuzzAsked(f *testing.F) {
	for _, s := range []string{
		"", `{}`, `]]}}{`, ` {"model":"m","max_tokens":7} {"model":"x"}`, `{"max_tokens":1,"max_tokens":2e3,"model":["x"]}`,
		`{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/gif","data":"R0lGODdhAQABAAAAACwAAAAA"}}]}]}`,
		`{"messages":[{"content":[{"source":{"data":"JVBERi0xLjQKL1R5cGUgL1BhZ2UgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg","type":"base64"},"type":"document"}]}]}`,
		`{"messages":[{"content":[{"type":"image","source":{"type":"url","url":"x"}},{"type":"tool_result","content":[{"type":"text","text":"\"}]"}]}]}]}`,
		`{"messages":[{"content":[{"type":"image","source":{"type":"base64","data":"UklGRgAAAABXRUJQVlA4WAAAAAAAAAAA\/\/\/\/\/\/\/\/"}}]}]}`,
		`{"messages":{"content":{"source":{"data":"a","data":"b"},"source":{"type":"base64"},"type":"image"}}}`,
	} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, body []byte, size int) {
		var whole, cut Asked
		whole.Write(body) //nolint:errcheck // it never fails
		size = max(1, min(size, 99))
		for rest := body; len(rest) > 0; {
			n := min(size, len(rest))
			cut.Write(rest[:n]) //nolint:errcheck // it never fails
			rest = rest[n:]
		}
		if whole.AtMost() != cut.AtMost() || whole.End != cut.End || whole.Input() != cut.Input() {
			t.Errorf("%+v, and in pieces of %d %+v", whole.AtMost(), size, cut.AtMost())
		}
		if n := whole.Input(); n < 0 || n > MostRead {
			t.Errorf("%d tokens", n)
		}
		text := bytes.TrimLeft(body, " \t\r\n")
		if len(text) == 0 || text[0] != '{' {
			return
		}
		d := json.NewDecoder(bytes.NewReader(body))
		var v map[string]json.RawMessage
		if d.Decode(&v) != nil {
			return
		}
		if whole.End != d.InputOffset() {
			t.Errorf("it ends behind %d bytes, not %d", d.InputOffset(), whole.End)
		}
		if strings.ContainsAny(whole.Model, "\n\x00\x1b") {
			t.Errorf("the model is %q", whole.Model)
		}
	})
}

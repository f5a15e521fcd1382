package meter

import (
	"strings"
	"testing"
)

// TestAsked holds what a request's body bounds, however it is written and cut into pieces.
func TestAsked(t *testing.T) {
	long := strings.Repeat(`a \" } , \\`, 1000)
	for _, c := range []struct {
		name, body string
		model      string
		most       int64
	}{
		{"nothing", "", "", 0},
		{"plain", `{"model":"claude-opus-5","max_tokens":64000,"messages":[]}`, "claude-opus-5", 64000},
		{"with white space", " {\n\t\"max_tokens\" : 64000 ,\r\n \"model\" : \"claude-opus-5\" } ", "claude-opus-5", 64000},
		{"behind a long text", `{"messages":[{"role":"user","content":"` + long + `"}],"system":"` + long + `","model":"m","max_tokens":7}`, "m", 7},
		{"escaped", `{"\u006d\u0061\u0078\u005f\u0074\u006f\u006b\u0065\u006e\u0073":7,"mod\u0065l":"\u006d"}`, "m", 7},
		{"of another object", `{"metadata":{"max_tokens":9,"model":"x"},"model":"m","max_tokens":7,"a":[{"max_tokens":9,"model":"x"}]}`, "m", 7},
		{"in a text", `{"system":"\"max_tokens\":9,\"model\":\"x\"","model":"m","max_tokens":7}`, "m", 7},
		{"twice", `{"max_tokens":7,"model":"x","max_tokens":64000,"max_tokens":1,"model":"m"}`, "m", 64000},
		{"as a decimal", `{"max_tokens":6.4e4}`, "", 64000},
		{"as a text", `{"max_tokens":"7"}`, "", 0},
		{"below nothing", `{"max_tokens":-7}`, "", 0},
		{"beyond all", `{"max_tokens":1e300}`, "", 0},
		{"more than any model writes", `{"max_tokens":1000000000}`, "", MostWritten},
		{"a model that is none", `{"model":"a\nb"}`, "", 0},
		{"a model that is long", `{"model":"` + strings.Repeat("m", 1000) + `","max_tokens":7}`, "", 7},
		{"a model that is a list", `{"model":["m"],"max_tokens":7}`, "", 7},
		{"no JSON", `]]}}:,"model":"m"`, "", 0},
	} {
		for _, size := range []int{1, 7, len(c.body) + 1} {
			var a Asked
			for rest := c.body; rest != ""; {
				n := min(size, len(rest))
				a.Write([]byte(rest[:n])) //nolint:errcheck // it never fails
				rest = rest[n:]
			}
			if a.Model != c.model || a.Most != c.most || a.Bytes != int64(len(c.body)) {
				t.Errorf("%s, %d bytes at a time: model %q, most %d, %d of %d bytes", c.name, size, a.Model, a.Most, a.Bytes, len(c.body))
			}
		}
	}
}

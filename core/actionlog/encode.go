package actionlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// need says whether a type's line has a field.
type need uint8

const (
	never    need = iota // setting it is a mistake
	may                  // written when it is set
	must                 // written always, as "", 0 or null when it is not set
	mustHave             // as must, and it has to be set
)

// shape lists what a type carries besides seq, at, type, clock, start and prev.
type shape struct {
	task, spec, user, app, state, layers, error, summary, text, data, key, tool, input,
	ok, output, cents, what, model, tokens, approval, id, approved, by, reason, host, count, track need
}

// shapes is the table of page 3 of the specification, and of ours beyond it
// (app, reason, count).
var shapes = map[Type]shape{
	TypeTaskCreated:      {task: mustHave, spec: mustHave, user: must, app: may},
	TypeTaskState:        {task: mustHave, state: mustHave, layers: may, error: may, summary: may},
	TypeTaskStep:         {task: mustHave, text: must, data: may},
	TypeToolCall:         {task: mustHave, key: must, tool: must, input: must},
	TypeToolResult:       {task: mustHave, key: must, ok: mustHave, output: may, error: may, cents: may},
	TypeApprovalAsked:    {task: mustHave, approval: mustHave},
	TypeApprovalAnswered: {task: mustHave, id: mustHave, approved: mustHave, by: must, reason: may},
	TypeCost:             {task: may, cents: must, what: must, model: may, tokens: may},
	TypeNetBlocked:       {task: mustHave, host: must, count: may},
	TypeNote:             {task: may, track: must, data: must},
}

// Encode is the line for ev without its newline: seq first, prev last, so that
// both can be found without reading what is between them.
func Encode(ev *Event) ([]byte, error) { return appendEvent(nil, ev) }

func appendEvent(b []byte, ev *Event) ([]byte, error) {
	s, ok := shapes[ev.Type]
	if !ok {
		return nil, fmt.Errorf("encode event: %q is no type that this build writes", ev.Type)
	}
	w := lineWriter{b: b}
	w.b = append(w.b, `{"seq":`...)
	w.b = strconv.AppendInt(w.b, ev.Seq, 10)
	w.text("at", must, ev.At)
	w.text("type", must, string(ev.Type))
	w.text("task", s.task, ev.Task)
	w.raw("spec", s.spec, ev.Spec)
	w.text("user", s.user, ev.User)
	w.text("app", s.app, ev.App)
	w.text("state", s.state, ev.State)
	w.list("layers", s.layers, ev.Layers)
	w.text("key", s.key, ev.Key)
	w.text("tool", s.tool, ev.Tool)
	w.raw("input", s.input, ev.Input)
	w.flag("ok", s.ok, ev.OK)
	w.raw("output", s.output, ev.Output)
	w.text("error", s.error, ev.Error)
	w.text("summary", s.summary, ev.Summary)
	w.text("text", s.text, ev.Text)
	w.number("cents", s.cents, ev.Cents)
	w.text("what", s.what, ev.What)
	w.text("model", s.model, ev.Model)
	w.raw("tokens", s.tokens, ev.Tokens)
	w.raw("approval", s.approval, ev.Approval)
	w.text("id", s.id, ev.ID)
	w.flag("approved", s.approved, ev.Approved)
	w.text("by", s.by, ev.By)
	w.text("reason", s.reason, ev.Reason)
	w.text("host", s.host, ev.Host)
	w.integer("count", s.count, int64(ev.Count))
	w.text("track", s.track, ev.Track)
	w.raw("data", s.data, ev.Data)
	w.integer("clock", may, ev.Clock)
	if ev.Start {
		w.raw("start", may, json.RawMessage("true"))
	}
	for _, f := range ev.Extra {
		w.raw(f.Name, must, f.Value)
	}
	w.text("prev", must, ev.Prev)
	if w.err != nil {
		return nil, fmt.Errorf("encode event %s: %w", ev.Type, w.err)
	}
	return append(w.b, '}'), nil
}

// lineWriter appends fields and keeps the first error.
type lineWriter struct {
	b   []byte
	err error
}

// wants checks a field against its need and begins it when it is to be written.
func (w *lineWriter) wants(name string, n need, set bool) bool {
	switch {
	case w.err != nil:
		return false
	case n == never && set:
		w.err = fmt.Errorf("%s doesn't belong to this type", name)
		return false
	case n == mustHave && !set:
		w.err = fmt.Errorf("%s is missing", name)
		return false
	case n == never, n == may && !set:
		return false
	}
	w.b = append(w.b, ',')
	w.b = appendString(w.b, name)
	w.b = append(w.b, ':')
	return true
}

func (w *lineWriter) text(name string, n need, v string) {
	if w.wants(name, n, v != "") {
		w.b = appendString(w.b, v)
	}
}

func (w *lineWriter) raw(name string, n need, v json.RawMessage) {
	if !w.wants(name, n, len(v) > 0) {
		return
	}
	if len(v) == 0 {
		w.b = append(w.b, "null"...)
		return
	}
	if !json.Valid(v) {
		w.err = fmt.Errorf("%s is no JSON", name)
		return
	}
	w.b = appendCompact(w.b, v)
}

func (w *lineWriter) list(name string, n need, v []string) {
	if !w.wants(name, n, v != nil) {
		return
	}
	w.b = append(w.b, '[')
	for i, s := range v {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = appendString(w.b, s)
	}
	w.b = append(w.b, ']')
}

func (w *lineWriter) flag(name string, n need, v *bool) {
	if w.wants(name, n, v != nil) {
		w.b = strconv.AppendBool(w.b, *v)
	}
}

func (w *lineWriter) integer(name string, n need, v int64) {
	if w.wants(name, n, v != 0) {
		w.b = strconv.AppendInt(w.b, v, 10)
	}
}

func (w *lineWriter) number(name string, n need, v json.Number) {
	if !w.wants(name, n, v != "") {
		return
	}
	if v == "" {
		v = "0"
	}
	if !json.Valid([]byte(v)) || v[0] != '-' && (v[0] < '0' || v[0] > '9') {
		w.err = errors.New(name + " is no number")
		return
	}
	w.b = append(w.b, v...)
}

const hexDigits = "0123456789abcdef"

// appendString writes s as a JSON string. What is no UTF-8 becomes U+FFFD, and
// U+2028 and U+2029 are escaped, since some readers take them for line ends.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		size := 1
		var escaped string
		switch {
		case c == '"':
			escaped = `\"`
		case c == '\\':
			escaped = `\\`
		case c == '\n':
			escaped = `\n`
		case c == '\r':
			escaped = `\r`
		case c == '\t':
			escaped = `\t`
		case c < 0x20:
			escaped = `\u00` + string(hexDigits[c>>4]) + string(hexDigits[c&15])
		default:
			var r rune
			r, size = utf8.DecodeRuneInString(s[i:])
			if escaped = escapeRune(r, size); escaped == "" {
				i += size
				continue
			}
		}
		b = append(b, s[from:i]...)
		b = append(b, escaped...)
		i += size
		from = i
	}
	b = append(b, s[from:]...)
	return append(b, '"')
}

// escapeRune is what stands for a rune that can't be written as it is, "" for one
// that can.
func escapeRune(r rune, size int) string {
	switch {
	case r == utf8.RuneError && size == 1:
		return `\ufffd`
	case r == '\u2028':
		return `\u2028`
	case r == '\u2029':
		return `\u2029`
	}
	return ""
}

// appendCompact writes valid JSON on one line: no white space between tokens,
// strings as appendString has them, numbers digit for digit.
func appendCompact(b, v []byte) []byte {
	inString := false
	for i := 0; i < len(v); {
		c := v[i]
		switch {
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRune(v[i:])
			if escaped := escapeRune(r, size); escaped != "" {
				b = append(b, escaped...)
			} else {
				b = append(b, v[i:i+size]...)
			}
			i += size
			continue
		case inString && c == '\\':
			b = append(b, c, v[i+1])
			i += 2
			continue
		case c == '"':
			inString = !inString
		case !inString && (c == ' ' || c == '\t' || c == '\n' || c == '\r'):
			i++
			continue
		}
		b = append(b, c)
		i++
	}
	return b
}

package meter

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// Asked is a writer that a request's body passes through. It knows what bounds the cost
// of an answer that never tells what it used.
type Asked struct {
	Model string // "" where the body has none that a model could have
	Most  int64  // tokens that the answer may have, max_tokens; 0 where the body does not say
	Bytes int64

	depth   int // of objects and lists
	text    bool
	escaped bool
	buf     []byte // the string or the number that is read, of the outermost object
	name    string // the field that it belongs to
}

// maxField bounds a field's name or value that is kept: as long as "max_tokens" is when
// each of its letters is escaped, and as any model's name.
const maxField = 128

// Write reads along; it never fails.
func (a *Asked) Write(p []byte) (int, error) {
	a.Bytes += int64(len(p))
	for i := 0; i < len(p); i++ {
		if a.text && !a.escaped && a.depth > 1 { // nearly all of a body: the text of its messages
			n := bytes.IndexAny(p[i:], `"\`)
			if n < 0 {
				break
			}
			i += n
		}
		a.read(p[i])
	}
	return len(p), nil
}

func (a *Asked) read(c byte) {
	if a.text {
		a.keep(c)
		switch {
		case a.escaped:
			a.escaped = false
		case c == '\\':
			a.escaped = true
		case c == '"':
			a.text = false
		}
		return
	}
	switch c {
	case '"':
		a.text = true
		a.keep(c)
	case '{', '[':
		a.depth++
	case '}', ']':
		a.field()
		a.depth--
	case ',':
		a.field()
	case ':':
		if a.depth == 1 {
			a.name, a.buf = unquoted(a.buf), a.buf[:0]
		}
	case ' ', '\t', '\r', '\n':
	default:
		a.keep(c)
	}
}

func (a *Asked) keep(c byte) {
	if a.depth == 1 && len(a.buf) <= maxField {
		a.buf = append(a.buf, c)
	}
}

// field takes a field of the outermost object, once it is whole. Of several with one name
// the service may take any: the highest bound counts.
func (a *Asked) field() {
	if a.depth != 1 {
		return
	}
	switch a.name {
	case "model":
		a.Model = unquoted(a.buf)
		if strings.ContainsFunc(a.Model, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			a.Model = "" // it goes into the log
		}
	case "max_tokens":
		if f, err := strconv.ParseFloat(string(a.buf), 64); err == nil && f > 0 && f < 1<<53 {
			a.Most = max(a.Most, int64(f))
		}
	}
	a.name, a.buf = "", a.buf[:0]
}

func unquoted(b []byte) (s string) {
	json.Unmarshal(b, &s) //nolint:errcheck // what is no string is ""
	return s
}

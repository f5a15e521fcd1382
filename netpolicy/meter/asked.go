package meter

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// MostWritten and MostRead are the longest answer and the longest prompt, in tokens, that
// any model of the service takes.
const (
	MostWritten = 128_000
	MostRead    = 1_000_000
)

// Asked is a writer that a request's body passes through. It knows what bounds the cost
// of an answer that never tells what it used.
type Asked struct {
	Model string // "" where the body has none that a model could have
	Most  int64  // tokens that the answer may have, max_tokens, MostWritten at most; 0 where the body does not say
	Bytes int64  // of the body so far
	End   int64  // bytes up to the end of the question; 0 while it has none: what comes later changes nothing

	shown int64 // tokens of the pictures and documents that were met
	apart int64 // bytes of the body that are theirs, and no text

	depth   int     // of objects and lists
	open    []frame // the outermost of them
	text    bool
	escaped bool
	data    *data  // the string that is read is one that may be a picture or a document
	buf     []byte // the string or the number that is read, where it may matter
	name    string // the field that it belongs to
}

// frame is an object or a list whose fields are looked at.
type frame struct {
	name string // of the field whose value it is; a list's elements have the list's
	side bool   // it lies within what no picture and no document is part of

	kind, media string  // its fields "type" and "media_type"
	data        *data   // its field "data"
	source      *source // its field "source"
}

// source is where a picture or a document comes from.
type source struct {
	kind, media string
	data        *data
}

// maxField bounds a field's name or value that is kept: as long as "max_tokens" is when
// each of its letters is escaped, and as any model's name. maxOpen is how deep pictures
// may lie: in a document in a tool's result in a message.
const (
	maxField = 128
	maxOpen  = 16
)

// Input is how many tokens the request is taken to have, a prompt's length at most.
func (a *Asked) Input() int64 {
	text := a.Bytes
	if a.End > 0 {
		text = a.End // the rest says nothing
	}
	return min(Tokens(text-a.apart)+a.shown, MostRead)
}

// AtMost is what the request is taken to use at most. What may still come counts as well
// while it has no end.
func (a *Asked) AtMost() Usage {
	u := Usage{Model: a.Model, Input: a.Input(), Output: a.Most, Estimate: true}
	if a.Most == 0 {
		u.Output = MostWritten
	}
	if a.End == 0 {
		u.Model, u.Input, u.Output = "", MostRead, MostWritten
	}
	return u
}

// Write reads along; it never fails.
func (a *Asked) Write(p []byte) (int, error) {
	for i := 0; i < len(p); i++ {
		if a.text && !a.escaped && (a.data != nil || a.idle()) { // nearly all of a body: texts and pictures
			n := bytes.IndexAny(p[i:], `"\`)
			if n < 0 {
				n = len(p) - i
			}
			if a.data != nil {
				a.data.take(p[i : i+n])
			}
			if i += n; i == len(p) {
				break
			}
		}
		a.read(p[i], a.Bytes+int64(i)+1)
	}
	a.Bytes += int64(len(p))
	return len(p), nil
}

// idle says whether nothing of a string that is read matters any more.
func (a *Asked) idle() bool { return !a.keeps() || len(a.buf) > maxField }

// keeps says whether what is read now may matter.
func (a *Asked) keeps() bool {
	return a.depth > 0 && a.depth == len(a.open) && !a.open[a.depth-1].side
}

// read takes the byte that is the n-th of the body.
func (a *Asked) read(c byte, n int64) {
	if a.text {
		a.keep(c)
		switch {
		case a.escaped:
			a.escaped = false
			if a.data != nil {
				a.data.take([]byte{c}) // "\/" is how some write the "/" of base64
			}
		case c == '\\':
			a.escaped = true
		case c == '"':
			a.text, a.data = false, nil
		}
		return
	}
	switch c {
	case '"':
		a.text = true
		if a.keeps() && a.depth > 1 && a.name == "data" {
			a.data = &data{}
			a.open[a.depth-1].data = a.data
		}
		a.keep(c)
	case '{', '[':
		a.enter(c == '[')
	case '}', ']':
		a.field()
		a.leave(n)
	case ',':
		a.field()
	case ':':
		if a.keeps() {
			a.name, a.buf = unquoted(a.buf), a.buf[:0]
		}
	case ' ', '\t', '\r', '\n':
	default:
		a.keep(c)
	}
}

func (a *Asked) keep(c byte) {
	if a.data == nil && a.keeps() && len(a.buf) <= maxField {
		a.buf = append(a.buf, c)
	}
}

// enter begins an object or a list.
func (a *Asked) enter(list bool) {
	if a.depth++; a.depth != len(a.open)+1 || a.depth > maxOpen || a.End > 0 {
		return
	}
	f := frame{name: a.name}
	if a.depth > 1 {
		in := a.open[a.depth-2]
		if in.name != "" && f.name == "" {
			f.name = in.name
		}
		switch f.name {
		case "messages", "content", "source":
			f.side = in.side
		default:
			f.side = true
		}
	} else if list {
		f.side = true // no question
	}
	a.open = append(a.open, f)
	a.name, a.buf = "", a.buf[:0]
}

// leave ends an object or a list; n is where.
func (a *Asked) leave(n int64) {
	if a.depth > 0 && a.depth == len(a.open) {
		f := a.open[a.depth-1]
		a.open = a.open[:a.depth-1]
		if !f.side && a.depth > 1 {
			a.counted(f, &a.open[a.depth-2])
		}
	}
	a.name, a.buf = "", a.buf[:0]
	if a.depth--; a.depth == 0 && a.End == 0 {
		a.End = n
	}
}

// counted takes an object that has come to its end, within another.
func (a *Asked) counted(f frame, in *frame) {
	if f.name == "source" && f.kind != "" {
		in.source = &source{f.kind, f.media, f.data}
	}
	if f.source == nil {
		return
	}
	if n, apart, ok := f.source.tokens(f.kind); ok {
		a.shown += n
		a.apart += apart
	}
}

// field takes a field of an object, once it is whole. Of several with one name the service
// may take any: of bounds the highest counts.
func (a *Asked) field() {
	if !a.keeps() {
		return
	}
	f := &a.open[a.depth-1]
	switch {
	case a.depth > 1 && a.name == "type":
		f.kind = unquoted(a.buf)
	case a.depth > 1 && a.name == "media_type":
		f.media = unquoted(a.buf)
	case a.depth > 1:
	case a.name == "model":
		a.Model = unquoted(a.buf)
		if strings.ContainsFunc(a.Model, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			a.Model = "" // it goes into the log
		}
	case a.name == "max_tokens":
		if f, err := strconv.ParseFloat(string(a.buf), 64); err == nil && f > 0 && f < 1<<53 {
			a.Most = max(a.Most, int64(min(f, MostWritten)))
		}
	}
	a.name, a.buf = "", a.buf[:0]
}

func unquoted(b []byte) (s string) {
	json.Unmarshal(b, &s) //nolint:errcheck // what is no string is ""
	return s
}

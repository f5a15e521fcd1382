// Package meter reads what a model's answer says it used. It knows the Anthropic
// Messages API, as one JSON object and as server-sent events; it knows no prices
// and changes nothing of what passes.
package meter

import (
	"bytes"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strings"
)

// Usage is what one answer used.
type Usage struct {
	Model      string
	Input      int64 // tokens read that were in no cache
	Output     int64 // tokens written
	CacheWrite int64 // tokens written into the cache
	CacheRead  int64 // tokens read from the cache

	Estimate bool // nobody said how much was written, or nothing was said at all
}

// maxJSON bounds an answer that is read whole, and maxLine one event.
const (
	maxJSON = 32 << 20
	maxLine = 4 << 20
)

// bytesOfToken is how many bytes of an answer are taken to be one token where nobody said
// how many tokens they are: English has about as many, code and other languages fewer.
const bytesOfToken = 4

// Tokens is how many tokens a text of so many bytes is taken to have.
func Tokens(size int64) int64 { return size / bytesOfToken }

// Meter is a writer that an answer's body passes through.
type Meter struct {
	stream bool
	buf    []byte
	skip   bool // the rest of an event, or of the body, that is too long
	usage  Usage
	found  bool
	ended  bool // message_stop came
	failed bool // an error came instead of a message

	counted bool  // message_delta said how much was written
	pieces  int64 // events with a piece of the answer, which has a token at least
	bytes   int64 // of all pieces
	blocks  bool  // one has begun
	hidden  bool  // one of them need not come as long as it is
}

// For gives a meter for an answer, or nil where it can't carry usage.
func For(r *http.Response) *Meter {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return nil
	}
	switch kind {
	case "text/event-stream":
		return &Meter{stream: true}
	case "application/json":
		return &Meter{}
	}
	return nil
}

// Write reads along; it never fails.
func (m *Meter) Write(p []byte) (int, error) {
	if !m.stream {
		if len(m.buf)+len(p) > maxJSON {
			m.skip, m.buf = true, nil
		}
		if !m.skip {
			m.buf = append(m.buf, p...)
		}
		return len(p), nil
	}
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		if len(m.buf)+len(line) > maxLine {
			m.skip, m.buf = true, nil
		}
		if !m.skip {
			m.buf = append(m.buf, line...)
		}
		if ended {
			if !m.skip {
				m.event(m.buf)
			}
			m.skip, m.buf = false, m.buf[:0]
		}
		rest = after
	}
	return len(p), nil
}

// Whole says whether the answer is one JSON object, which says what it used only once all
// of it is there.
func (m *Meter) Whole() bool { return !m.stream }

// Failed says whether an error came where a message should have.
func (m *Meter) Failed() bool { return m.failed && !m.found }

// Hidden says whether more may have been written than came: thinking is billed whole,
// and comes as a summary, as a signature alone or not at all, as the request wanted it.
// So it may be before the first block, too.
func (m *Meter) Hidden() bool { return m.hidden || !m.blocks }

// Ended says whether a stream has said that it is over. Its last bytes may still be on
// their way.
func (m *Meter) Ended() bool { return m.ended }

// Usage is what the answer has said so far. ok is false when it said nothing. A stream
// says what it wrote at its end alone: one that was broken off before has what came of
// it, counted by its pieces and their length, or hanging up in time would be free.
func (m *Meter) Usage() (u Usage, ok bool) {
	if !m.stream && !m.skip && len(m.buf) > 0 {
		m.message(m.buf)
	}
	u = m.usage
	if m.found && !m.counted {
		u.Output, u.Estimate = max(u.Output, m.pieces, Tokens(m.bytes)), true
	}
	return u, m.found
}

// counts is the usage object of the Messages API.
type counts struct {
	Input      *int64 `json:"input_tokens"`
	Output     *int64 `json:"output_tokens"`
	CacheWrite *int64 `json:"cache_creation_input_tokens"`
	CacheRead  *int64 `json:"cache_read_input_tokens"`
}

// message is a whole answer, or the one inside a message_start event.
type message struct {
	Type  string  `json:"type"`
	Model string  `json:"model"`
	Usage *counts `json:"usage"`
}

func (m *Meter) message(b []byte) {
	var v message
	if json.Unmarshal(b, &v) == nil && v.Type == "message" {
		m.counted = m.counted || v.Usage != nil && v.Usage.Output != nil
		m.take(v)
	}
	m.failed = m.failed || v.Type == "error"
}

// event reads one line of a stream. message_start has the counts of the input;
// message_delta has the output's so far, not what was added.
func (m *Meter) event(line []byte) {
	data, ok := strings.CutPrefix(strings.TrimRight(string(line), "\r"), "data:")
	if !ok {
		return
	}
	var v struct {
		Type    string  `json:"type"`
		Message message `json:"message"`
		Usage   *counts `json:"usage"`
		Block   struct {
			Type string `json:"type"`
		} `json:"content_block"`
		Delta struct {
			Text     string `json:"text"`
			Thinking string `json:"thinking"`
			JSON     string `json:"partial_json"`
		} `json:"delta"`
	}
	// A field of another type than it should have spoils none of the others.
	if err := json.Unmarshal([]byte(data), &v); err != nil && !errors.As(err, new(*json.UnmarshalTypeError)) {
		return
	}
	switch v.Type {
	case "message_start":
		m.take(v.Message)
	case "error":
		m.failed = true
	case "content_block_start":
		m.blocks = true
		m.hidden = m.hidden || v.Block.Type != "text" && v.Block.Type != "tool_use"
	case "content_block_delta":
		if n := len(v.Delta.Text) + len(v.Delta.Thinking) + len(v.Delta.JSON); n > 0 {
			m.pieces++
			m.bytes += int64(n)
		}
	case "message_delta":
		m.counted = m.counted || v.Usage != nil && v.Usage.Output != nil
		m.take(message{Usage: v.Usage})
	case "message_stop":
		m.ended = true
	}
}

func (m *Meter) take(v message) {
	if v.Model != "" {
		m.usage.Model = v.Model
	}
	if v.Usage == nil {
		return
	}
	m.found = true
	for _, c := range []struct {
		said *int64
		to   *int64
	}{{v.Usage.Input, &m.usage.Input}, {v.Usage.Output, &m.usage.Output}, {v.Usage.CacheWrite, &m.usage.CacheWrite}, {v.Usage.CacheRead, &m.usage.CacheRead}} {
		if c.said != nil && *c.said >= 0 {
			*c.to = *c.said
		}
	}
}

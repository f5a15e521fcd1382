package netpolicy

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// maxTable bounds the HPACK table that a program's encoder may use, and
// maxFields the decoded size of one request's fields.
const (
	maxTable  = 1 << 20
	maxFields = 1 << 20
)

// frames passes on a connection of cleartext HTTP/2: the authority of every
// request is held against the target, and bodies are spliced (RFC 9113).
func (f *flow) frames() error {
	preface := []byte(http2.ClientPreface)
	for len(f.in.buf) < len(preface) {
		if err := f.in.fill(); err != nil {
			return unexpected(err)
		}
	}
	if !bytes.HasPrefix(f.in.buf, preface) {
		return &Refused{"its HTTP/2 connection begins wrongly"}
	}
	if err := f.forward(int64(len(preface))); err != nil {
		return err
	}
	// A server of HTTP/1 that skips the preface must not find a request behind it:
	// the first frame is the settings (RFC 9113, section 3.4), which are no text.
	for len(f.in.buf) < 9 {
		if err := f.in.fill(); err != nil {
			return unexpected(err)
		}
	}
	if h := f.in.buf; http2.FrameType(h[3]) != http2.FrameSettings || h[0] != 0 || [4]byte(h[5:9]) != [4]byte{} {
		return &Refused{"its HTTP/2 connection begins wrongly"}
	}
	c := &authorities{t: f.t}
	c.dec = hpack.NewDecoder(4096, c.field)
	c.dec.SetAllowedMaxDynamicTableSize(maxTable)
	c.dec.SetMaxStringLength(maxHead)
	for {
		if err := f.frame(c); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// frame passes on one frame; io.EOF when there is none.
func (f *flow) frame(c *authorities) error {
	for len(f.in.buf) < 9 {
		if err := f.in.fill(); err != nil {
			if len(f.in.buf) > 0 {
				err = unexpected(err)
			}
			return err
		}
	}
	h := f.in.buf
	size := int(h[0])<<16 | int(h[1])<<8 | int(h[2])
	kind, flags := http2.FrameType(h[3]), http2.Flags(h[4])
	if kind == http2.FramePushPromise {
		return &Refused{"its HTTP/2 frames are a server's"}
	}
	if kind != http2.FrameHeaders && kind != http2.FrameContinuation {
		if c.open {
			return &Refused{"its HTTP/2 fields are cut by another frame"}
		}
		return f.forward(int64(9 + size))
	}
	if 9+size > maxHead {
		return &Refused{"its HTTP/2 fields are longer than 64 KB"}
	}
	for len(f.in.buf) < 9+size {
		if err := f.in.fill(); err != nil {
			return unexpected(err)
		}
	}
	if err := c.block(kind, flags, f.in.buf[9:9+size]); err != nil {
		return err
	}
	return f.forward(int64(9 + size))
}

// authorities reads the field blocks of a connection and remembers what is wrong
// with one.
type authorities struct {
	t    target
	dec  *hpack.Decoder
	open bool // a block goes on in a CONTINUATION frame
	size int  // decoded bytes of this block
	err  error
}

func (c *authorities) field(h hpack.HeaderField) {
	c.size += len(h.Name) + len(h.Value)
	switch {
	case c.size > maxFields:
		c.err = &Refused{"its HTTP/2 fields are too many"}
	case h.Name == ":method" && h.Value == "CONNECT":
		c.err = &Refused{"it asks an HTTP server to connect onwards"}
	case h.Name == ":path" && h.Value != "*" && !strings.HasPrefix(h.Value, "/"):
		c.err = &Refused{"its HTTP/2 request has no path"}
	case (strings.EqualFold(h.Name, ":authority") || strings.EqualFold(h.Name, "host")) && !c.t.is(h.Value):
		c.err = &Refused{fmt.Sprintf("its HTTP request is for %.253q", h.Value)}
	}
}

// block reads a HEADERS or CONTINUATION frame's part of a field block.
func (c *authorities) block(kind http2.FrameType, flags http2.Flags, p []byte) error {
	if (kind == http2.FrameContinuation) != c.open {
		return &Refused{"its HTTP/2 frames are out of order"}
	}
	if kind == http2.FrameHeaders {
		c.size = 0
		pad := 0
		if flags.Has(http2.FlagHeadersPadded) {
			if len(p) < 1 {
				return &Refused{"its HTTP/2 frame is cut short"}
			}
			pad, p = int(p[0]), p[1:]
		}
		if flags.Has(http2.FlagHeadersPriority) {
			if len(p) < 5 {
				return &Refused{"its HTTP/2 frame is cut short"}
			}
			p = p[5:]
		}
		if pad > len(p) {
			return &Refused{"its HTTP/2 frame is cut short"}
		}
		p = p[:len(p)-pad]
	}
	if _, err := c.dec.Write(p); err != nil {
		return &Refused{"its HTTP/2 fields can't be read"}
	}
	c.open = !flags.Has(http2.FlagHeadersEndHeaders)
	if !c.open {
		if err := c.dec.Close(); err != nil {
			return &Refused{"its HTTP/2 fields can't be read"}
		}
	}
	return c.err
}

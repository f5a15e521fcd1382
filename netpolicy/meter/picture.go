package meter

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"unicode"
)

// What the Messages API takes a picture and a page for
// (platform.claude.com/docs/en/build-with-claude/vision and pdf-support, 2026-10). A page
// is a picture and its text, between 1,500 and 3,000 tokens of text alone; a page of print
// was measured at 2,350 in all. mostPicture is what the models with the finest sight scale
// a picture down to; others stop at 1,600.
const (
	pixelsOfToken = 750
	mostPicture   = 4784
	pageTokens    = 2500
	mostPages     = 600
	pagesUnknown  = 100    // of a document that is not in the request
	bytesOfPage   = 10_000 // where the pages of one that is can't be counted
)

// tokens is how many tokens what lies here is as a picture or a document, and how many
// bytes of the request it was. ok is false where it is neither: then it is text. What the
// service can't read it refuses, so nothing is made cheap by being called a picture.
func (s *source) tokens(kind string) (n, apart int64, ok bool) {
	switch {
	case kind == "image" && s.kind == "base64" && s.data != nil:
		return s.data.picture(), s.data.size, true
	case kind == "image" && (s.kind == "url" || s.kind == "file"):
		return mostPicture, 0, true
	case kind == "document" && s.kind == "base64" && s.data != nil:
		return s.data.document(), s.data.size, true
	case kind == "document" && (s.kind == "url" || s.kind == "file"):
		return pagesUnknown * pageTokens, 0, true
	}
	return 0, 0, false
}

// data is base64 in a request.
type data struct {
	size int64  // of what stands there
	head []byte // its beginning, maxHead at most
	pdf  *pages // nil where it is none
}

// maxHead is how much of it is kept: in front of a photo's size stand its maker's notes, a
// small copy and colours, 64 KB at most each.
const maxHead = 256 << 10

// pdfHead is what a PDF begins with, as base64.
const pdfHead = "JVBERi"

func (d *data) take(p []byte) {
	before := int(min(d.size, maxHead))
	d.size += int64(len(p))
	if d.pdf != nil {
		d.pdf.take(p)
		return
	}
	d.head = append(d.head, p[:min(len(p), maxHead-len(d.head))]...)
	if before < len(pdfHead) && bytes.HasPrefix(d.head, []byte(pdfHead)) {
		d.pdf = &pages{}
		d.pdf.take(d.head[:before])
		d.pdf.take(p)
		d.head = nil
	}
}

// picture is how many tokens it is as a picture, by its width and height; where they can't
// be read the most that one has.
func (d *data) picture() int64 {
	b := make([]byte, base64.StdEncoding.DecodedLen(len(d.head)))
	n, _ := base64.StdEncoding.Decode(b, d.head[:len(d.head)/4*4]) //nolint:errcheck // as far as it goes
	c, err := config(b[:n])
	if err != nil || c.Width <= 0 || c.Height <= 0 {
		return mostPicture
	}
	return min((int64(c.Width)*int64(c.Height)+pixelsOfToken-1)/pixelsOfToken, mostPicture)
}

// config reads the head of a picture of a kind that the service takes.
func config(b []byte) (image.Config, error) {
	switch r := bytes.NewReader(b); {
	case bytes.HasPrefix(b, []byte("\x89PNG")):
		return png.DecodeConfig(r)
	case bytes.HasPrefix(b, []byte("\xff\xd8")):
		return jpeg.DecodeConfig(r)
	case bytes.HasPrefix(b, []byte("GIF8")):
		return gif.DecodeConfig(r)
	case len(b) >= 30 && bytes.HasPrefix(b, []byte("RIFF")) && string(b[8:12]) == "WEBP":
		return webp(b), nil
	}
	return image.Config{}, image.ErrFormat
}

// webp is the size of a WebP picture (RFC 9649, sections 2.5 to 2.7); 0 by 0 where there
// is none.
func webp(b []byte) (c image.Config) {
	u24 := func(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }
	switch string(b[12:16]) {
	case "VP8X":
		c.Width, c.Height = u24(b[24:])+1, u24(b[27:])+1
	case "VP8L":
		n := binary.LittleEndian.Uint32(b[21:])
		c.Width, c.Height = int(n&0x3fff)+1, int(n>>14&0x3fff)+1
	case "VP8 ":
		c.Width, c.Height = int(binary.LittleEndian.Uint16(b[26:])&0x3fff), int(binary.LittleEndian.Uint16(b[28:])&0x3fff)
	}
	return c
}

// document is how many tokens it is as a document.
func (d *data) document() int64 {
	n := (d.size/4*3 + bytesOfPage - 1) / bytesOfPage
	if d.pdf != nil && d.pdf.n > 0 {
		n = d.pdf.n
	}
	return min(max(n, 1), mostPages) * pageTokens
}

// pages counts those of a PDF whose pages are no packed objects.
type pages struct {
	n      int64
	coded  []byte // base64 that is no group of four yet
	rest   []byte // that may be the beginning of a page
	broken bool
}

// pageType is what a page has, and pageLook how far behind its beginning that is looked at.
var pageType = []byte("/Type")

const pageLook = 32

func (p *pages) take(b []byte) {
	if p.broken {
		return
	}
	p.coded = append(p.coded, b...)
	whole := len(p.coded) / 4 * 4
	at := len(p.rest)
	p.rest = append(p.rest, make([]byte, base64.StdEncoding.DecodedLen(whole))...)
	n, err := base64.StdEncoding.Decode(p.rest[at:], p.coded[:whole])
	p.rest, p.broken = p.rest[:at+n], err != nil
	p.coded = append(p.coded[:0], p.coded[whole:]...)
	p.count()
}

func (p *pages) count() {
	at := 0
	for {
		i := bytes.Index(p.rest[at:], pageType)
		if i < 0 {
			at = max(at, len(p.rest)-len(pageType)+1)
			break
		}
		if at += i; len(p.rest)-at < pageLook {
			break
		}
		name, is := bytes.CutPrefix(bytes.TrimLeft(p.rest[at+len(pageType):at+pageLook], " \t\r\n\f\x00"), []byte("/Page"))
		if is && len(name) > 0 && !unicode.IsLetter(rune(name[0])) {
			p.n++
		}
		at += len(pageType)
	}
	p.rest = append(p.rest[:0], p.rest[min(at, len(p.rest)):]...)
}

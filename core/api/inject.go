package api

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf16"
)

// mostHeld is how much of a page is waited for before its script is put at its very
// beginning: longer comments ahead of the document type there are none.
const mostHeld = 64 << 10

// page puts a script into an HTML page as its bytes come by: behind the document type,
// which a browser knows only where nothing but comments stand ahead of it, and ahead of
// everything else.
type page struct {
	script  string
	charset string // as the header says, in small letters
	held    []byte // its beginning
	done    bool
}

// add takes the next bytes and gives what can be sent.
func (p *page) add(b []byte) []byte {
	if p.done {
		return b
	}
	p.held = append(p.held, b...)
	if len(p.held) >= mostHeld {
		return p.rest()
	}
	if at, known := p.place(); known {
		return p.put(at)
	}
	return nil
}

// rest gives what was waited with: nothing more comes, or enough has.
func (p *page) rest() []byte {
	if p.done {
		return nil
	}
	at, _ := p.place()
	return p.put(at)
}

func (p *page) put(at int) []byte {
	p.done = true
	script := []byte(p.script)
	if order, _ := p.wide(); order != nil {
		script = script[:0]
		for _, u := range utf16.Encode([]rune(p.script)) {
			script = order.AppendUint16(script, u)
		}
	}
	out := append(append(p.held[:at:at], script...), p.held[at:]...)
	p.held = nil
	return out
}

// wide is the order of a page's bytes where each character takes two, and how many of
// them its mark takes. A mark counts more than the header.
func (p *page) wide() (order binary.AppendByteOrder, mark int) {
	switch {
	case bytes.HasPrefix(p.held, []byte{0xff, 0xfe}):
		return binary.LittleEndian, 2
	case bytes.HasPrefix(p.held, []byte{0xfe, 0xff}):
		return binary.BigEndian, 2
	case bytes.HasPrefix(p.held, []byte{0xef, 0xbb, 0xbf}):
		return nil, 3
	case p.charset == "utf-16be":
		return binary.BigEndian, 0
	case strings.HasPrefix(p.charset, "utf-16"):
		return binary.LittleEndian, 0
	}
	return nil, 0
}

// place is where the script goes. Until that is known, it is the beginning.
func (p *page) place() (at int, known bool) {
	if len(p.held) < 3 {
		return 0, false // it may be half a mark
	}
	order, mark := p.wide()
	text := p.held[mark:]
	if order == nil {
		at, known = behindType(text)
		return mark + at, known
	}
	narrow := make([]byte, 0, len(text)/2)
	for i := 0; i+1 < len(text); i += 2 {
		c := text[i]
		if order == binary.BigEndian {
			c = text[i+1]
		}
		if text[i]|text[i+1] != c {
			c = '?' // no letter of ASCII
		}
		narrow = append(narrow, c)
	}
	at, known = behindType(narrow)
	return mark + 2*at, known
}

// behindType is the place behind a page's document type, 0 for one without. It is not
// known while what there is could still become one.
func behindType(b []byte) (at int, known bool) {
	for i := 0; ; {
		for i < len(b) && strings.IndexByte("\t\n\f\r ", b[i]) >= 0 {
			i++
		}
		rest := b[i:]
		var end int
		switch {
		case begins(rest, "<!doctype"):
			if end = bytes.IndexByte(rest, '>'); end < 0 {
				return 0, false
			}
			return i + end + 1, true
		case begins([]byte("<!doctype"), string(rest)), begins([]byte("<!--"), string(rest)) && len(rest) < len("<!--"):
			return 0, false
		case begins(rest, "<!--"):
			end = comment(rest)
		case begins(rest, "<!"), begins(rest, "<?"): // which a browser takes for a comment
			end = bytes.IndexByte(rest, '>') + 1
		default:
			return 0, true
		}
		if end <= 0 {
			return 0, false
		}
		i += end
	}
}

// begins says whether b begins with a text, in any case.
func begins(b []byte, text string) bool {
	return len(b) >= len(text) && strings.EqualFold(string(b[:len(text)]), text)
}

// comment is the length of the comment that b begins with, 0 while its end isn't there.
func comment(b []byte) int {
	for _, short := range []string{"<!-->", "<!--->"} {
		if begins(b, short) {
			return len(short)
		}
	}
	least := 0
	for _, end := range []string{"-->", "--!>"} {
		if i := bytes.Index(b[4:], []byte(end)); i >= 0 && (least == 0 || i < least) {
			least = 4 + i + len(end)
		}
	}
	return least
}

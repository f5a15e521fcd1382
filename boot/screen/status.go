package screen

import (
	"fmt"
	"slices"
	"strings"

	"rsc.io/qr"
)

// The states a box can be in.
const (
	Starting = "starting"
	Ready    = "ready"
	Degraded = "degraded"
	Stopping = "stopping"
)

// A Status is all that a person is shown.
type Status struct {
	Version   string
	Slot      string
	Name      string   // host name
	State     string   // one of the four
	Doing     string   // what is under way while it starts or stops
	Addresses []string // of the wired ports
	Open      []string // where the portal is
	Pair      string   // a link that pairs a device; "" when none is open
	Hint      string   // what a key would do
	Ask       string   // what a line that is typed would do; "" when none is waited for
	Clock     string   // whether the time is trusted
	Reasons   []string // why it is not as it should be, in sentences

	typed string // on the screen that is drawn, of the line that Ask is about
}

func (s Status) equal(o Status) bool {
	return s.Version == o.Version && s.Slot == o.Slot && s.Name == o.Name && s.State == o.State && s.Doing == o.Doing && s.Pair == o.Pair &&
		s.Hint == o.Hint && s.Ask == o.Ask && s.Clock == o.Clock && slices.Equal(s.Addresses, o.Addresses) && slices.Equal(s.Open, o.Open) && slices.Equal(s.Reasons, o.Reasons)
}

func (s Status) title() string {
	title := "GurtOS"
	if s.Version != "" {
		title += " " + s.Version
	}
	if s.Slot != "" {
		title += " · slot " + s.Slot
	}
	if s.Name != "" {
		title += " · " + s.Name
	}
	return title
}

// facts are the lines below the title, as word and value.
func (s Status) facts() [][2]string {
	var f [][2]string
	state := s.State
	if s.Doing != "" {
		state += ": " + s.Doing
	}
	f = append(f, [2]string{"state", state})
	if s.Ask != "" { // early: a low screen has no room for all of it
		f = append(f, [2]string{"ask", s.Ask})
	}
	if s.typed != "" {
		f = append(f, [2]string{"typed", s.typed + "_"})
	}
	for _, a := range s.Addresses {
		f = append(f, [2]string{"address", a})
	}
	if len(s.Addresses) == 0 {
		f = append(f, [2]string{"address", "none yet: is a network cable plugged in?"})
	}
	for _, a := range s.Open {
		f = append(f, [2]string{"open", a})
	}
	if s.Pair != "" {
		f = append(f, [2]string{"pair", s.Pair})
	}
	if s.Hint != "" {
		f = append(f, [2]string{"key", s.Hint})
	}
	if s.Clock != "" {
		f = append(f, [2]string{"clock", s.Clock})
	}
	for _, r := range s.Reasons {
		f = append(f, [2]string{"reason", r})
	}
	for i := range f {
		f[i][1] = strings.Map(printable, f[i][1])
	}
	return f
}

// printable takes control characters out: reasons carry names and errors of
// others, which must not be able to redraw the screen.
func printable(c rune) rune {
	if c < ' ' || c >= 0x7f && c < 0xa0 {
		return -1
	}
	return c
}

// Lines is the status for a console that is written on.
func (s Status) Lines() string {
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s ---\n", s.title())
	for _, f := range s.facts() {
		fmt.Fprintf(&b, "%-8s %s\n", f[0], f[1])
	}
	b.WriteString("---\n")
	return b.String()
}

// Drawing is the status for a terminal of rows and cols: cleared, then drawn
// from the top, words wrapped. The pairing link's QR code is there when it fits.
func (s Status) Drawing(rows, cols int) string {
	lines := []string{"", "  " + s.title(), ""}
	for _, f := range s.facts() {
		for i, part := range wrap(f[1], max(cols-13, 20)) {
			word := f[0]
			if i > 0 {
				word = ""
			}
			lines = append(lines, fmt.Sprintf("  %-9s %s", word, part))
		}
	}
	if code := qrLines(s.Pair); code != nil && len(lines)+len(code)+1 <= rows && len([]rune(code[0]))+2 <= cols {
		lines = append(lines, "")
		for _, c := range code {
			lines = append(lines, "  "+c)
		}
	}
	if len(lines) > rows {
		lines = lines[:rows]
	}
	// Cursor off, UTF-8 on, home, clear; no line feed after the last line, which would scroll.
	return "\x1b[?25l\x1b%G\x1b[H\x1b[2J" + strings.Join(lines, "\r\n")
}

// wrap breaks text between words so that no line is longer than width, and
// through a word that is.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		for len(word) > width {
			if line != "" {
				lines, line = append(lines, line), ""
			}
			lines, word = append(lines, word[:width]), word[width:]
		}
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	return append(lines, line)
}

// qrLines draws a QR code, two rows of it a line: dark on light, so the blocks
// are where the code is white, with the quiet zone of two around it.
func qrLines(text string) []string {
	if text == "" {
		return nil
	}
	code, err := qr.Encode(text, qr.L)
	if err != nil {
		return nil
	}
	const quiet = 2
	light := func(x, y int) bool { return !code.Black(x, y) }
	var lines []string
	for y := -quiet; y < code.Size+quiet; y += 2 {
		var b strings.Builder
		for x := -quiet; x < code.Size+quiet; x++ {
			switch top, bottom := light(x, y), light(x, y+1); {
			case top && bottom:
				b.WriteRune('█')
			case top:
				b.WriteRune('▀')
			case bottom:
				b.WriteRune('▄')
			default:
				b.WriteByte(' ')
			}
		}
		lines = append(lines, b.String())
	}
	return lines
}

package leak

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MinLength is the number of characters from which a value is looked for in
// every spelling. A shorter one counts only where it stands alone and plain,
// since "on" or "1234" is also ordinary text.
const MinLength = 8

// Secret is a value to look for and the name to put in its place.
type Secret struct{ Name, Value string }

// Set is secrets ready to be looked for. Its zero value finds nothing.
type Set struct {
	first [256][]*needle // by the byte that a spelling begins with
	any   bool
}

type needle struct {
	name  string
	text  string
	how   form
	whole int // length of the value that it comes from
}

type form int

const (
	escaped form = iota // the text, any character of it perhaps escaped
	hexed               // the text is lower-case hex, either case will do
	alone               // a short value between non-word characters
)

// NewSet prepares secrets. Empty values are left out.
func NewSet(secrets ...Secret) *Set {
	var all []*needle
	for _, s := range secrets {
		for _, n := range spellings(s) {
			all = append(all, &n)
		}
	}
	// The longest value goes first: a key may hold another key.
	slices.SortStableFunc(all, func(a, b *needle) int { return cmp.Compare(b.whole, a.whole) })
	set := &Set{any: len(all) > 0}
	for _, n := range all {
		for _, c := range n.begins() {
			set.first[c] = append(set.first[c], n)
		}
	}
	return set
}

func spellings(s Secret) []needle {
	size := len(s.Value)
	switch {
	case size == 0:
		return nil
	case utf8.RuneCountInString(s.Value) < MinLength:
		return []needle{{s.Name, s.Value, alone, size}}
	}
	list := []needle{{s.Name, s.Value, escaped, size}}
	var hex strings.Builder
	for _, c := range []byte(s.Value) {
		hex.WriteString(strconv.FormatUint(uint64(c)|0x100, 16)[1:])
	}
	list = append(list, needle{s.Name, hex.String(), hexed, size})
	for offset := range 3 {
		std := base64Core(base64.RawStdEncoding, s.Value, offset)
		list = append(list, needle{s.Name, std, escaped, size})
		if url := base64Core(base64.RawURLEncoding, s.Value, offset); url != std {
			list = append(list, needle{s.Name, url, escaped, size})
		}
	}
	return list
}

// base64Core is the characters that the value alone decides when it begins at an
// offset within a group of three bytes, whatever stands around it.
func base64Core(enc *base64.Encoding, value string, offset int) string {
	text := enc.EncodeToString([]byte(strings.Repeat("\x00", offset) + value))
	if (offset+len(value))%3 != 0 {
		text = text[:len(text)-1] // its low bits belong to what follows
	}
	return text[[]int{0, 2, 3}[offset]:]
}

// begins is every byte that a spelling of the needle can begin with.
func (n *needle) begins() []byte {
	c := n.text[0]
	switch n.how {
	case alone:
		return []byte{c}
	case hexed:
		if c >= 'a' {
			return []byte{c, c - 'a' + 'A'}
		}
		return []byte{c}
	}
	b := []byte{c}
	for _, e := range []byte{'%', '\\'} {
		if c != e {
			b = append(b, e)
		}
	}
	if c == ' ' {
		b = append(b, '+')
	}
	return b
}

// In says whether any of the secrets stands in text.
func (s *Set) In(text string) bool {
	_, _, found := s.next(text, 0, true)
	return found != nil
}

// Replace puts [NAME] in place of each secret.
func (s *Set) Replace(text string) string {
	start, end, found := s.next(text, 0, true)
	if found == nil {
		return text
	}
	var b strings.Builder
	at := 0
	for found != nil {
		b.WriteString(text[at:start])
		b.WriteString("[" + found.name + "]")
		at = end
		start, end, found = s.next(text, at, true)
	}
	b.WriteString(text[at:])
	return b.String()
}

// ReplaceJSON does the same to every string and number of a JSON text and gives
// JSON back. What holds no secret keeps its bytes.
func (s *Set) ReplaceJSON(raw json.RawMessage) json.RawMessage {
	if s == nil || !s.any {
		return raw
	}
	var out []byte
	done := 0
	swap := func(start, end int, was string) {
		if is := s.Replace(was); is != was {
			lit, err := json.Marshal(is)
			if err != nil {
				panic(err) // a string
			}
			out = append(append(out, raw[done:start]...), lit...)
			done = end
		}
	}
	for i := 0; i < len(raw); {
		switch c := raw[i]; {
		case c == '"':
			end := i + 1
			for end < len(raw) && raw[end] != '"' {
				if raw[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+1, len(raw))
			var text string
			if json.Unmarshal(raw[i:end], &text) == nil {
				swap(i, end, text)
			}
			i = end
		case c == '-' || c >= '0' && c <= '9':
			end := i
			for end < len(raw) && strings.IndexByte("+-0123456789.eE", raw[end]) >= 0 {
				end++
			}
			swap(i, end, string(raw[i:end]))
			i = end
		default:
			i++
		}
	}
	if done == 0 {
		return raw
	}
	return append(out, raw[done:]...)
}

// more is what a match gives that the text's end cut short, and which text that is
// still to come (final is false) may complete.
const more = -1

// next finds the first secret at or behind from. Where more text may come, found is
// nil and end is more when a secret may have begun at start.
func (s *Set) next(text string, from int, final bool) (start, end int, found *needle) {
	if s == nil || !s.any {
		return 0, 0, nil
	}
	for i := from; i < len(text); i++ {
		// What begins within a run of backslashes is found where the run begins. Each of
		// them would read the rest of the run, and a task may send megabytes of it.
		if i > from && text[i] == '\\' && text[i-1] == '\\' {
			continue
		}
		for _, n := range s.first[text[i]] {
			switch end := n.match(text, i, final); {
			case end > 0:
				return i, end, n
			case end == more:
				return i, more, nil
			}
		}
	}
	return 0, 0, nil
}

// match gives the end of the needle when it begins at i, else 0 or more.
func (n *needle) match(text string, i int, final bool) int {
	switch n.how {
	case alone:
		if wordBefore(text[:i]) {
			return 0
		}
		end := i + len(n.text)
		if end > len(text) || end == len(text) && !final {
			return cut(final || !strings.HasPrefix(n.text, text[i:]))
		}
		if !strings.HasPrefix(text[i:], n.text) {
			return 0
		}
		if !final && !utf8.FullRuneInString(text[end:]) {
			return more
		}
		if wordAfter(text[end:]) {
			return 0
		}
		return end
	case hexed:
		have := min(len(text)-i, len(n.text))
		if !strings.EqualFold(text[i:i+have], n.text[:have]) {
			return 0
		}
		if have < len(n.text) {
			return cut(final)
		}
		return i + len(n.text)
	default:
		return matchEscaped(text, i, n.text, final)
	}
}

// cut is the result of a match that ran out of text.
func cut(final bool) int {
	if final {
		return 0
	}
	return more
}

func wordBefore(s string) bool { r, size := utf8.DecodeLastRuneInString(s); return size > 0 && word(r) }
func wordAfter(s string) bool  { r, size := utf8.DecodeRuneInString(s); return size > 0 && word(r) }
func word(r rune) bool         { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

func matchEscaped(text string, i int, value string, final bool) int {
	for j := 0; j < len(value); {
		if i >= len(text) {
			return cut(final)
		}
		if value[j] == '\\' && text[i] == '\\' {
			size := backslashed(text[i:], '\\', final)
			if size == more {
				return more
			}
			if size > 0 {
				i, j = i+size, j+1
				continue
			}
			// JSON doubles backslashes, JSON inside JSON again: runs match runs.
			v, t := run(value[j:]), run(text[i:])
			if i+t == len(text) && !final {
				return more
			}
			if t < v {
				return 0
			}
			i, j = i+t, j+v
			continue
		}
		if text[i] == value[j] || value[j] == ' ' && text[i] == '+' {
			i, j = i+1, j+1
			continue
		}
		c, size := percent(text[i:], final)
		if size == more {
			return more
		}
		if size > 0 && (c == value[j] || value[j] == ' ' && c == '+') {
			i, j = i+size, j+1
			continue
		}
		r, width := utf8.DecodeRuneInString(value[j:])
		if size = backslashed(text[i:], r, final); size <= 0 {
			return size
		}
		i, j = i+size, j+width
	}
	return i
}

func run(s string) int { return len(s) - len(strings.TrimLeft(s, `\`)) }

// percent reads %41, and %2541 where it was escaped twice.
func percent(s string, final bool) (byte, int) {
	if s[0] != '%' {
		return 0, 0
	}
	i := 1
	for strings.HasPrefix(s[i:], "25") && len(s) >= i+4 {
		if _, err := strconv.ParseUint(s[i+2:i+4], 16, 8); err != nil {
			break
		}
		i += 2
	}
	if rest := s[i:]; !final && (len(rest) < 2 || len(rest) < 4 && rest[:2] == "25") && strings.Trim(rest, "0123456789abcdefABCDEF") == "" {
		return 0, more
	}
	if len(s) < i+2 {
		return 0, 0
	}
	c, err := strconv.ParseUint(s[i:i+2], 16, 8)
	if err != nil {
		return 0, 0
	}
	return byte(c), i + 2
}

// backslashed gives the length of a JSON escape of r behind one or more backslashes.
func backslashed(s string, r rune, final bool) int {
	n := run(s)
	if n == 0 {
		return 0
	}
	if n == len(s) {
		return cut(final)
	}
	if strings.ContainsRune(`"/`, r) && rune(s[n]) == r {
		return n + 1
	}
	units := []rune{r}
	if r > 0xffff {
		units = []rune{0xd800 + (r-0x10000)>>10, 0xdc00 + (r-0x10000)&0x3ff}
	}
	i := 0
	for _, u := range units {
		n := run(s[i:])
		if rest := s[i+n:]; !final && len(rest) < 5 && (n > 0 || rest == "") && strings.HasPrefix("u", rest[:min(len(rest), 1)]) {
			return more
		}
		if n == 0 || len(s) < i+n+5 || s[i+n] != 'u' {
			return 0
		}
		c, err := strconv.ParseUint(s[i+n+1:i+n+5], 16, 16)
		if err != nil || rune(c) != u {
			return 0
		}
		i += n + 5
	}
	return i
}

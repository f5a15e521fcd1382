package strict

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxDepth is how many objects and arrays may stand in one another, the body itself among them.
const MaxDepth = 64

// Error is a refusal: which field, as a path such as hosts[2] ("" for the body
// as a whole), and what is wrong with it.
type Error struct{ Field, Sentence string }

func (e *Error) Error() string {
	if e.Field == "" {
		return e.Sentence
	}
	return e.Field + ": " + e.Sentence
}

// Decode reads one JSON object into the struct that v points to. Fields that
// are missing keep their value; null is taken only by pointers, interfaces and
// json.RawMessage. Errors are of type *Error.
func Decode(b []byte, v any) error {
	t := reflect.TypeOf(v)
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		panic("strict: Decode wants a pointer to a struct")
	}
	s := scanner{b: b}
	if err := s.whole(t.Elem()); err != nil {
		return err
	}
	err := json.Unmarshal(b, v)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return &Error{wrong.Field, fmt.Sprintf("%s is needed, not a %s", kind(wrong.Type), strings.TrimPrefix(wrong.Value, "number "))}
	default:
		return &Error{"", err.Error()}
	}
}

// Check says whether b is one JSON value of any kind that Decode would take.
func Check(b []byte) error {
	s := scanner{b: b}
	return s.whole(nil)
}

// scanner walks the bytes once and knows at every one where it stands.
type scanner struct {
	b    []byte
	i    int
	path []string
}

func (s *scanner) whole(t reflect.Type) error {
	s.space()
	if s.i == len(s.b) {
		return &Error{"", "the body is empty; a JSON object is needed"}
	}
	if t != nil && s.b[s.i] != '{' {
		return &Error{"", "the body is not a JSON object"}
	}
	if err := s.value(t, 0); err != nil {
		return err
	}
	s.space()
	if s.i < len(s.b) {
		return &Error{"", "something stands behind the end of the JSON value"}
	}
	return nil
}

func (s *scanner) fail(format string, a ...any) error {
	field := strings.Builder{}
	for i, p := range s.path {
		if i > 0 && p[0] != '[' {
			field.WriteByte('.')
		}
		field.WriteString(p)
	}
	return &Error{clip(field.String()), fmt.Sprintf(format, a...)}
}

func (s *scanner) space() {
	for s.i < len(s.b) && strings.IndexByte(" \t\r\n", s.b[s.i]) >= 0 {
		s.i++
	}
}

func (s *scanner) next(c byte) bool {
	s.space()
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

// value reads one value that goes into a t, or into anything when t is nil. depth is how
// many objects and arrays stand around it.
func (s *scanner) value(t reflect.Type, depth int) error {
	s.space()
	if s.i == len(s.b) {
		return s.fail("the JSON ends in the middle")
	}
	if opens := s.b[s.i] == '{' || s.b[s.i] == '['; opens && depth >= MaxDepth {
		return s.fail("more than %d objects and arrays in one another", MaxDepth)
	}
	t, null := target(t)
	switch c := s.b[s.i]; {
	case c == '{':
		if t != nil && t.Kind() != reflect.Struct && t.Kind() != reflect.Map {
			return s.fail("%s is needed, not an object", kind(t))
		}
		return s.object(t, depth)
	case c == '[':
		if t != nil && t.Kind() != reflect.Slice {
			return s.fail("%s is needed, not an array", kind(t))
		}
		return s.array(t, depth)
	case c == '"':
		_, err := s.text()
		return err
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	case s.word("true") || s.word("false"):
		return nil
	case s.word("null"):
		if !null {
			return s.fail("%s is needed, not null", kind(t))
		}
		return nil
	default:
		return s.fail("this is not JSON: %s", strconv.QuoteToASCII(clip(lead(s.b[s.i:]))))
	}
}

func (s *scanner) word(w string) bool {
	if !strings.HasPrefix(string(s.b[s.i:min(len(s.b), s.i+len(w))]), w) {
		return false
	}
	s.i += len(w)
	return true
}

func (s *scanner) object(t reflect.Type, depth int) error {
	known := fields(t)
	seen := map[string]bool{}
	s.i++
	for first := true; ; first = false {
		if s.next('}') {
			return nil
		}
		if !first && !s.next(',') {
			return s.fail("the JSON is broken in an object: a comma or } is missing")
		}
		s.space()
		if s.i == len(s.b) || s.b[s.i] != '"' {
			return s.fail("the JSON is broken in an object: a field's name in quotes is missing")
		}
		name, err := s.text()
		if err != nil {
			return err
		}
		if name == "" {
			name = `""`
		}
		s.path = append(s.path, name)
		if seen[name] {
			return s.fail("the field is there twice")
		}
		seen[name] = true
		var ft reflect.Type
		if known != nil {
			var ok bool
			if ft, ok = known[name]; !ok {
				return s.fail("the box does not know this field")
			}
		} else if t != nil && t.Kind() == reflect.Map {
			ft = t.Elem()
		}
		if !s.next(':') {
			return s.fail("the JSON is broken: a colon is missing")
		}
		if err := s.value(ft, depth+1); err != nil {
			return err
		}
		s.path = s.path[:len(s.path)-1]
	}
}

func (s *scanner) array(t reflect.Type, depth int) error {
	var et reflect.Type
	if t != nil {
		et = t.Elem()
	}
	s.i++
	if s.next(']') {
		return nil
	}
	for n := 0; ; n++ {
		s.path = append(s.path, "["+strconv.Itoa(n)+"]")
		if err := s.value(et, depth+1); err != nil {
			return err
		}
		s.path = s.path[:len(s.path)-1]
		if s.next(']') {
			return nil
		}
		if !s.next(',') {
			return s.fail("the JSON is broken in an array: a comma or ] is missing")
		}
	}
}

// text reads a string literal and returns what it says.
func (s *scanner) text() (string, error) {
	start := s.i
	for s.i++; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '\\':
			s.i++
		case c < 0x20:
			return "", s.fail("a control character stands in a string; write it as \\u%04x", c)
		case c == '"':
			s.i++
			lit := s.b[start:s.i]
			if !utf8.Valid(lit) {
				return "", s.fail("this is not valid UTF-8")
			}
			if loneSurrogate(lit) {
				return "", s.fail("half of a surrogate pair stands in a string")
			}
			var v string
			if json.Unmarshal(lit, &v) != nil {
				return "", s.fail("a string has an escape that JSON does not know")
			}
			return v, nil
		}
	}
	return "", s.fail("a string does not end")
}

// loneSurrogate finds a \ud800 to \udfff that is no half of a pair; encoding/json
// would turn it into U+FFFD without a word.
func loneSurrogate(lit []byte) bool {
	unit := func(i int) (rune, bool) {
		if i+6 > len(lit) || lit[i] != '\\' || lit[i+1] != 'u' {
			return 0, false
		}
		n, err := strconv.ParseUint(string(lit[i+2:i+6]), 16, 16)
		return rune(n), err == nil
	}
	for i := 0; i < len(lit); i++ {
		if lit[i] != '\\' {
			continue
		}
		u, ok := unit(i)
		switch {
		case !ok:
			i++
		case u >= 0xd800 && u < 0xdc00:
			if low, ok := unit(i + 6); !ok || low < 0xdc00 || low > 0xdfff {
				return true
			}
			i += 11
		case u >= 0xdc00 && u <= 0xdfff:
			return true
		default:
			i += 5
		}
	}
	return false
}

func (s *scanner) number() error {
	start := s.i
	for s.i < len(s.b) && strings.IndexByte("+-0123456789.eE", s.b[s.i]) >= 0 {
		s.i++
	}
	if !json.Valid(s.b[start:s.i]) {
		return s.fail("this is no JSON number: %s", clip(string(s.b[start:s.i])))
	}
	return nil
}

var (
	rawMessage  = reflect.TypeFor[json.RawMessage]()
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textual     = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// target says which type a value must have (nil: any) and whether null will do.
func target(t reflect.Type) (reflect.Type, bool) {
	if t == nil {
		return nil, true
	}
	if t.Kind() == reflect.Pointer {
		u, _ := target(t.Elem())
		return u, true
	}
	if t == rawMessage || t.Kind() == reflect.Interface {
		return nil, true
	}
	if reflect.PointerTo(t).Implements(unmarshaler) || reflect.PointerTo(t).Implements(textual) {
		return nil, false
	}
	return t, false
}

// fields gives the exact names that a struct takes; nil for what is no struct.
func fields(t reflect.Type) map[string]reflect.Type {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	m := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() || f.Anonymous && name == "" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		m[name] = f.Type
	}
	return m
}

// kind names what a type takes, in words for people.
func kind(t reflect.Type) string {
	if t == nil {
		return "a value"
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	default:
		return "another kind of value"
	}
}

func lead(b []byte) string {
	if i := strings.IndexAny(string(b[:min(len(b), 24)]), " \t\r\n,]}"); i > 0 {
		return string(b[:i])
	}
	return string(b[:min(len(b), 24)])
}

func clip(s string) string {
	if len(s) <= 120 {
		return s
	}
	return strings.ToValidUTF8(s[:120], "") + "…"
}

package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Limits of a number, which is compared as a fraction of whole numbers.
const (
	maxDigits   = 1000 // characters of it
	maxExponent = 400  // either way; more than any float64 has
)

// Limits of the work that an input makes: a schema whose references fan out could take
// longer than the box lives.
const (
	steps        = 100_000 // parts of a schema held against something, and what they look at
	stepsPerByte = 8       // more of them for each byte of the input
)

// Schema is a compiled one.
type Schema struct {
	mu   sync.Mutex // fuel is for one Check at a time
	fuel int64
	sch  *jsonschema.Schema
}

// noLoader refuses every reference that leads out of a schema.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s: a schema may refer only to itself", url)
}

// Compile reads a JSON Schema. The error says what is wrong with it.
func Compile(raw json.RawMessage) (s *Schema, err error) {
	defer recovered(&err, "the schema can't be used")
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	if err := numbers(doc, "schema"); err != nil {
		return nil, err
	}
	s = &Schema{}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	c.RegisterVocabulary(&jsonschema.Vocabulary{URL: "box:///steps", Compile: s.count})
	c.AssertVocabs()
	if err := c.AddResource("box:///input", doc); err != nil {
		return nil, err
	}
	if s.sch, err = c.Compile("box:///input"); err != nil {
		return nil, err
	}
	return s, nil
}

// Check holds an input against the schema. The error is a sentence that names the place
// in the input.
func (s *Schema) Check(input json.RawMessage) (err error) {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(input))
	if err != nil {
		return fmt.Errorf("input: %w", err)
	}
	if err := numbers(v, "input"); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fuel = steps + stepsPerByte*int64(len(input))
	defer recovered(&err, "input: it can't be held against the tool's schema")
	err = s.sch.Validate(v)
	var bad *jsonschema.ValidationError
	if !errors.As(err, &bad) {
		return err
	}
	for len(bad.Causes) > 0 {
		bad = bad.Causes[0]
	}
	at := "input"
	for _, p := range bad.InstanceLocation {
		at += "." + clip(p)
	}
	why := bad.ErrorKind.LocalizedString(message.NewPrinter(language.English))
	return fmt.Errorf("%s: %s", at, strings.ToValidUTF8(clip(why), ""))
}

// errWork ends a check that would take too long.
var errWork = errors.New("it takes too many steps: the schema's references and combinations fan out too far for this input")

// recovered makes an error of a panic: the library's, or that of a counter.
func recovered(err *error, what string) {
	switch p := recover(); p {
	case nil:
	case errWork:
		*err = fmt.Errorf("%s: %w", what, errWork)
	default:
		*err = fmt.Errorf("%s: the check of it failed (%s)", what, clip(fmt.Sprint(p)))
	}
}

// count has each part of a schema count when it is held against something. It does so
// as a format, which comes before all that leads on to other parts; what the library
// has for such counting comes after them, and not always.
func (s *Schema) count(ctx *jsonschema.CompilerContext, obj map[string]any) (jsonschema.SchemaExt, error) {
	part := ctx.Enqueue(nil)
	_, deep := obj["uniqueItems"]
	own := part.Format
	name := "steps"
	var check func(any) error
	switch {
	case own == nil:
	case own.Name == "regex": // of that name the library calls its own check
		name, check = "regular expression", regular
	default:
		name, check = own.Name, own.Validate
	}
	part.Format = &jsonschema.Format{Name: name, Validate: func(v any) error {
		if s.fuel -= weigh(v, deep); s.fuel < 0 {
			panic(errWork)
		}
		if check == nil {
			return nil
		}
		return check(v)
	}}
	return nil, nil
}

func regular(v any) error {
	text, ok := v.(string)
	if !ok {
		return nil
	}
	_, err := regexp.Compile(text)
	return err
}

// weigh is how much there is to look at in a value.
func weigh(v any, deep bool) int64 {
	n := int64(1)
	switch v := v.(type) {
	case string:
		n += int64(len(v)) / 64
	case []any:
		n += int64(len(v))
		for i := 0; deep && i < len(v); i++ {
			n += weigh(v[i], true)
		}
	case map[string]any:
		n += int64(len(v))
		if deep {
			for _, one := range v {
				n += weigh(one, true)
			}
		}
	}
	return n
}

// numbers refuses numbers that no check can work with.
func numbers(v any, at string) error {
	switch v := v.(type) {
	case json.Number:
		digits, exponent, _ := strings.Cut(strings.ToLower(v.String()), "e")
		if len(digits) > maxDigits {
			return fmt.Errorf("%s: a number of at most %d digits is needed, this has %d", at, maxDigits, len(digits))
		}
		if exponent == "" {
			return nil
		}
		if n, err := strconv.Atoi(exponent); err != nil || n > maxExponent || n < -maxExponent {
			return fmt.Errorf("%s: a number with an exponent from -%d to %d is needed, not %s", at, maxExponent, maxExponent, clip(v.String()))
		}
	case []any:
		for i, one := range v {
			if err := numbers(one, at); err != nil {
				return in(err, at, strconv.Itoa(i))
			}
		}
	case map[string]any:
		for key, one := range v {
			if err := numbers(one, at); err != nil {
				return in(err, at, clip(key))
			}
		}
	}
	return nil
}

// in puts a step into the place that an error names, which begins with at.
func in(err error, at, step string) error {
	return errors.New(at + "." + step + strings.TrimPrefix(err.Error(), at))
}

// clip keeps a text short.
func clip(s string) string {
	if utf8.RuneCountInString(s) > 80 {
		return string([]rune(s)[:80]) + "…"
	}
	return s
}

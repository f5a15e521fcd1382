package strict

import (
	"encoding/json"
	"strings"
	"testing"
)

type inner struct {
	Level string `json:"level"`
}

type body struct {
	Title  string          `json:"title"`
	Hosts  []string        `json:"hosts"`
	Cents  int             `json:"cents"`
	On     *bool           `json:"on"`
	Inner  *inner          `json:"inner"`
	Any    json.RawMessage `json:"any"`
	hidden int
}

func TestDecodeRefusals(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", "the body is empty"},
		{"no object", `[1]`, "not a JSON object"},
		{"word", `hello`, "not a JSON object"},
		{"unknown field", `{"bogus":1}`, "bogus: the box does not know this field"},
		{"other case", `{"Title":"x"}`, "Title: the box does not know"},
		{"unexported", `{"hidden":1}`, "hidden: the box does not know"},
		{"unknown inside", `{"inner":{"x":1}}`, "inner.x: the box does not know"},
		{"twice", `{"title":"a","title":"b"}`, "title: the field is there twice"},
		{"twice by escape", `{"title":"a","\u0074itle":"b"}`, "title: the field is there twice"},
		{"twice deep in any", `{"any":{"a":[{"b":1,"b":2}]}}`, "any.a[0].b: the field is there twice"},
		{"wrong type", `{"title":5}`, "title: a string is needed, not a number"},
		{"wrong type in list", `{"hosts":["a",5]}`, "hosts"},
		{"fraction", `{"cents":1.5}`, "cents: a whole number is needed"},
		{"list for string", `{"title":[]}`, "title: a string is needed, not an array"},
		{"object for list", `{"hosts":{}}`, "hosts: an array is needed, not an object"},
		{"null", `{"title":null}`, "title: a string is needed, not null"},
		{"NaN", `{"cents":NaN}`, `cents: this is not JSON: "NaN"`},
		{"broken number", `{"cents":01}`, "cents: this is no JSON number"},
		{"UTF-8", "{\"title\":\"a\xff\"}", "title: this is not valid UTF-8"},
		{"surrogate", `{"title":"\ud800x"}`, "title: half of a surrogate pair"},
		{"low surrogate", `{"title":"\udc00"}`, "title: half of a surrogate pair"},
		{"control", "{\"title\":\"a\nb\"}", "title: a control character"},
		{"escape", `{"title":"\x"}`, "title: a string has an escape"},
		{"open string", `{"title":"a`, "title: a string does not end"},
		{"ends", `{"title":`, "title: the JSON ends in the middle"},
		{"trailing comma", `{"title":"a",}`, "name in quotes is missing"},
		{"comma in list", `{"hosts":["a",]}`, "hosts[1]: this is not JSON"},
		{"behind", `{"title":"a"} x`, "behind the end"},
		{"deep", `{"any":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`, "more than 64"},
		{"64 in the body", `{"any":` + nested(64, "") + `}`, "any[0][0]"},
		{"64 in the body around a number", `{"any":` + nested(64, "1") + `}`, "more than 64"},
		{"objects", `{"any":` + strings.Repeat(`{"a":`, 64) + "1" + strings.Repeat("}", 64) + `}`, "any.a.a.a"},
		{"not closed", `{"any":` + strings.Repeat("[", 10_000), "more than 64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b body
			err := Decode([]byte(c.in), &b)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %q", err, c.want)
			}
		})
	}
}

// nested is n arrays in one another around a value.
func nested(n int, v string) string {
	return strings.Repeat("[", n) + v + strings.Repeat("]", n)
}

// 64 objects and arrays may stand in one another, the body itself among them.
func TestDecodeTakesDepth(t *testing.T) {
	for _, v := range []string{"", "1", `"x"`, "null", "[],[]"} {
		n := 63
		if strings.Contains(v, "[") {
			n--
		}
		var b body
		if err := Decode([]byte(`{"any":`+nested(n, v)+`}`), &b); err != nil {
			t.Errorf("%d around %s: %v", n, v, err)
		}
	}
}

func TestDecodeTakes(t *testing.T) {
	var b body
	in := " {\"title\":\"\\ud83d\\ude00 \\\\u\",\"hosts\":[\"a\"],\"cents\":-3,\"on\":null,\"inner\":{\"level\":\"low\"},\"any\":{\"x\":[1e3,true,null]}}\n"
	if err := Decode([]byte(in), &b); err != nil {
		t.Fatal(err)
	}
	if b.Title != "😀 \\u" || b.Cents != -3 || b.Inner.Level != "low" || b.On != nil || len(b.Hosts) != 1 {
		t.Fatalf("%+v", b)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"title":"a"}`, `{"any":[{"b":"\ud83d\ude00"}]}`, `{"cents":1e9}`, "{\"title\":\"\xff\"}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if Check(in) == nil && !json.Valid(in) {
			t.Fatalf("taken though no JSON: %q", in)
		}
		var b body
		_ = Decode(in, &b)
	})
}

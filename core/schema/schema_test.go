package schema

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestInput(t *testing.T) {
	big, long := `1e2000000`, strings.Repeat("9", maxDigits+1)
	for _, c := range []struct{ schema, input, want string }{
		{`{"type":"object"}`, `{"n":1e400,"m":-2.5E-400}`, ""},
		{`{"properties":{"n":{"minimum":3}}}`, `{"n":1}`, "input.n: minimum: got 1, want 3"},
		{`{"properties":{"n":{"minimum":3}}}`, `{"n":` + big + `}`, "input.n: a number with an exponent"},
		{`{"properties":{"n":{"maximum":3}}}`, `{"n":-1E+2000000}`, "input.n: a number with an exponent"},
		{`{"properties":{"n":{"multipleOf":3}}}`, `{"n":1e-2000000}`, "input.n: a number with an exponent"},
		{`{"uniqueItems":true}`, `[1,[2,` + big + `]]`, "input.1.1: a number with an exponent"},
		{`{"const":1}`, big, "input: a number with an exponent"},
		{`{}`, `{"a":{"n":1e99999999999999999999}}`, "input.a.n: a number with an exponent"},
		{`{}`, `{"n":` + long + `}`, "input.n: a number of at most 1000 digits"},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","format":"regex"}`, `"("`, "regular expression"},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","format":"regex"}`, `"a"`, ""},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","format":"email"}`, `"x"`, "email"},
		{`{"properties":{"kids":{"items":{"$ref":"#"}}}}`, strings.Repeat(`{"kids":[`, 40) + strings.Repeat(`]}`, 40), ""},
	} {
		s, err := Compile(json.RawMessage(c.schema))
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		err = s.Check(json.RawMessage(c.input))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%.80s against %.80s: %v, not %q", c.input, c.schema, err, c.want)
		}
	}
}

func TestSchemasThatAreRefused(t *testing.T) {
	for of, want := range map[string]string{
		`{"multipleOf":1e2000000}`:                             "schema.multipleOf: a number with an exponent",
		`{"properties":{"n":{"maximum":-1e-2000000}}}`:         "schema.properties.n.maximum: a number with an exponent",
		`{"enum":[1e401]}`:                                     "schema.enum.0: a number with an exponent",
		`{"minimum":` + strings.Repeat("1", maxDigits+1) + `}`: "schema.minimum: a number of at most",
		`{"$ref":"https://packages.example.org/x"}`:            "a schema may refer only to itself",
		`{"type":"nothing"}`:                                   "type",
		`{`:                                                    "EOF",
	} {
		if _, err := Compile(json.RawMessage(of)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, not %q", of, err, want)
		}
	}
}

// A schema of 60 levels that each ask twice would be held against an input 2^60 times.
func TestSchemasThatFanOut(t *testing.T) {
	chain := func(draft, level, leaf string) string {
		var b strings.Builder
		fmt.Fprintf(&b, `{%s"$ref":"#/$defs/l0","$defs":{`, draft)
		for i := range 60 {
			fmt.Fprintf(&b, `"l%d":%s,`, i, strings.ReplaceAll(level, "NEXT", fmt.Sprintf(`{"$ref":"#/$defs/l%d"}`, i+1)))
		}
		return b.String() + `"l60":` + leaf + `}}`
	}
	deep := strings.Repeat(`{"a":`, 60) + `1` + strings.Repeat(`}`, 60)
	for name, c := range map[string]struct{ schema, input string }{
		"all":          {chain("", `{"allOf":[NEXT,NEXT]}`, `{}`), `1`},
		"all, draft 7": {chain(`"$schema":"http://json-schema.org/draft-07/schema#","allOf":[{"$ref":"#/$defs/l0"}],"x":`+`1,`, `{"allOf":[NEXT,NEXT]}`, `{}`), `1`},
		"any":          {chain("", `{"anyOf":[NEXT,NEXT]}`, `false`), `1`},
		"one":          {chain("", `{"oneOf":[NEXT,NEXT]}`, `{"type":"string"}`), `1`},
		"dependent":    {chain("", `{"dependentSchemas":{"a":NEXT,"b":NEXT}}`, `false`), `{"a":1,"b":2}`},
		"not":          {`{"not":` + chain("", `{"dependentSchemas":{"a":NEXT,"b":NEXT}}`, `false`) + `}`, `{"a":1,"b":2}`},
		"itself":       {`{"properties":{"a":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}`, deep},
	} {
		t.Run(name, func(t *testing.T) {
			text := c.schema
			if name == "not" { // references begin at the top
				text = strings.ReplaceAll(text, "#/$defs", "#/not/$defs")
			}
			s, err := Compile(json.RawMessage(text))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // each input has its own steps
				if err := s.Check(json.RawMessage(c.input)); err == nil || !strings.Contains(err.Error(), "too many steps") {
					t.Fatalf("%v", err)
				}
			}
		})
	}
}

package api

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"gurtos/core/actionlog"
)

var update = flag.Bool("update", false, "write the generated parts of docs/api.md")

const docsPath = "../../docs/api.md"

// generated are the parts of docs/api.md between their marks.
func generated(t testing.TB) map[string]string {
	return map[string]string{"rights": rightsTable(), "notes": notesTable(), "settings": settingsTable()}
}

func TestDocsAreCurrent(t *testing.T) {
	have, err := os.ReadFile(docsPath)
	if err != nil {
		t.Fatal(err)
	}
	want := string(have)
	for name, text := range generated(t) {
		begin, end := fmt.Sprintf("<!-- begin %s: made by go generate ./core/api -->\n", name), fmt.Sprintf("<!-- end %s -->\n", name)
		before, rest, ok1 := strings.Cut(want, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok1 || !ok2 {
			t.Fatalf("docs/api.md has no marks for %s", name)
		}
		want = before + begin + text + end + after
	}
	if want == string(have) {
		return
	}
	if !*update {
		t.Fatal("docs/api.md is not what the code says: run go generate ./core/api")
	}
	if err := os.WriteFile(docsPath, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Each note that a package has a name for stands in the table, and no other.
func TestNotesAreComplete(t *testing.T) {
	have := map[string]bool{}
	for _, n := range notes {
		have[n.what] = true
	}
	found := map[string]bool{}
	for _, file := range []string{"notes.go", "../task/notes.go", "../task/noted.go", "../task/memory.go", "../watch/memory.go", "../app/registry.go", "../actionlog/line.go"} {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^(?:\s+|const )[nN]ote[A-Z]\w*\s*= "([^"]+)"`).FindAllSubmatch(src, -1) {
			found[string(m[1])] = true
			if !have[string(m[1])] {
				t.Errorf("%s: %q is not in the table of notes", file, m[1])
			}
		}
	}
	for what := range have {
		if !found[what] {
			t.Errorf("nobody writes %q", what)
		}
	}
}

// openapi is the document as a reader of it sees it.
func openapi(t testing.TB) map[string]any {
	t.Helper()
	b, err := json.Marshal(openAPIDoc(Routes))
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return v.(map[string]any)
}

// compiled is the schema at a place of the document.
func compiled(t testing.TB, at string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("https://box.invalid/openapi.json", openapi(t)); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("https://box.invalid/openapi.json#" + at)
	if err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	return s
}

func TestOpenAPIIsWhole(t *testing.T) {
	if _, silent := openAPIOf(Routes); len(silent) > 0 {
		t.Errorf("no sentence about %q", silent)
	}
	doc := openapi(t)
	if doc["openapi"] != "3.1.0" {
		t.Errorf("openapi is %v", doc["openapi"])
	}
	// Whatever port it was asked on, a client built from the document asks there again.
	if got := fmt.Sprint(doc["servers"]); !strings.Contains(got, "url:/]") {
		t.Errorf("servers are %s", got)
	}
	ids := map[any]bool{}
	for path, item := range doc["paths"].(map[string]any) {
		for method, v := range item.(map[string]any) {
			op := v.(map[string]any)
			name := method + " " + path
			if ids[op["operationId"]] {
				t.Errorf("%s: operationId %v is there twice", name, op["operationId"])
			}
			ids[op["operationId"]] = true
			if s, _ := op["summary"].(string); !strings.HasSuffix(s, ".") {
				t.Errorf("%s: %q is no sentence", name, s)
			}
			inPath := map[string]bool{}
			params, _ := op["parameters"].([]any)
			for _, p := range params {
				if p := p.(map[string]any); p["in"] == "path" {
					inPath["{"+p["name"].(string)+"}"] = true
				}
			}
			for _, n := range regexp.MustCompile(`\{[a-z]+\}`).FindAllString(path, -1) {
				if !inPath[n] {
					t.Errorf("%s: %s is described nowhere", name, n)
				}
			}
			if len(op["responses"].(map[string]any)) == 0 {
				t.Errorf("%s: no response", name)
			}
		}
	}
	schemas := doc["components"].(map[string]any)["schemas"].(map[string]any)
	for name := range schemas {
		compiled(t, "/components/schemas/"+name)
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`"\$ref":"#/components/schemas/([A-Za-z]+)"`).FindAllSubmatch(raw, -1) {
		if schemas[string(m[1])] == nil {
			t.Errorf("%s is referred to and described nowhere", m[1])
		}
	}
}

// Every line that the log can hold is one of the document's events, with exactly
// the fields that eventFields says.
func TestEventsMatchTheLog(t *testing.T) {
	schema := compiled(t, "/components/schemas/LogEvent")
	known := map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[actionlog.Event]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		known[name] = f
	}
	for _, e := range eventFields {
		if e.typ == actionlog.TypeKeep {
			continue // this edition writes none
		}
		for _, all := range []bool{true, false} {
			ev := actionlog.Event{Seq: 1, At: "2026-12-01T05:00:00.000Z", Type: e.typ}
			v := reflect.ValueOf(&ev).Elem()
			for _, f := range e.fields {
				name, may := strings.CutSuffix(f, "?")
				if may && !all {
					continue
				}
				sf, ok := known[name]
				if !ok {
					t.Fatalf("%s: the log has no field %s", e.typ, name)
				}
				v.FieldByIndex(sf.Index).Set(sample(t, name, sf.Type))
			}
			line, err := actionlog.Encode(&ev)
			if err != nil {
				t.Fatalf("%s: %v", e.typ, err)
			}
			got, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(got); err != nil {
				t.Errorf("%s: %v", line, err)
			}
			for _, f := range e.fields {
				if _, ok := got.(map[string]any)[strings.TrimSuffix(f, "?")]; !ok && (all || !strings.HasSuffix(f, "?")) {
					t.Errorf("%s: no %s in %s", e.typ, f, line)
				}
			}
		}
	}
}

func sample(t testing.TB, name string, typ reflect.Type) reflect.Value {
	yes := true
	raw := map[string]string{
		"spec":     `{"title":"t","prompt":"p","workspace":"home","worker":"fake","tools":[],"hosts":[],"budgetCents":100,"source":"api"}`,
		"approval": `{"id":"a","task":"t1","question":"q","costCents":0,"state":"pending"}`,
		"tokens":   `{"input":1,"output":2,"cacheWrite":0,"cacheRead":0}`,
	}
	switch typ {
	case reflect.TypeFor[json.RawMessage]():
		if r, ok := raw[name]; ok {
			return reflect.ValueOf(json.RawMessage(r))
		}
		return reflect.ValueOf(json.RawMessage(`{"a":1}`))
	case reflect.TypeFor[*bool]():
		return reflect.ValueOf(&yes)
	case reflect.TypeFor[json.Number]():
		return reflect.ValueOf(json.Number("1.5"))
	case reflect.TypeFor[[]string]():
		return reflect.ValueOf([]string{"t2"})
	case reflect.TypeFor[int]():
		return reflect.ValueOf(3)
	}
	if name == "state" {
		return reflect.ValueOf("done")
	}
	return reflect.ValueOf("text")
}

// The fields of an app are those that the specification lists, before there is one.
func TestAppHasTheSpecifiedFields(t *testing.T) {
	b, err := json.Marshal(App{Error: "x"})
	if err != nil {
		t.Fatal(err)
	}
	var have map[string]any
	if err := json.Unmarshal(b, &have); err != nil {
		t.Fatal(err)
	}
	want := []string{"apps", "description", "error", "hosts", "name", "on", "openRoutes", "restartNeeded", "secrets", "test", "title", "tools"}
	if got := slices.Sorted(maps.Keys(have)); !slices.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
}

package api

import (
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gurtos/core/actionlog"
	"gurtos/core/approval"
	"gurtos/core/task"
)

func (s *Server) openAPI(c *call) error {
	doc, err := s.document()
	if err != nil {
		return err
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(doc)))
	h.Set("Cache-Control", "no-cache")
	c.w.WriteHeader(http.StatusOK)
	c.w.Write(doc) // a failed write is the client's loss
	return nil
}

var pathName = regexp.MustCompile(`\{([a-z]+)(\.\.\.)?\}`)

func openAPIDoc(table []Route) object {
	doc, _ := openAPIOf(table)
	return doc
}

// openAPIOf also names the fields that nobody wrote a sentence about.
func openAPIOf(table []Route) (doc object, silent []string) {
	sc := &schemas{named: map[string]any{}, inputs: map[reflect.Type]bool{}}
	for _, r := range table {
		if r.In != nil {
			sc.inputs[reflect.TypeOf(r.In)] = true
		}
	}
	var order []string
	paths := map[string]object{}
	for i := range table {
		r := &table[i]
		p := strings.ReplaceAll(r.Path, "...}", "}")
		if paths[p] == nil {
			order = append(order, p)
		}
		paths[p] = append(paths[p], field{strings.ToLower(r.Method), operation(r, sc)})
	}
	all := object{}
	for _, p := range order {
		all = append(all, field{p, paths[p]})
	}
	sc.named["Error"] = object{
		{"type", "object"},
		{"properties", object{{"error", object{{"type", "string"}, {"description", "What is wrong, as a sentence for people."}}}}},
		{"required", []string{"error"}},
	}
	return object{
		{"openapi", "3.1.0"},
		{"info", object{
			{"title", "GurtOS"}, {"version", "1"},
			{"summary", "The HTTP API of a box."},
			{"license", object{{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}},
		}},
		{"servers", []any{object{{"url", "/"}, {"description", "The box that this document is from."}}}},
		{"paths", all},
		{"components", object{
			{"schemas", sc.named},
			{"securitySchemes", object{
				{"deviceToken", object{{"type", "http"}, {"scheme", "bearer"}, {"description", "The token of a paired device."}}},
				{"accessToken", object{{"type", "apiKey"}, {"in", "query"}, {"name", "access_token"}, {"description", "The same token where a header can't be set."}}},
			}},
		}},
	}, sc.silent
}

func operation(r *Route, sc *schemas) object {
	text := "May be called by: " + strings.Join(callers(r.Who), ", ") + "."
	if r.Later != "" {
		text += " This build does not bring " + r.Later + " yet."
	}
	op := object{{"summary", r.Doc}, {"description", text}, {"operationId", operationID(r)}}
	var params []any
	for _, m := range pathName.FindAllStringSubmatch(r.Path, -1) {
		params = append(params, object{{"name", m[1]}, {"in", "path"}, {"required", true}, {"schema", object{{"type", "string"}}}})
	}
	for _, q := range r.Query {
		params = append(params, object{{"name", q.Name}, {"in", "query"}, {"required", false}, {"description", q.Doc}, {"schema", object{{"type", q.Type}}}})
	}
	if params != nil {
		op = append(op, field{"parameters", params})
	}
	if r.In != nil {
		content := content(r.In, sc)
		if r.name() == "PUT /api/vault/{name}" {
			content = append(content, field{"text/plain", object{{"schema", object{{"type", "string"}, {"description", "The value as it is."}}}}})
		}
		op = append(op, field{"requestBody", object{{"required", r.name() != "POST /api/pair/code"}, {"content", content}}})
	}
	op = append(op, field{"responses", responses(r, sc)})
	security := []any{object{{"deviceToken", []string{}}}, object{{"accessToken", []string{}}}}
	if r.Who&none != 0 {
		security = append([]any{object{}}, security...)
	}
	return append(op, field{"security", security})
}

func content(v any, sc *schemas) object {
	if m, ok := v.(Media); ok {
		return object{{m.Type, object{{"schema", object{{"description", m.Doc}}}}}}
	}
	return object{{"application/json", object{{"schema", sc.of(reflect.TypeOf(v))}}}}
}

func responses(r *Route, sc *schemas) object {
	out := object{}
	if r.Later == "" || r.Do == nil {
		ok := object{{"description", "Done."}}
		if r.Out != nil {
			ok = append(ok, field{"content", content(r.Out, sc)})
		}
		out = append(out, field{strconv.Itoa(r.success()), ok})
	}
	for _, st := range statuses(r) {
		out = append(out, field{strconv.Itoa(st), object{
			{"description", http.StatusText(st)},
			{"content", object{{"application/json", object{{"schema", ref("Error")}}}}},
		}})
	}
	return out
}

// statuses are those of a route's refusals.
func statuses(r *Route) []int {
	list := []int{http.StatusBadRequest, http.StatusForbidden}
	ofApp := strings.HasPrefix(r.Path, "/t/") || strings.HasPrefix(r.Path, "/hook/")
	if r.Who&none == 0 || ofApp {
		list = append(list, http.StatusUnauthorized)
	}
	if ofApp {
		list = append(list, http.StatusInternalServerError)
	}
	if strings.HasPrefix(r.Path, "/t/") {
		list = append(list, http.StatusMethodNotAllowed)
	}
	if strings.Contains(r.Path, "{") {
		list = append(list, http.StatusNotFound)
	}
	if r.Method != http.MethodGet {
		list = append(list, http.StatusRequestEntityTooLarge)
	}
	switch {
	case strings.HasSuffix(r.Path, "/changes"), strings.HasSuffix(r.Path, "/diff"), strings.HasSuffix(r.Path, "/undo"):
		list = append(list, http.StatusGone)
	case r.Path == "/api/pair":
		list = append(list, http.StatusTooManyRequests)
	}
	if r.Later != "" && !strings.Contains(r.Path, "{app}") {
		list = append(list, http.StatusNotImplemented)
	}
	slices.Sort(list)
	return list
}

// operationID is such as getApiTasksId.
func operationID(r *Route) string {
	id := strings.ToLower(r.Method)
	for _, w := range strings.FieldsFunc(r.Path, func(c rune) bool { return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z') }) {
		id += strings.ToUpper(w[:1]) + w[1:]
	}
	return id
}

var callerNames = []struct {
	who  who
	name string
}{{screen, "screen"}, {owner, "owner"}, {member, "device"}, {window, "window"}, {none, "none"}}

func callers(w who) []string {
	var out []string
	for _, c := range callerNames {
		if w&c.who != 0 {
			out = append(out, c.name)
		}
	}
	return out
}

// eventFields is what each type of event carries besides seq, at, type and prev.
// A question mark stands behind what may be missing.
var eventFields = []struct {
	typ    actionlog.Type
	fields []string
}{
	{actionlog.TypeTaskCreated, []string{"task", "spec", "user", "app?"}},
	{actionlog.TypeTaskState, []string{"task", "state", "layers?", "error?", "summary?"}},
	{actionlog.TypeTaskStep, []string{"task", "text", "data?"}},
	{actionlog.TypeToolCall, []string{"task", "key", "tool", "input"}},
	{actionlog.TypeToolResult, []string{"task", "key", "ok", "output?", "error?", "cents?"}},
	{actionlog.TypeApprovalAsked, []string{"task", "approval"}},
	{actionlog.TypeApprovalAnswered, []string{"task", "id", "approved", "by", "reason?"}},
	{actionlog.TypeCost, []string{"task?", "cents", "what", "model?", "tokens?"}},
	{actionlog.TypeNetBlocked, []string{"task", "host", "count?"}},
	{actionlog.TypeKeep, []string{"task", "result", "changes?", "conflicts?"}},
	{actionlog.TypeNote, []string{"task?", "track", "data"}},
}

// logEvents describes the lines of the log, one schema a type.
func (s *schemas) logEvents() {
	if s.named["LogEvent"] != nil {
		return
	}
	text := object{{"type", "string"}}
	kinds := map[string]any{
		"spec": s.of(reflect.TypeFor[task.Spec]()), "state": s.of(reflect.TypeFor[task.State]()),
		"layers": object{{"type", "array"}, {"items", text}}, "data": object{}, "input": object{}, "output": object{},
		"ok": object{{"type", "boolean"}}, "approved": object{{"type", "boolean"}}, "cents": object{{"type", "number"}},
		"count": object{{"type", "integer"}}, "approval": s.of(reflect.TypeFor[approval.Approval]()),
		"tokens": object{{"type", "object"}, {"properties", object{
			{"input", object{{"type", "integer"}}}, {"output", object{{"type", "integer"}}},
			{"cacheWrite", object{{"type", "integer"}}}, {"cacheRead", object{{"type", "integer"}}}}},
			{"required", []string{"input", "output", "cacheWrite", "cacheRead"}}},
		"result":    object{{"type", "string"}, {"enum", []string{"pending", "kept", "conflict", "reverted"}}},
		"conflicts": object{{"type", "array"}, {"items", text}},
		"changes": object{{"type", "array"}, {"items", object{{"type", "object"}, {"properties", object{
			{"path", text}, {"change", object{{"type", "string"}, {"enum", []string{"added", "modified", "deleted"}}}}}},
			{"required", []string{"path", "change"}}}}},
	}
	var one []any
	mapping := object{}
	for _, e := range eventFields {
		props := object{
			{"seq", object{{"type", "integer"}, {"minimum", 1}, {"description", "Number of the line."}}},
			{"at", object{{"type", "string"}, {"format", "date-time"}, {"description", "UTC."}}},
			{"type", object{{"const", e.typ}}},
			{"prev", object{{"type", "string"}, {"description", "SHA-256 of the line before, in hex."}}},
		}
		required := []string{"seq", "at", "type"}
		for _, f := range e.fields {
			name, may := strings.CutSuffix(f, "?")
			if !may {
				required = append(required, name)
			}
			kind, ok := kinds[name]
			if !ok {
				kind = text
			}
			props = append(props, field{name, kind})
		}
		name := "Event" + strings.ReplaceAll(title(string(e.typ)), ".", "")
		s.named[name] = object{{"type", "object"}, {"properties", props}, {"required", required}}
		one = append(one, ref(name))
		mapping = append(mapping, field{string(e.typ), "#/components/schemas/" + name})
	}
	s.named["LogEvent"] = object{
		{"description", "One line of the action log. Readers ignore fields that they don't know."},
		{"oneOf", one},
		{"discriminator", object{{"propertyName", "type"}, {"mapping", mapping}}},
	}
}

func title(s string) string {
	words := strings.Split(s, ".")
	for i, w := range words {
		words[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, ".")
}

// rightsTable is the part of docs/api.md that is made from Routes.
func rightsTable() string {
	var b strings.Builder
	b.WriteString("| route | who | body | does |\n|---|---|---|---|\n")
	for _, r := range Routes {
		who := strings.Join(callers(r.Who), " ")
		if r.Who == all {
			who = "all"
		}
		limit := ""
		if r.Method != http.MethodGet {
			limit = size(max(r.Body, smallBody))
		}
		var query []string
		for _, q := range r.Query {
			query = append(query, "`"+q.Name+"`")
		}
		doc := r.Doc
		if query != nil {
			doc += " Takes " + strings.Join(query, ", ") + "."
		}
		if r.Later != "" {
			doc += " *This build does not bring " + r.Later + " yet.*"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.name(), who, limit, doc)
	}
	return b.String()
}

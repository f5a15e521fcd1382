package api

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gurtos/core/approval"
	"gurtos/core/budget"
	"gurtos/core/device"
	"gurtos/core/settings"
	"gurtos/core/task"
	"gurtos/core/vault"
	"gurtos/core/workspace"
	"gurtos/netpolicy"
)

// Types whose only purpose is their shape in the documents.
type (
	// NewTask is a TaskSpec as it is sent.
	NewTask struct {
		Title       string       `json:"title" doc:"A short name for people, 1 to 200 characters."`
		Prompt      string       `json:"prompt" doc:"What the worker is to do, at most 100,000 characters; for worker fake one command a line."`
		Workspace   string       `json:"workspace,omitempty" doc:"A workspace that is there; home when it is missing."`
		Worker      string       `json:"worker,omitempty" enum:"droid,fake" doc:"droid when it is missing; fake runs the prompt's lines and asks no model."`
		Model       string       `json:"model,omitempty" doc:"haiku, sonnet, opus, or an id that starts with claude-; for worker droid."`
		Tools       []string     `json:"tools,omitempty" doc:"Names of tools that it may call; none when it is missing."`
		Hosts       []string     `json:"hosts,omitempty" doc:"At most 50 hosts that it may reach, such as example.com, *.example.com or example.com:8080; without the field none, or defaultHosts when networkDefault is allowlist."`
		BudgetCents budget.Cents `json:"budgetCents,omitempty" doc:"Whole US cents from 0 to 100000; above it the task waits for an OK. defaultBudgetCents when it is missing."`
		Source      string       `json:"source,omitempty" doc:"Who started it, for people; api when it is missing."`
		Folder      string       `json:"folder,omitempty" doc:"GurtOS Personal; refused in this edition."`
		Folders     []string     `json:"folders,omitempty" doc:"GurtOS Personal; refused in this edition."`
		Seat        string       `json:"seat,omitempty" doc:"The agent's seat, at most 60 characters; stored and shown."`
		Droid       *task.Droid  `json:"droid,omitempty" doc:"How Droid works on it."`
	}

	// UndoPreview is what an undo would do.
	UndoPreview struct {
		Paths []task.UndoPath `json:"paths" doc:"Each path that the task changed."`
	}

	// Change is one path that a task changed.
	Change = task.Change

	// LogEvent is one line of the action log.
	LogEvent struct{}
)

// docs describes the fields of types of other packages, by type and JSON name.
// Types of this package carry theirs in the doc tag.
var docs = map[reflect.Type]map[string]string{
	reflect.TypeFor[task.Task](): {
		"id": "t and letters and digits.", "state": "Where it stands.", "user": "The Linux user that it runs as, box-<id>.",
		"layers": "Done tasks whose changes it saw when it started, newest first.", "costCents": "What its tools and models cost, US cents, not rounded.",
		"step": "Its latest step, at most 200 characters.", "createdAt": "When it was made.", "updatedAt": "When the log last told of it.",
		"error": "Why it failed, for people.", "summary": "A summary, if one was recorded.", "app": "The app whose box started it; set by the box alone.",
	},
	reflect.TypeFor[task.Droid](): {
		"plan": "A plan first, which starts only once the owner approved it.", "autonomy": "low (no network, budget 0), medium (budget at most 100) or high.",
	},
	reflect.TypeFor[task.Spec](): {
		"title": "A short name for people.", "prompt": "What the worker is to do.", "workspace": "The workspace that it works on a copy of.",
		"worker": "droid or fake.", "model": "The exact model that it runs on; worker droid only.", "tools": "Names of tools that it may call.",
		"hosts": "Hosts that it may reach.", "budgetCents": "US cents above which it waits for an OK.", "source": "Who started it.",
		"seat": "The agent's seat.", "droid": "How Droid works on it.", "folder": "GurtOS Personal.", "folders": "GurtOS Personal.",
	},
	reflect.TypeFor[approval.Approval](): {
		"id": "Names the question for ever.", "key": "Of a budget question: the key of the call that runs once it is approved.", "tool": "Of a budget question: the tool that is called.", "input": "Of a budget question: the call's input, byte for byte what runs.", "task": "The task that asks.", "question": "What people see.", "costCents": "US cents that it is about; 0 when it is not about money.",
		"payee": "Who gets paid, or the host to be reached.", "purpose": "What it is for.", "state": "Whether it was answered, and how.", "by": "Who answered.", "reason": "Why, if that was said.",
	},
	reflect.TypeFor[device.Device](): {
		"id": "Names the device.", "name": "Its name for people, unique on the box.", "role": "owner or device.", "pairedAt": "When it was paired.", "lastSeen": "When it last called, to within minutes after a restart.",
	},
	reflect.TypeFor[vault.Key]():           {"name": "The key's name.", "setAt": "When it was set."},
	reflect.TypeFor[workspace.Workspace](): {"name": "The workspace's name.", "createdAt": "When it was made."},
	reflect.TypeFor[task.Change](): {
		"path": "Inside the workspace.", "change": "added, modified or deleted.", "size": "Bytes as the task left it.", "binary": "Whether it is no text.", "alsoChangedBy": "Other done tasks of the workspace that changed the same path.",
	},
	reflect.TypeFor[netpolicy.Explanation](): {
		"target": "host:port as it was understood.", "allowed": "Whether the task gets there.", "rule": "The host of the task, or of its worker, that names it.", "why": "The reason, for people.", "leads": "Where its name leads now.",
	},
	reflect.TypeFor[netpolicy.Lead](): {
		"addr": "An address that the name has.", "class": "What kind of address that is, in words.", "why": "Why it is not dialled; absent when it is.",
	},
	reflect.TypeFor[task.UndoPath](): {
		"path": "Inside the workspace.", "outcome": "removed, restored, kept or conflict.", "later": "Later tasks that changed the same path and keep their change.",
	},
}

// reserved are the names that other editions give to answers of this API.
var reserved = map[reflect.Type]object{
	reflect.TypeFor[task.Task](): {
		{"review", reservedText("GurtOS Personal: whether the owner kept what the task did to real folders.")},
		{"requestedBy", reservedText("GurtOS Business: the person who asked for the task.")},
	},
	reflect.TypeFor[approval.Approval](): {
		{"person", reservedText("GurtOS Business: the person who answered.")},
		{"via", reservedText("GurtOS Business: the phone or screen that the answer came from.")},
		{"askedBy", reservedText("GurtOS Business: the person who asked for the task.")},
		{"route", reservedText("GurtOS Business: where the policy sent the question, and why.")},
		{"shadow", reservedText("GurtOS Business: the seat that a suggestion came from.")},
	},
}

func reservedText(doc string) object {
	return object{{"type", "string"}, {"description", doc + " Never there in this edition."}}
}

// enums are the values that named string types take.
var enums = map[reflect.Type][]any{
	reflect.TypeFor[task.State]():     {task.Queued, task.Running, task.Waiting, task.Done, task.Failed, task.Undone},
	reflect.TypeFor[approval.State](): {approval.Pending, approval.Approved, approval.Denied},
	reflect.TypeFor[device.Role]():    {device.Owner, device.Member},
}

func init() {
	m := map[string]string{}
	for _, row := range settings.Table {
		m[row.Name] = row.Doc
	}
	docs[reflect.TypeFor[settings.Values]()] = m
}

// object is a JSON object whose members keep their order.
type object []field

type field struct {
	name  string
	value any
}

func (o object) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		k, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		v, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, k...), ':'), v...)
	}
	return append(b, '}'), nil
}

// schemas collects the components that routes refer to.
type schemas struct {
	named  map[string]any
	silent []string              // fields without a sentence
	inputs map[reflect.Type]bool // what callers send: its pointers tell whether a field was named, and never stand for null
}

func ref(name string) object { return object{{"$ref", "#/components/schemas/" + name}} }

// of is the schema of a type, by reference where it has a name.
func (s *schemas) of(t reflect.Type) any {
	switch t {
	case reflect.TypeFor[budget.Cents]():
		return object{{"type", "number"}}
	case reflect.TypeFor[json.RawMessage]():
		return object{}
	case reflect.TypeFor[LogEvent]():
		s.logEvents()
		return ref("LogEvent")
	case reflect.TypeFor[SettingsChange]():
		s.partial("SettingsChange", reflect.TypeFor[settings.Values]())
		return ref("SettingsChange")
	case reflect.TypeFor[PermissionsChange]():
		s.named["PermissionsChange"] = permissionsChange
		return ref("PermissionsChange")
	}
	if values, ok := enums[t]; ok {
		return object{{"type", "string"}, {"enum", values}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.String:
		return object{{"type", "string"}}
	case reflect.Bool:
		return object{{"type", "boolean"}}
	case reflect.Int, reflect.Int64:
		return object{{"type", "integer"}}
	case reflect.Slice:
		return object{{"type", "array"}, {"items", s.of(t.Elem())}}
	case reflect.Struct:
		if s.named[t.Name()] == nil {
			s.named[t.Name()] = true // a type may hold itself
			s.named[t.Name()] = s.object(t, false)
		}
		return ref(t.Name())
	}
	panic(fmt.Sprintf("api: no schema for %v", t))
}

func (s *schemas) partial(name string, t reflect.Type) { s.named[name] = s.object(t, true) }

func (s *schemas) object(t reflect.Type, partial bool) object {
	props, required := object{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		schema := s.of(f.Type)
		text := describe(t, f, name)
		if text == "" {
			s.silent = append(s.silent, fmt.Sprintf("%v.%s", t, name)) // the tests refuse it
		}
		if words := f.Tag.Get("enum"); words != "" {
			schema = object{{"type", "string"}, {"enum", strings.Split(words, ",")}}
		}
		if f.Type.Kind() == reflect.Pointer && !strings.Contains(opts, "omitempty") && !s.inputs[t] {
			schema = object{{"anyOf", []any{schema, object{{"type", "null"}}}}}
		}
		if o, ok := schema.(object); ok && len(o) > 0 && o[0].name == "$ref" {
			schema = object{{"allOf", []any{o}}, {"description", text}}
		} else {
			schema = append(slices.Clone(schema.(object)), field{"description", text})
		}
		props = append(props, field{name, schema})
		if !partial && !strings.Contains(opts, "omitempty") {
			required = append(required, name)
		}
	}
	props = append(props, reserved[t]...)
	out := object{{"type", "object"}, {"properties", props}}
	if len(required) > 0 {
		out = append(out, field{"required", required})
	}
	if partial || s.inputs[t] {
		out = append(out, field{"additionalProperties", false})
	}
	return out
}

func describe(t reflect.Type, f reflect.StructField, name string) string {
	if d := f.Tag.Get("doc"); d != "" {
		return d
	}
	if d := docs[t][name]; d != "" {
		return d
	}
	if len(f.Index) > 1 { // of an embedded struct
		return docs[t.Field(f.Index[0]).Type][name]
	}
	return ""
}

var permissionsChange = object{
	{"type", "object"},
	{"description", "Items by name, true for allowed, and the limits by theirs."},
	{"properties", object{
		{"money", object{{"type", "boolean"}}}, {"strangers", object{{"type", "boolean"}}},
		{"shell", object{{"type", "boolean"}}}, {"folders", object{{"type", "boolean"}}},
		{"dailyLimitCents", object{{"type", []string{"integer", "null"}}, {"minimum", 0}}},
		{"diskCapBytes", object{{"type", "integer"}, {"minimum", 1_000_000}}},
		{"declaredHostsOnly", object{{"type", "boolean"}}},
	}},
	{"patternProperties", object{{"^key:[A-Z][A-Z0-9_]*$", object{{"type", "boolean"}}}, {"^host:.+$", object{{"type", "boolean"}}}}},
	{"additionalProperties", false},
}

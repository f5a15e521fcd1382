package task_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gurtos/core/actionlog"
	"gurtos/core/settings"
	"gurtos/core/task"
)

type tools map[string]bool

func (s tools) Has(name string) bool  { return s[name] }
func (tools) Title(app string) string { return strings.ToUpper(app[:1]) + app[1:] }

type fixed settings.Values

func (f *fixed) Values() settings.Values { return settings.Values(*f) }

// desk makes Tasks that take tasks and run none.
func desk(t testing.TB, droid bool) (*task.Tasks, *fixed, *actionlog.Log) {
	t.Helper()
	home := t.TempDir()
	for _, dir := range []string{"workspaces/home", "workspaces/a.b-c_D"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc", filepath.Join(home, "workspaces/link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "workspaces/file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := actionlog.Open(home, actionlog.Options{Reserve: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	v := fixed(settings.Defaults())
	workers := map[string]task.Worker{"fake": {}}
	if droid {
		workers["droid"] = task.Worker{}
	}
	ts, err := task.New(t.Context(), task.Options{
		Home: home, Log: log, Settings: &v, Workers: workers, Tools: tools{"shop.buy": true, "shop.look": true}, Layers: task.OnDisk(nil),
	})
	if err != nil {
		t.Fatal(err)
	}
	return ts, &v, log
}

// with is a request of worker fake in which some fields are replaced or left out.
func with(fields map[string]any) string {
	spec := map[string]any{"title": "t", "prompt": "p", "worker": "fake"}
	for k, v := range fields {
		if spec[k] = v; v == nil {
			delete(spec, k)
		}
	}
	b, err := json.Marshal(spec)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func set(name string, v any) string { return with(map[string]any{name: v}) }

func hosts(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("h%d.example.com", i)
	}
	return out
}

// Every refusal is of the field that is wrong, says so first, and leaves nothing.
func TestSpecRefusals(t *testing.T) {
	ts, _, log := desk(t, false)
	before, _ := log.Head()
	for _, row := range []struct{ name, body, want string }{
		{"no title", set("title", nil), "title: a short name for people is needed"},
		{"empty title", set("title", ""), "title: a short name for people is needed"},
		{"title of blanks", set("title", " \n\t"), "title: a short name for people is needed"},
		{"long title", set("title", strings.Repeat("x", 201)), "title: at most 200 characters, this has 201"},
		{"long title of two bytes each", set("title", strings.Repeat("ü", 201)), "title: at most 200 characters, this has 201"},
		{"title a number", set("title", 5), "title: a string is needed"},
		{"title null", `{"title":null,"prompt":"p","worker":"fake"}`, "title: a string is needed, not null"},
		{"no prompt", set("prompt", nil), "prompt: what the worker should do is needed"},
		{"long prompt", set("prompt", strings.Repeat("p", 100_001)), "prompt: at most 100000 characters, this has 100001"},
		{"workspace up", set("workspace", "../etc"), "workspace: a name of 1 to 100"},
		{"workspace dot", set("workspace", "."), "workspace: a name of 1 to 100"},
		{"workspace dots", set("workspace", ".."), "workspace: a name of 1 to 100"},
		{"workspace empty", set("workspace", ""), "workspace: a name of 1 to 100"},
		{"workspace newline", set("workspace", "home\n"), "workspace: a name of 1 to 100"},
		{"workspace missing", set("workspace", "nowhere"), "workspace: there is no workspace nowhere"},
		{"workspace a link", set("workspace", "link"), "workspace: link is no folder"},
		{"workspace a file", set("workspace", "file"), "workspace: file is no folder"},
		{"worker unknown", set("worker", "claude9"), "worker: droid or fake is needed"},
		{"worker droid", set("worker", "droid"), "worker: droid is not in this build. The one that is there is fake"},
		{"worker droid by default", set("worker", nil), "worker: droid is not in this build"},
		{"model of another maker", set("model", "gpt-5"), "model: haiku, sonnet, opus or an id that starts with claude- is needed"},
		{"model prefix alone", set("model", "claude-"), "model: haiku"},
		{"model with a newline", set("model", "claude-x\n"), "model: haiku"},
		{"model empty", set("model", ""), "model: haiku"},
		{"tool unknown", set("tools", []string{"shop.buy", "no.such"}), "tools[1]: no app that is on has a tool named no.such"},
		{"tools a string", set("tools", "shop.buy"), "tools: an array is needed"},
		{"tools of numbers", set("tools", []int{1}), "tools"},
		{"51 hosts", set("hosts", hosts(51)), "hosts: at most 50 hosts, these are 51"},
		{"host of a whole domain", set("hosts", []string{"a.com", "*.com"}), `hosts[1] "*.com": `},
		{"host localhost", set("hosts", []string{"localhost"}), `hosts[0] "localhost": `},
		{"host metadata", set("hosts", []string{"169.254.169.254:80"}), `hosts[0] "169.254.169.254:80": `},
		{"host with a path", set("hosts", []string{"a.com/x"}), `hosts[0] "a.com/x": `},
		{"host empty", set("hosts", []string{""}), `hosts[0] "": `},
		{"budget above", set("budgetCents", 100_001), "budgetCents: a whole number of cents from 0 to 100000 is needed"},
		{"budget below", set("budgetCents", -1), "budgetCents: a whole number"},
		{"budget of half a cent", set("budgetCents", 0.5), "budgetCents: a whole number"},
		{"budget a string", set("budgetCents", "5"), "budgetCents: a whole number"},
		{"budget huge", `{"title":"t","prompt":"p","worker":"fake","budgetCents":1e999999999}`, "budgetCents: a whole number"},
		{"budget NaN", `{"title":"t","prompt":"p","worker":"fake","budgetCents":NaN}`, "budgetCents: "},
		{"source empty", set("source", ""), "source: "},
		{"source long", set("source", strings.Repeat("s", 201)), "source: at most 200 characters"},
		{"seat long", set("seat", strings.Repeat("s", 61)), "seat: at most 60 characters, this has 61"},
		{"folder", set("folder", "/home/me"), "folder: tasks on real folders come with GurtOS Personal"},
		{"folders", set("folders", []string{"/a"}), "folders: tasks on real folders come with GurtOS Personal"},
		{"droid a string", set("droid", "high"), "droid: an object is needed"},
		{"droid.autonomy", set("droid", map[string]any{"autonomy": "max"}), "droid.autonomy: low, medium or high is needed"},
		{"droid.plan", set("droid", map[string]any{"plan": "yes"}), "droid.plan: true or false is needed"},
		{"droid.plan null", `{"title":"t","prompt":"p","worker":"fake","droid":{"plan":null}}`, "droid.plan: true or false is needed, not null"},
		{"droid unknown", set("droid", map[string]any{"speed": 1}), "droid.speed: the box does not know this field"},
		{"unknown field", set("bogus", 1), "bogus: the box does not know this field"},
		{"other case", set("Title", "x"), "Title: the box does not know this field"},
		{"id", set("id", "t1"), "id: the box does not know this field"},
		{"state", set("state", "done"), "state: the box does not know this field"},
		{"user", set("user", "root"), "user: the box does not know this field"},
		{"app", set("app", "shop"), "app: the box does not know this field"},
		{"requestedBy", set("requestedBy", "me"), "requestedBy: the box does not know this field"},
		{"field twice", `{"title":"t","title":"u","prompt":"p","worker":"fake"}`, "title: "},
		{"invalid UTF-8", "{\"title\":\"\xff\",\"prompt\":\"p\",\"worker\":\"fake\"}", "title: "},
		{"half a pair", `{"title":"t","prompt":"\ud800","worker":"fake"}`, "prompt: "},
		{"nested", `{"title":"t","prompt":"p","worker":"fake","tools":` + strings.Repeat("[", 80) + strings.Repeat("]", 80) + `}`, "tools"},
		{"a list", `[]`, "the body is not a JSON object"},
		{"nothing", ``, "the body is empty"},
		{"no JSON", `title=t`, "the body is not a JSON object"},
		{"two", `{"title":"t","prompt":"p","worker":"fake"} {}`, "something stands behind"},
	} {
		_, err := ts.Create(t.Context(), []byte(row.body), task.Caller{})
		var bad *task.Invalid
		if !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), row.want) {
			t.Errorf("%s: %v, not %s", row.name, err, row.want)
		}
	}
	if seq, _ := log.Head(); seq != before {
		t.Errorf("the log went from line %d to %d by refusals", before, seq)
	}
	if all, err := ts.List(t.Context(), task.Filter{}); err != nil || len(all) != 0 {
		t.Error(all, err)
	}
}

func TestSpecLimitsAreTaken(t *testing.T) {
	ts, v, _ := desk(t, false)
	for _, row := range []struct {
		name, body string
		look       func(task.Task) bool
	}{
		{"title of 200", set("title", strings.Repeat("ü", 200)), nil},
		{"prompt of 100,000", set("prompt", strings.Repeat("ü", 100_000)), nil},
		{"prompt empty", set("prompt", ""), nil},
		{"workspace", set("workspace", "a.b-c_D"), func(x task.Task) bool { return x.Workspace == "a.b-c_D" }},
		{"defaults", with(nil), func(x task.Task) bool {
			return x.Workspace == "home" && x.Source == "api" && x.BudgetCents.String() == "100" && x.State == task.Queued &&
				x.User == "box-"+x.ID && x.Tools != nil && x.Hosts != nil && x.Layers != nil && x.CreatedAt != "" && x.CreatedAt == x.UpdatedAt
		}},
		{"model by name", set("model", "sonnet"), func(x task.Task) bool { return x.Model == "claude-sonnet-5-5" }},
		{"model by id", set("model", "claude-opus-5"), func(x task.Task) bool { return x.Model == "claude-opus-5" }},
		{"tools twice", set("tools", []string{"shop.buy", "shop.buy"}), func(x task.Task) bool { return len(x.Tools) == 1 }},
		{"50 hosts", set("hosts", hosts(50)), func(x task.Task) bool { return len(x.Hosts) == 50 }},
		{"host normalised", set("hosts", []string{"EXAMPLE.com."}), func(x task.Task) bool { return x.Hosts[0] == "example.com" }},
		{"budget 0", set("budgetCents", 0), func(x task.Task) bool { return x.BudgetCents.Sign() == 0 }},
		{"budget most", set("budgetCents", 100_000), nil},
		{"budget 1e2", `{"title":"t","prompt":"p","worker":"fake","budgetCents":1e2}`, func(x task.Task) bool { return x.BudgetCents.String() == "100" }},
		{"seat of 60", set("seat", strings.Repeat("s", 60)), nil},
		{"source", set("source", "jira:BOX-12"), func(x task.Task) bool { return x.Source == "jira:BOX-12" && x.App == "" }},
		{"autonomy binds no fake task", with(map[string]any{"droid": map[string]any{"autonomy": "low"}, "hosts": []string{"a.com"}, "budgetCents": 7}),
			func(x task.Task) bool {
				return len(x.Hosts) == 1 && x.BudgetCents.String() == "7" && x.Droid.Autonomy == "low"
			}},
	} {
		x, err := ts.Create(t.Context(), []byte(row.body), task.Caller{})
		if err != nil || row.look != nil && !row.look(x) {
			t.Errorf("%s: %+v, %v", row.name, x, err)
		}
	}
	v.NetworkDefault, v.DefaultHosts, v.DefaultBudgetCents = "allowlist", []string{"example.org"}, 7
	for _, row := range []struct {
		name, body string
		hosts      int
	}{
		{"no hosts field", with(nil), 1},
		{"no hosts said", set("hosts", []string{}), 0},
		{"own hosts", set("hosts", []string{"a.com", "b.com"}), 2},
	} {
		x, err := ts.Create(t.Context(), []byte(row.body), task.Caller{})
		if err != nil || len(x.Hosts) != row.hosts || x.BudgetCents.String() != "7" {
			t.Errorf("%s: %v %s, %v", row.name, x.Hosts, x.BudgetCents, err)
		}
	}
}

func TestDroidLevels(t *testing.T) {
	ts, _, _ := desk(t, true)
	for level, want := range map[string]string{"low": "0 0", "medium": "1 100", "high": "1 5000"} {
		body := with(map[string]any{"worker": nil, "droid": map[string]any{"autonomy": level}, "hosts": []string{"a.com"}, "budgetCents": 5000})
		x, err := ts.Create(t.Context(), []byte(body), task.Caller{})
		if got := fmt.Sprintf("%d %s", len(x.Hosts), x.BudgetCents); err != nil || got != want {
			t.Errorf("%s: %s, not %s (%v)", level, got, want, err)
		}
		if x.Model != task.DefaultModel {
			t.Errorf("%s: model %s", level, x.Model)
		}
	}
}

func TestAppsTasks(t *testing.T) {
	ts, _, log := desk(t, true)
	shop := task.Caller{App: "shop"}
	x, err := ts.Create(t.Context(), []byte(with(nil)), shop)
	if err != nil || x.App != "shop" || x.Source != "shop" {
		t.Fatal(x, err)
	}
	if _, err := ts.SetRights(t.Context(), "shop", []byte(`{"shell":false,"host:EXAMPLE.com":false}`), "me"); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ body, want string }{
		{set("worker", nil), "Shop isn't allowed to run agents that can run commands. The owner can allow it in Settings, Permissions."},
		{set("hosts", []string{"example.com"}), "Shop isn't allowed to let its agents reach example.com. The owner can allow it in Settings, Permissions."},
	} {
		_, err := ts.Create(t.Context(), []byte(row.body), shop)
		var no *task.Forbidden
		if !errors.As(err, &no) || err.Error() != row.want {
			t.Errorf("%v, not %s", err, row.want)
		}
		if _, err := ts.Create(t.Context(), []byte(row.body), task.Caller{}); err != nil {
			t.Errorf("the owner's own task: %v", err)
		}
	}
	refusals := 0
	log.Read(t.Context(), 0, func(_ []byte, event func() (actionlog.Event, error)) error {
		ev, err := event()
		if ev.Type == actionlog.TypeNote && strings.Contains(string(ev.Data), "permission refused") {
			refusals++
		}
		return err
	})
	if refusals != 2 {
		t.Errorf("%d refusals are in the log", refusals)
	}
}

func TestList(t *testing.T) {
	ts, _, _ := desk(t, false)
	var ids []string
	for i := range 5 {
		x, err := ts.Create(t.Context(), []byte(set("workspace", []string{"home", "a.b-c_D"}[i%2])), task.Caller{})
		if err != nil {
			t.Fatal(err)
		}
		ids = append([]string{x.ID}, ids...) // newest first
	}
	if _, err := ts.Undo(t.Context(), ids[0], "me"); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		f    task.Filter
		want []string
	}{
		{task.Filter{}, ids},
		{task.Filter{Limit: 2}, ids[:2]},
		{task.Filter{Limit: 2, Before: ids[1]}, ids[2:4]},
		{task.Filter{Before: ids[4]}, nil},
		{task.Filter{State: task.Undone}, ids[:1]},
		{task.Filter{Workspace: "a.b-c_D"}, []string{ids[1], ids[3]}},
	} {
		got, err := ts.List(t.Context(), row.f)
		var have []string
		for _, x := range got {
			have = append(have, x.ID)
		}
		if err != nil || got == nil || strings.Join(have, " ") != strings.Join(row.want, " ") {
			t.Errorf("%+v: %v, not %v (%v)", row.f, have, row.want, err)
		}
	}
	var gone *task.NotFound
	if _, err := ts.List(t.Context(), task.Filter{Before: "nope"}); !errors.As(err, &gone) {
		t.Error(err)
	}
	if _, err := ts.Get(t.Context(), "nope"); !errors.As(err, &gone) {
		t.Error(err)
	}
	var no *task.Refused
	if _, err := ts.Undo(t.Context(), ids[0], "me"); !errors.As(err, &no) {
		t.Error(err)
	}
	if _, err := ts.Stop(t.Context(), ids[0], "me"); !errors.As(err, &no) || no.To != task.Failed {
		t.Error(err)
	}
}

// FuzzSpec holds that a request is either refused in a sentence or becomes a task
// within every limit, whose spec is taken again as it is.
func FuzzSpec(f *testing.F) {
	for _, s := range []string{
		with(nil), set("hosts", []string{"*.example.com", "10.0.0.1:80"}), set("droid", map[string]any{"plan": true, "autonomy": "low"}),
		set("budgetCents", 1e2), `{"title":"\u0000\u2028"}`, `{"title":"t","prompt":"\ud83d\ude00","worker":"fake","tools":["shop.buy"]}`,
	} {
		f.Add([]byte(s))
	}
	ts, _, _ := desk(f, true)
	f.Fuzz(func(t *testing.T, body []byte) {
		x, err := ts.Check(body, task.Caller{})
		if err != nil {
			var bad *task.Invalid
			if !errors.As(err, &bad) {
				t.Fatalf("%q: %T %v", body, err, err)
			}
			return
		}
		again, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		y, err := ts.Check(again, task.Caller{})
		if err != nil {
			t.Fatalf("%s is refused when it is sent again: %v", again, err)
		}
		if twice, _ := json.Marshal(y); string(twice) != string(again) {
			t.Fatalf("%s becomes %s", again, twice)
		}
	})
}

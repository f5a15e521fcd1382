package check

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	core "gurtos/core/task"
)

// Tasks that stand in a source are found with their worker, and nothing else is taken for one.
func TestTasks(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []task
	}{
		{"nothing", "", nil},
		{"in a call", "x;\nbox.createTask({ title: 'T', prompt: 'step x' });", []task{{2, ""}}},
		{"in a trigger", "schedule({ name: 'a', task: () => ({\n title: `a ${b({ c })}`,\n prompt: 'x: {\"y\"}', tools: ['a', b], worker: 'fake', }) })", []task{{1, "'fake'"}}},
		{"with its worker worked out", "const t = { title, prompt, worker: late ? 'fake' : w };", []task{{1, "late ? 'fake' : w"}}},
		{"two", "[{ title: 'a', prompt: 'b' }, { prompt: 'b', \"title\": 'a', worker: \"droid\" }]", []task{{1, ""}, {1, `"droid"`}}},
		{"with a spread", "({ ...order, title: 'a', prompt: 'b' })", nil},
		{"with a spread behind", "({ title: 'a', prompt: 'b', ...order })", nil},
		{"a type", "interface T { title: string; prompt: string }", nil},
		{"a type with commas", "type T = { title: string, prompt: string };", nil},
		{"a block", "function f() { title: for (;;) { prompt: 1; } }", nil},
		{"a tool", "({ name: 'a.b', title: 'c', description: 'd' })", nil},
		{"in a comment", "// { title: 'a', prompt: 'b' }\n/* { title: 'a', prompt: 'b' } */", nil},
		{"in a string", "const s = \"{ title: 'a', prompt: 'b' }\" + '\\'{ title: a, prompt: b }';", nil},
		{"with a comment inside", "({ title: 'a', // prompt\n prompt: 'b', /* worker: 'fake' */ })", []task{{1, ""}}},
		{"with a worker in a variable of that name", "({ title: 'a', prompt: 'b', worker })", []task{{1, "worker"}}},
		{"with a title in one", "({ title, prompt: 'b' })", []task{{1, ""}}},
		{"taken apart", "function f({ title, prompt }) {}\nconst { title: a, prompt: b } = t;", nil},
		{"compared", "if (t == { title: 'a', prompt: 'b' } == u) {}", []task{{1, ""}}},
		{"behind an apostrophe", "x = /don't/;\n({ title: 'a', prompt: 'b' })", []task{{2, ""}}},
		{"behind a string with one", "x = 'a\\\nb';\n({ title: 'a', prompt: 'b' })", []task{{3, ""}}},
		{"behind a name without an end", strings.Repeat("a b", 1<<20) + "; ({\n" + strings.Repeat(" ", 1000) + "title: 'a', prompt: " + strings.Repeat("'b' + ", 1<<18) + "'c', worker: 'fake' })", []task{{1, "'fake'"}}},
		{"broken off", "({ title: 'a', prompt: 'b'", nil},
		{"closed too often", "}])({ title: 'a', prompt: 'b' })", []task{{1, ""}}},
	} {
		if got := tasks(c.text); !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	if w := core.Workers()[absent]; !w.Absent || core.Workers()["fake"].Absent || len(core.Workers()) != 2 {
		t.Error("what is said of workers is not what the box has")
	}
}

func TestTaskWithoutAWorkerThatIsThere(t *testing.T) {
	for worker, want := range map[string]string{"": "names no worker, and droid,", " worker: 'droid',": "this task's worker, droid, is not in this build", " worker: 'fake',": ""} {
		dir := folder(t, "weather", map[string]string{"track.ts": app("triggers: [\n{ name: 't', start: (box) => { void box.createTask({ title: 'T', prompt: 'step x'," + worker + " }); } }],")})
		r, err := look(t.Context(), filepath.Join(root(t), "bin"), dir, false)
		if err != nil || len(r.Problems) > 0 {
			t.Fatal(err, r.Problems) // the app itself is in order: another build brings the worker
		}
		got := fmt.Sprint(r.Notes)
		if (want == "") != (len(r.Notes) == 0) || want != "" && (len(r.Notes) != 1 || !strings.HasPrefix(got, "[track.ts:5: ") || !strings.Contains(got, want)) {
			t.Errorf("%q: %s", worker, got)
		}
	}
}

package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// root is the source tree.
func root(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// folder makes an app's folder of these files, with the SDK where it belongs.
func folder(t testing.TB, name string, files map[string]string) string {
	t.Helper()
	tree := t.TempDir()
	if err := os.Symlink(filepath.Join(root(t), "core"), filepath.Join(tree, "core")); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(tree, "tracks", name)
	for path, text := range files {
		to := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func problems(t testing.TB, dir string, types bool) []string {
	t.Helper()
	r, err := look(t.Context(), filepath.Join(root(t), "bin"), dir, types)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Skipped) > 0 {
		t.Fatalf("not looked at: %q", r.Skipped)
	}
	var out []string
	for _, p := range r.Problems {
		out = append(out, p.String())
	}
	return out
}

const start = "import type { Track } from '../../core/contract.ts';\n"

// app is a track.ts of an app named weather.
func app(parts string) string {
	return start + "export default {\n  name: 'weather', description: 'Tells the weather.',\n" + parts + "\n} satisfies Track;\n"
}

// TestTracks holds the apps of the tree to what they hold others to.
func TestTracks(t *testing.T) {
	all, err := filepath.Glob(filepath.Join(root(t), "tracks", "*", "track.ts"))
	if err != nil || len(all) < 3 {
		t.Fatal(all, err)
	}
	for _, track := range all {
		if got := problems(t, filepath.Dir(track), true); len(got) > 0 {
			t.Errorf("%s:\n%s", filepath.Base(filepath.Dir(track)), strings.Join(got, "\n"))
		}
	}
}

func TestProblems(t *testing.T) {
	tool := func(more, run string) string {
		return "tools: [{ name: 'weather.now', description: 'Now.', " + more + " async run(_i: unknown, ctx) { " + run + " } }],"
	}
	for _, c := range []struct {
		what  string
		files map[string]string
		want  []string // with … at the end where more may follow
	}{
		{"in order", map[string]string{"track.ts": app(tool("", "return ctx.key;"))}, nil},
		{"another name", map[string]string{"track.ts": strings.Replace(app(""), "'weather'", "'rain'", 1)}, []string{`track.ts: name: it is "rain", and has to be the name of the app's folder, weather`}},
		{"nothing exported", map[string]string{"track.ts": "export const x = 1;\n"}, []string{"track.ts: track.ts exports no app as its default. It is to end in `export default { name: 'weather', … } satisfies Track`"}},
		{"no track.ts", map[string]string{"README.md": "x"}, []string{"there is no track.ts in its folder"}},
		{"a tool twice", map[string]string{"track.ts": app("tools: [1, 2].map(() => ({ name: 'weather.now', description: 'd', run: async () => 1 })),")}, []string{"track.ts: tools[1].name: there is another one of the name weather.now"}},
		{"an enum", map[string]string{"track.ts": "enum A { B }\nexport const a = A.B;\n" + app("")}, []string{"track.ts: Node runs TypeScript by leaving out its types, and TypeScript enum is more than a type. Write it in plain JavaScript"}},
		{"a namespace", map[string]string{"part.ts": "namespace N { export const x = 1; }\nexport const y = N.x;\n", "track.ts": app("")}, []string{"part.ts: Node runs TypeScript by leaving out its types, and TypeScript namespace declaration is more than a type. Write it in plain JavaScript"}},
		{"a parameter property", map[string]string{"track.ts": "export class P { constructor(public x: number) {} }\n" + app("")}, []string{"track.ts: Node runs TypeScript by leaving out its types, and TypeScript parameter property is more than a type. Write it in plain JavaScript"}},
		{"another file of the core", map[string]string{"track.ts": "import { testBox } from '../../core/testbox.ts';\nvoid testBox;\n" + app("")}, []string{"it can't be loaded: track.ts imports ../../core/testbox.ts: an app may import core/contract.ts, core/triggers.ts, its own files and its own packages alone"}},
		{"another app", map[string]string{"track.ts": "import '../other/track.ts';\n" + app("")}, []string{"it can't be loaded: track.ts imports ../other/track.ts: an app may import core/contract.ts, core/triggers.ts, its own files and its own packages alone"}},
		{"no such package", map[string]string{"track.ts": "import 'left-pad';\n" + app("")}, []string{"it can't be loaded: track.ts imports left-pad: the package is not among the app's own. Name it in the app's package.json"}},
		{"a path without its ending", map[string]string{"part.ts": "export const x = 1;\n", "track.ts": "import { x } from './part';\nvoid x;\n" + app("")}, []string{"it can't be loaded: track.ts imports ./part: there is no such file. A path is written whole, with its ending, such as ./parts.ts"}},
		{"it throws", map[string]string{"track.ts": "throw new Error('not today');\n"}, []string{"it can't be loaded: not today"}},
		{"it ends", map[string]string{"track.ts": "process.exit(7);\n"}, []string{"it ended its process while it was loaded (exit status 7)"}},
		{"it writes", map[string]string{"track.ts": "import { writeFileSync } from 'node:fs';\nwriteFileSync('/tmp/weather', 'x');\n" + app("")}, []string{"it can't be loaded: Access to this API has been restricted. Use --allow-fs-write to manage permissions."}},
		{"no description", map[string]string{"track.ts": start + "export default { name: 'weather' } satisfies Track;\n"}, []string{"track.ts: description: App Center has nothing to show; give it one, or a README.md with a paragraph"}},
		{"a description in the README", map[string]string{"README.md": "# Weather\n\nTells it.\n", "track.ts": start + "export default { name: 'weather' } satisfies Track;\n"}, nil},
		{"keys that are not listed", map[string]string{"track.ts": "const KEY = 'WEATHER_KEY';\n" + app(tool("secrets: ['OTHER_KEY'],", "return [ctx.secret('OTHER_KEY'), ctx.secret(KEY), ctx.box.secret('OTHER_KEY')].length;")+"\nroutes: { 'GET /': (_r, box) => new Response(box.secret('OTHER_KEY')) },")}, []string{
			"track.ts:5: ctx.secret() reads WEATHER_KEY, and no tool or model job lists it in its secrets", "track.ts:5: box.secret() reads OTHER_KEY, and the app does not list it in its secrets", "track.ts:6: box.secret() reads OTHER_KEY, and the app does not list it in its secrets"}},
		{"a host that is not listed", map[string]string{"track.ts": app(tool("hosts: ['api.example.com', '*.example.net:8443'],", "// 'https://comment.example.org'\n await fetch('https://api.example.com/x'); await fetch(`https://a.example.net:8443`); await fetch(\"http://evil.example.org/\"); return ctx.key;"))}, []string{
			"track.ts:5: evil.example.org is in an address here, and no tool lists it in its hosts"}},
		{"packages that may change", map[string]string{"package.json": `{"dependencies": {"a": "^1.0.0"}, "devDependencies": {"b": "latest"}, "optionalDependencies": {"c": "git+ssh://x", "d": "1.2.3"}}`, "track.ts": app("")}, []string{
			"the package a, which package.json names, is not installed: run npm install in the source tree"}},
		{"a type that does not fit", map[string]string{"track.ts": app("tools: [{ name: 'weather.now', description: 'd', cost: () => '5', run: async () => 1 }],")}, []string{"track.ts:4: Type '() => string' is not assignable to type '(input: any) => number'.", "…"}},
		{"a link", map[string]string{"track.ts": app(""), "link": "→track.ts"}, []string{"link is a link: an app's folder holds its files themselves"}},
	} {
		dir := folder(t, "weather", c.files)
		if to, ok := strings.CutPrefix(c.files["link"], "→"); ok {
			os.Remove(filepath.Join(dir, "link"))
			if err := os.Symlink(to, filepath.Join(dir, "link")); err != nil {
				t.Fatal(err)
			}
		}
		types := strings.HasPrefix(c.what, "a type") || c.what == "in order"
		got, want := problems(t, dir, types), c.want
		if n := len(want); n > 0 && want[n-1] == "…" { // the compiler may say more
			got, want = got[:min(len(got), n-1)], want[:n-1]
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s:\n%s\nnot\n%s", c.what, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func TestPinned(t *testing.T) {
	dir := folder(t, "weather", map[string]string{"package.json": `{"dependencies": {"a": "^1.0.0", "b": "1.2.3-rc.1"}, "devDependencies": {"c": "latest"}}`})
	var r Report
	r.packages(dir)
	want := `package.json: a is "^1.0.0": pin it to one version, such as 1.2.3` + "\n" + `package.json: c is "latest": pin it to one version, such as 1.2.3`
	var got []string
	for _, p := range r.Problems {
		got = append(got, p.String())
	}
	if strings.Join(got, "\n") != want {
		t.Errorf("%q", got)
	}
}

func TestWhereThereIsNoSDK(t *testing.T) {
	if _, err := App(t.Context(), filepath.Join(root(t), "bin"), filepath.Join(t.TempDir(), "weather")); err == nil || !strings.Contains(err.Error(), "there is no contract.ts in ") {
		t.Error(err)
	}
	if r, err := App(t.Context(), "", "/tmp/Weather"); err != nil || len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Text, "no name for an app") {
		t.Error(r, err)
	}
}

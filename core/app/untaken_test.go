package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gurtos/core/task"
)

// A paid call of which nobody got an answer is told to the owner with what the app did: one that did its work counts as spent, one that was cut off may.
func TestPaidCallWithoutAnAnswer(t *testing.T) {
	does := map[string]string{
		"big":     `return 'x'.repeat(29 << 20);`,
		"func":    `return (() => 1) as any;`,
		"bigint":  `return { n: 1n } as any;`,
		"circle":  `const a: any = {}; a.a = a; return a;`,
		"throws":  `throw new Error('closed');`,
		"exits":   `process.exit(7);`,
		"waits":   `fs.writeFileSync('/work/begun', ''); await new Promise(() => {});`,
		"toomuch": `return { spentCents: 6 };`,
	}
	apps := map[string]string{}
	for name, body := range does {
		apps[name] = "import fs from 'node:fs';\n" + oneTool(name, body, "cost: () => 5,")
	}
	w := newWorld(t, apps)
	for name := range does {
		w.on(name)
	}
	for name, want := range map[string]struct{ cost, result, alert string }{
		"big":     {"5", "what it gave back can't be taken: a message of 30 MB; at most 10 are possible", "did its work, and what it gave back can't be taken"},
		"func":    {"5", "what it gave back can't be taken: it gave back a function", "did its work, and what it gave back can't be taken"},
		"bigint":  {"5", "what it gave back can't be taken: Do not know how to serialize a BigInt", "did its work, and what it gave back can't be taken"},
		"circle":  {"5", "what it gave back can't be taken: Converting circular", "did its work, and what it gave back can't be taken"},
		"throws":  {"0", "closed", ""},
		"exits":   {"0", "cut off in its app, since it ended by itself, with exit code 7, and not called again", "was cut off in its app, since it ended by itself, with exit code 7, and"},
		"waits":   {"0", "cut off in its app, since the app was turned off, and not called again", "was cut off in its app, since the app was turned off, and"},
		"toomuch": {"5", `{"spentCents":6}`, "gave back the spentCents 6, and a number from 0 to its cost of 5 is needed"},
	} {
		id := w.task("trycall "+name+".do {}", name+".do")
		if name == "waits" {
			w.until("it began", func() bool {
				begun, err := filepath.Glob(filepath.Join(w.home, "apps", "waits", "store", "*", "begun"))
				must(t, err)
				_, err = os.Stat(filepath.Join(w.home, "apps", "waits", "store", "begun"))
				return len(begun) > 0 || err == nil
			})
			must(t, w.apps.Switch(t.Context(), "waits", false, "test"))
		}
		end := w.over(id)
		if end.State != task.Done || end.CostCents.String() != want.cost {
			t.Errorf("%s: the task: %+v", name, end)
		}
		if got := w.results(id); len(got) != 1 || !strings.HasPrefix(got[0], want.result) {
			t.Errorf("%s: results: %.300q", name, got)
		}
		var told []string
		for _, n := range w.notes("box") {
			if strings.Contains(n, `"what":"alert"`) && strings.Contains(n, fmt.Sprintf("%s.do", name)) {
				told = append(told, n)
			}
		}
		if want.alert == "" && len(told) > 0 || want.alert != "" && (len(told) != 1 || !strings.Contains(told[0], want.alert) || !strings.Contains(told[0], id+".1")) {
			t.Errorf("%s: the owner is told %q", name, told)
		}
	}
}

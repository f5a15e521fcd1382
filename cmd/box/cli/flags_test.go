package cli

import (
	"flag"
	"strings"
	"testing"
)

// Whatever is wrong with a flag, the sentence names it and what there is instead.
func TestWrongFlags(t *testing.T) {
	t.Setenv("BOX_URL", "")
	t.Setenv("BOX_HOME", t.TempDir())
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"task", "new", "--tools", "shop.pay", "T"}, "`box task new` has no flag --tools, perhaps --tool is meant; it takes "},
		{[]string{"task", "new", "T", "--work=fake"}, "no flag --work, perhaps --work"},
		{[]string{"task", "list", "--all"}, "`box task list` has no flag --all; it takes --before, --json, --limit, --state, --workspace. `box help task list`"},
		{[]string{"vault", "list", "-x"}, "has no flag -x; it takes --json"},
		{[]string{"task", "new", "--prompt"}, "--prompt needs a value behind it"},
		{[]string{"task", "list", "--limit", "many"}, `--limit is "many": a whole number is needed`},
		{[]string{"task", "list", "--limit", "99999999999999999999"}, "a whole number is needed"},
		{[]string{"task", "list", "--json=maybe"}, `--json is "maybe": true or false is needed`},
		{[]string{"log", "--after", "1e3"}, `--after is "1e3": a whole number is needed`},
		{[]string{"log", "---x"}, "behind -- all are arguments"},
		{[]string{"log", "--\x1b[2J"}, "has no flag --"},
	} {
		out, errs, code := call(t, c.args...)
		if code != 2 || out != "" || !strings.Contains(errs, c.says) || strings.Count(errs, "\n") != 1 || strings.Contains(errs, "\x1b") {
			t.Errorf("%q: %d %q %q, want %q", c.args, code, out, errs, c.says)
		}
	}
	// Those of all commands stand in front of one, behind it, or both.
	for _, args := range [][]string{{"--json", "--json"}, {"--json", "-json", "task", "list"}, {"--json", "task", "list", "--json"}, {"task", "list", "--json", "x", "--json=false"}} {
		if out, errs, code := call(t, args...); code != 2 || out != "" || !strings.Contains(errs, "--json is given twice; give it once. `box help") {
			t.Errorf("%q: %d %q %q", args, code, out, errs)
		}
	}
	if _, errs, _ := call(t, "task", "new", "--tool", "a.b", "--tool", "c.d", "--host", "a.example", "--host", "b.example", "T", "U"); strings.Contains(errs, "twice") {
		t.Errorf("a flag that may be given several times: %s", errs)
	}
	// Of every command and every flag.
	for _, c := range Commands {
		args := append(strings.Fields(c.Name), "--no-such-flag")
		if _, errs, code := call(t, args...); code != 2 || !strings.Contains(errs, "`box "+c.Name+"` has no flag --no-such-flag; it takes ") {
			t.Errorf("%q: %d %s", args, code, errs)
		}
		set := flag.NewFlagSet("", flag.ContinueOnError)
		set.Bool("json", false, "")
		if c.Flags != nil {
			c.Flags(set)
		}
		set.VisitAll(func(f *flag.Flag) {
			if _, several := f.Value.(*words); !several {
				args, value := strings.Fields(c.Name), "1"
				if b, ok := f.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
					value = "true"
				}
				for _, more := range [][]string{{"--" + f.Name + "=" + value, "--" + f.Name + "=" + value}, {"-" + f.Name + "=" + value, "a", "b", "c", "--" + f.Name + "=" + value}} {
					if _, errs, code := call(t, append(args[:len(args):len(args)], more...)...); code != 2 || !strings.Contains(errs, dashed(f.Name)+" is given twice; give it once. `box help "+c.Name+"` tells more") {
						t.Errorf("%q %q: %d %s", args, more, code, errs)
					}
				}
			}
			if b, ok := f.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
				return
			}
			args := append(strings.Fields(c.Name), "--"+f.Name)
			if _, errs, code := call(t, args...); code != 2 || !strings.Contains(errs, dashed(f.Name)+" needs a value behind it") {
				t.Errorf("%q: %d %s", args, code, errs)
			}
		})
	}
}

package tracks

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/publicsuffix"
)

const suffixesFile = "../../core/testbox/suffixes.ts"

// suffixWidth is how wide a line of the list is, without its quotes.
const suffixWidth = 150

// TestSuffixesAreCurrent holds the test box to the public suffixes that the box itself
// knows: those of the module that it is built with, whose only readable list stands in
// its own test.
func TestSuffixesAreCurrent(t *testing.T) {
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "golang.org/x/net/publicsuffix").Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "table_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(source), "var rules = [...]string{")
	list, _, _ = strings.Cut(list, "\n}")
	var rules []string
	for _, m := range regexp.MustCompile(`(?m)^\t"(.*)",$`).FindAllStringSubmatch(list, -1) {
		if rule := m[1]; strings.Contains(rule, ".") { // a wildcard over a name of one part is refused anyway
			rules = append(rules, rule)
		}
	}
	if len(rules) < 5000 {
		t.Fatalf("%d rules: the list is written in another way now", len(rules))
	}
	for _, rule := range rules {
		name, exception := strings.CutPrefix(rule, "!")
		name = strings.Replace(name, "*", "any", 1)
		if suffix, _ := publicsuffix.PublicSuffix(name); (suffix == name) == exception {
			t.Errorf("the box takes %s for the suffix of %s, against the rule %s", suffix, name, rule)
		}
	}
	var b strings.Builder
	b.WriteString("// Made by `go generate ./test/tracks` from golang.org/x/net/publicsuffix, which has them from the public suffix list (publicsuffix.org, MPL 2.0).\n\n")
	b.WriteString("/** Names of more than one part below which anyone can have a name; `*` stands for any part, and a name with `!` in front is none. */\n")
	b.WriteString("export const suffixes: ReadonlySet<string> = new Set(\n  [\n")
	line := ""
	for i, rule := range rules {
		line += " " + rule
		if i == len(rules)-1 || len(line)+len(rules[i+1]) > suffixWidth {
			fmt.Fprintf(&b, "    '%s',\n", line[1:])
			line = ""
		}
	}
	b.WriteString("  ].flatMap((line) => line.split(' ')),\n);\n")
	if *update {
		if err := os.WriteFile(suffixesFile, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(suffixesFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != b.String() {
		t.Errorf("%s is not what the box is built with: run `go generate ./test/tracks`", suffixesFile)
	}
}

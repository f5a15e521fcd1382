package tracks

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"gurtos/core/budget"
)

var update = flag.Bool("update", false, "write what is generated")

const pricesFile = "../../tracks/anthropic/prices.ts"

// TestPricesAreCurrent holds the model app's list of prices to the one that the box counts with.
func TestPricesAreCurrent(t *testing.T) {
	p := budget.ListPrices()
	var b strings.Builder
	b.WriteString("// Made from core/budget/prices.json by `go generate ./test/tracks`: an app can't read the core's files.\n\n")
	b.WriteString("/** US cents for a million tokens of each kind. */\nexport interface Rates {\n  input: number;\n  output: number;\n  cacheWrite: number;\n  cacheRead: number;\n}\n\n")
	b.WriteString("/** A model's prices; `long` are those of a prompt of more than `over` tokens. */\nexport interface Price extends Rates {\n  long?: Rates & { over: number };\n}\n\n")
	fmt.Fprintf(&b, "/** Whose price an unknown model has. */\nexport const fallback = '%s';\n\n/** By model. */\nexport const prices: Record<string, Price> = {\n", p.Default)
	for _, model := range slices.Sorted(maps.Keys(p.Models)) {
		price := p.Models[model]
		long := ""
		if l := price.Long; l != nil {
			long = fmt.Sprintf(", long: { over: %d, %s }", l.Over, rates(t, l.Rates))
		}
		fmt.Fprintf(&b, "  '%s': { %s%s },\n", model, rates(t, price.Rates), long)
	}
	b.WriteString("};\n")
	if *update {
		if err := os.WriteFile(pricesFile, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(pricesFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != b.String() {
		t.Errorf("%s is not what core/budget/prices.json says: run `go generate ./test/tracks`", pricesFile)
	}
}

func rates(t *testing.T, r budget.Rates) string {
	t.Helper()
	var parts []string
	for _, f := range []struct {
		name  string
		cents budget.Cents
	}{{"input", r.Input}, {"output", r.Output}, {"cacheWrite", r.CacheWrite}, {"cacheRead", r.CacheRead}} {
		n, err := json.Marshal(f.cents)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, f.name+": "+string(n))
	}
	return strings.Join(parts, ", ")
}

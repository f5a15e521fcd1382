package budget

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"

	"github.com/shopspring/decimal"
)

// Tokens are what a model read and wrote.
type Tokens struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheWrite int64 `json:"cacheWrite"`
	CacheRead  int64 `json:"cacheRead"`
}

// MaxTokens is the most that one count may be.
const MaxTokens = 1_000_000_000_000

// Rates are US cents for a million tokens of each kind.
type Rates struct {
	Input      Cents `json:"input"`
	Output     Cents `json:"output"`
	CacheWrite Cents `json:"cacheWrite"`
	CacheRead  Cents `json:"cacheRead"`
}

// Price is what a model costs, and where and when that was read.
type Price struct {
	Rates
	Long   *Long  `json:"long,omitempty"` // what a long prompt costs, where that differs
	Source string `json:"source"`
	Date   string `json:"date"`
}

// Long is the rates of a prompt of more tokens than Over.
type Long struct {
	Over int64 `json:"over"`
	Rates
}

// Prices are the list prices of models.
type Prices struct {
	Version int              `json:"version"`
	Default string           `json:"default"` // whose price an unknown model has
	Unit    string           `json:"unit"`
	Models  map[string]Price `json:"models"`
}

//go:embed prices.json
var pricesJSON []byte

// ListPrices are those of prices.json.
var ListPrices = sync.OnceValue(func() *Prices {
	p := &Prices{}
	if err := json.Unmarshal(pricesJSON, p); err != nil {
		panic(fmt.Sprintf("prices.json: %v", err)) // embedded, and read by a test
	}
	return p
})

var datedModel = regexp.MustCompile(`-[0-9]{8}$`)

// Of is the price of a model; a dated id has that of the model without the date, and
// an unknown one that of the default.
func (p *Prices) Of(model string) Price {
	for _, name := range []string{model, datedModel.ReplaceAllString(model, "")} {
		if price, ok := p.Models[name]; ok {
			return price
		}
	}
	return p.Models[p.Default]
}

// Cost is what tokens cost, exactly. Counts that stand for several prompts are priced
// as one, so that a model whose long prompts cost more is never priced too low.
func (p *Prices) Cost(model string, n Tokens) Cents {
	price := p.Of(model)
	rates := price.Rates
	if l := price.Long; l != nil && n.Input+n.CacheWrite+n.CacheRead > l.Over {
		rates = l.Rates
	}
	var sum Cents
	for _, part := range []struct {
		rate  Cents
		count int64
	}{
		{rates.Input, n.Input}, {rates.Output, n.Output}, {rates.CacheWrite, n.CacheWrite}, {rates.CacheRead, n.CacheRead},
	} {
		sum = sum.Add(Cents{part.rate.d.Mul(decimal.NewFromInt(part.count)).Shift(-6)})
	}
	return sum
}

// AtMost is what a request costs at most that has its model read and write so many
// tokens: all that it reads may go into the cache, too. Without a model's name it is the
// dearest.
func (p *Prices) AtMost(model string, read, written int64) Cents {
	models := []string{model}
	if model == "" {
		models = slices.Collect(maps.Keys(p.Models))
	}
	var most Cents
	for _, m := range models {
		for _, n := range []Tokens{{Input: read, Output: written}, {CacheWrite: read, Output: written}} {
			if c := p.Cost(m, n); c.Cmp(most) > 0 {
				most = c
			}
		}
	}
	return most
}

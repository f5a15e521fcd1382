package budget

import (
	"encoding/json"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

// A million additions of random decimals give exactly what whole numbers of a
// hundred-millionth of a cent give.
func TestAMillionAdditionsAreExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var sum Cents
	want := new(big.Int)
	for range 1_000_000 {
		n, shift := r.Int64N(1_000_000_000), r.IntN(9)
		c, err := ParseCents(new(big.Rat).SetFrac64(n, int64pow10(shift)).FloatString(shift))
		if err != nil {
			t.Fatal(err)
		}
		sum = sum.Add(c)
		want.Add(want, new(big.Int).Mul(big.NewInt(n), big.NewInt(int64pow10(8-shift))))
	}
	if got, _ := new(big.Rat).SetString(sum.String()); got.Cmp(new(big.Rat).SetFrac(want, big.NewInt(int64pow10(8)))) != 0 {
		t.Fatalf("%s is not %s hundred-millionths", sum, want)
	}
}

func int64pow10(n int) int64 {
	p := int64(1)
	for range n {
		p *= 10
	}
	return p
}

func TestCents(t *testing.T) {
	var tenth Cents
	for range 10 {
		c, err := ParseCents("0.1")
		if err != nil {
			t.Fatal(err)
		}
		tenth = tenth.Add(c)
	}
	if b, err := json.Marshal(tenth); err != nil || string(b) != "1" {
		t.Fatalf("0.1 ten times is %s, %v", b, err)
	}
	for text, want := range map[string]string{
		"0": "0", "1e3": "1000", "0.1": "0.1", "1.50": "1.5", "-2": "-2", "1e-10": "0.0000000001",
		"1e999999999": "", "1e41": "", "1e-41": "", "abc": "", "": "", `"1"`: "", "NaN": "", "Infinity": "",
	} {
		got, err := ParseCents(text)
		if want == "" {
			if err == nil {
				t.Errorf("%s is taken for %s", text, got)
			}
		} else if err != nil || got.String() != want {
			t.Errorf("%s is %s, not %s (%v)", text, got, want, err)
		}
	}
	for text, want := range map[string]string{"0": "0.00", "1": "0.01", "120": "1.20", "0.5": "0.005", "100000": "1000.00", "-5": "-0.05"} {
		c, err := ParseCents(text)
		if err != nil || c.Dollars() != want {
			t.Errorf("%s cents are %s dollars, not %s (%v)", text, c.Dollars(), want, err)
		}
	}
}

func TestPrices(t *testing.T) {
	p := ListPrices()
	if _, ok := p.Models[p.Default]; !ok || p.Default != "claude-sonnet-5-5" {
		t.Fatalf("default %q", p.Default)
	}
	for name, price := range p.Models {
		if price.Source == "" {
			t.Errorf("%s has no source", name)
		}
		if _, err := time.Parse(time.DateOnly, price.Date); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, c := range []Cents{price.Input, price.Output, price.CacheRead, price.CacheWrite} {
			if c.Sign() <= 0 {
				t.Errorf("%s has a price of %s", name, c)
			}
		}
	}
	for _, row := range []struct {
		model string
		n     Tokens
		want  string
	}{
		{"claude-sonnet-5-5", Tokens{12000, 900, 0, 48000}, "3.78"}, // 2.4 + 0.9 + 0 + 0.48
		{"no such model", Tokens{12000, 900, 0, 48000}, "3.78"},
		{"claude-haiku-4-5-20251001", Tokens{Input: 1}, "0.0001"},
		{"claude-opus-5", Tokens{CacheWrite: 3}, "0.001875"},
		{"claude-haiku-5-5", Tokens{Input: 100_000, Output: 1000}, "1.05"},
		{"claude-haiku-5-5", Tokens{Input: 60_000, CacheRead: 40_001, Output: 1000}, "3.450005"},
		{"claude-sonnet-5-5", Tokens{}, "0"},
	} {
		if got := p.Cost(row.model, row.n); got.String() != row.want {
			t.Errorf("%s %+v costs %s, not %s", row.model, row.n, got, row.want)
		}
	}
}

// When the daily sum starts anew: by time that passes, never by a step.
// What counts against a day's limit, over midnights and after it turns out which day it
// really is.
func TestDayOfTheLedger(t *testing.T) {
	for _, row := range []struct {
		name string
		do   string // k and d: 1 cent spent on a day that is known, or in doubt; |: midnight; + 0 -: it turns out to be later, the day that it was thought, earlier
		want string // spent today afterwards
	}{
		{"the same day", "kkk", "3"},
		{"midnight", "kk|k", "1"},
		{"in doubt, the same day", "kdd0", "3"},
		{"in doubt, a later day", "kdd+", "2"},
		{"in doubt over midnight, a later day", "kd|dd+", "3"},
		{"in doubt over two midnights", "kd|d|dd+", "3"},
		{"known again over midnight", "kd0|k", "1"},
		{"a day off", "kkk+k", "1"},
		{"earlier", "kkd-", "3"},
		{"earlier, in doubt over midnight", "d|dk-", "3"},
		{"twice", "kd+d+", "1"},
	} {
		var l Ledger
		for _, c := range row.do {
			switch c {
			case 'k', 'd':
				l.AddTool("2026-12-01", "shop", Whole(1), c == 'k')
			case '|':
				l.NewDay()
			case '+', '0', '-':
				l.Checked(map[rune]int64{'+': 2, '-': -2}[c])
			}
			b, err := json.Marshal(&l)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(b, &l); err != nil {
				t.Fatal(err)
			}
		}
		if got := l.Today("shop"); got.String() != row.want {
			t.Errorf("%s: %s, not %s", row.name, got, row.want)
		}
	}
}

func TestLedger(t *testing.T) {
	var l Ledger
	l.AddTool("2026-12-01", "shop", Whole(80), true)
	l.AddModel("2026-12-01", "shop", "claude-opus-5", Whole(7))
	l.AddTool("2026-12-02", "shop", Whole(1), true)
	if got := l.Sums("2026-12-01", "2026-12-01"); len(got) != 2 || got[0].Cents.String() != "80" || got[1].Model != "claude-opus-5" {
		t.Error(got)
	}
	if got := l.Today("shop"); got.String() != "81" {
		t.Errorf("a model's cost is no tool's: %s", got)
	}
	b, err := json.Marshal(&l)
	if err != nil {
		t.Fatal(err)
	}
	var again Ledger
	if err := json.Unmarshal(b, &again); err != nil {
		t.Fatal(err)
	}
	if b2, _ := json.Marshal(&again); string(b2) != string(b) || again.Today("shop").String() != "81" {
		t.Fatalf("%s\n%s", b, b2)
	}
}

// What a request costs at most is no less than what any of its tokens' kinds make it cost.
func TestAtMost(t *testing.T) {
	p := ListPrices()
	for _, row := range []struct {
		model         string
		read, written int64
		want          string
	}{
		{"claude-opus-5", 200_000, 32_000, "205"}, // 125 into the cache, and 80
		{"claude-sonnet-5-5", 0, 64_000, "64"},
		{"claude-haiku-5-5", 100_001, 0, "6.2500625"}, // a long prompt
		{"claude-haiku-5-5", 100_000, 0, "1.25"},
		{"no such model", 200_000, 32_000, "82"},
		{"", 1_000_000, 128_000, "1890"}, // of the dearest
		{"", 0, 0, "0"},
	} {
		got := p.AtMost(row.model, row.read, row.written)
		if got.String() != row.want {
			t.Errorf("%q, %d, %d: %s, not %s", row.model, row.read, row.written, got, row.want)
		}
		for _, n := range []Tokens{{Input: row.read, Output: row.written}, {CacheRead: row.read, Output: row.written}, {CacheWrite: row.read, Output: row.written}} {
			if c := p.Cost(row.model, n); c.Cmp(got) > 0 {
				t.Errorf("%q: %+v costs %s, above %s", row.model, n, c, got)
			}
		}
	}
}

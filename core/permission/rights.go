package permission

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gurtos/core/budget"
	"gurtos/core/strict"
	"gurtos/netpolicy/rules"
)

// The items that have no name behind them.
const (
	Money     = "money"     // spending
	Strangers = "strangers" // open routes
	Shell     = "shell"     // running agents that can run commands
	Folders   = "folders"   // giving agents copies of the owner's folders
)

// DefaultDiskCap is how many bytes an app's task may write where the owner set nothing.
const DefaultDiskCap = 5_000_000_000

// Rights are what the owner decided for one app. The zero value is that of an app
// that the owner never touched: all is allowed, no daily limit.
type Rights struct {
	Off               map[string]bool `json:"off,omitempty"`             // items turned off
	DailyLimitCents   *budget.Cents   `json:"dailyLimitCents,omitempty"` // nil for none
	DiskCapBytes      int64           `json:"diskCapBytes,omitempty"`    // 0 for DefaultDiskCap
	DeclaredHostsOnly bool            `json:"declaredHostsOnly,omitempty"`
}

// Allowed says whether an item, such as money or host:example.com, is on. A host is off
// too where it and one that was turned off have an address in common: *.example.com is
// when api.example.com is.
func (r Rights) Allowed(item string) bool {
	if r.Off[item] {
		return false
	}
	host, ok := strings.CutPrefix(item, "host:")
	if !ok {
		return true
	}
	rule, err := rules.Parse(host)
	if err != nil {
		return true // and no rule, so nobody reaches it
	}
	for off := range r.Off {
		other, ok := strings.CutPrefix(off, "host:")
		if o, err := rules.Parse(other); ok && err == nil && o.Overlaps(rule) {
			return false
		}
	}
	return true
}

// DiskCap is how many bytes one of the app's tasks may write.
func (r Rights) DiskCap() int64 {
	if r.DiskCapBytes == 0 {
		return DefaultDiskCap
	}
	return r.DiskCapBytes
}

// Clone is a copy that shares nothing with r.
func (r Rights) Clone() Rights {
	r.Off = maps.Clone(r.Off)
	return r
}

var keyName = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

// Item is the one spelling of an item's name, or an error for what is none.
func Item(name string) (string, error) {
	kind, rest, named := strings.Cut(name, ":")
	switch {
	case !named && slices.Contains([]string{Money, Strangers, Shell, Folders}, name):
		return name, nil
	case named && kind == "key" && keyName.MatchString(rest):
		return name, nil
	case named && kind == "host":
		rule, err := rules.Parse(rest)
		if err != nil {
			return "", fmt.Errorf("%s", err)
		}
		return "host:" + rule.String(), nil
	}
	return "", fmt.Errorf("the box knows no permission of this name")
}

// Change holds a PUT's body against what there is and returns the rights after it.
// What is wrong with the body is a *strict.Error.
func (r Rights) Change(body []byte) (Rights, error) {
	if err := strict.Check(body); err != nil {
		return r, err
	}
	var set map[string]json.RawMessage
	if err := json.Unmarshal(body, &set); err != nil || set == nil {
		return r, &strict.Error{Sentence: "the body is not a JSON object"}
	}
	out := r.Clone()
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if err := out.set(name, bytes.TrimSpace(set[name])); err != nil {
			return r, err
		}
	}
	return out, nil
}

func (r *Rights) set(name string, v []byte) error {
	wrong := func(want string) error { return &strict.Error{Field: name, Sentence: want + " is needed"} }
	switch name {
	case "dailyLimitCents":
		if string(v) == "null" {
			r.DailyLimitCents = nil
			return nil
		}
		c, err := budget.ParseCents(string(v))
		if err != nil || !c.IsWhole() || c.Sign() < 0 || c.Cmp(budget.Whole(1e9)) > 0 {
			return wrong("a whole number of cents from 0 to 1000000000, or null for no limit,")
		}
		r.DailyLimitCents = &c
		return nil
	case "diskCapBytes":
		var n int64
		if json.Unmarshal(v, &n) != nil || n < 1_000_000 || n > 1e15 {
			return wrong("a whole number of bytes from 1000000 to 1000000000000000")
		}
		r.DiskCapBytes = n
		return nil
	}
	var on bool
	if string(v) != "true" && string(v) != "false" {
		return wrong("true or false")
	}
	on = string(v) == "true"
	if name == "declaredHostsOnly" {
		r.DeclaredHostsOnly = on
		return nil
	}
	item, err := Item(name)
	if err != nil {
		return &strict.Error{Field: name, Sentence: err.Error()}
	}
	if r.Off == nil {
		r.Off = map[string]bool{}
	}
	if r.Off[item] = !on; on {
		delete(r.Off, item)
	}
	return nil
}

// phrases finish "<App> isn't allowed to …", by the item's kind; %s is what stands
// behind its colon.
var phrases = map[string]string{
	Money:     "spend money",
	Strangers: "answer strangers",
	Shell:     "run agents that can run commands",
	Folders:   "give agents copies of your folders",
	"key":     "use %s",
	"host":    "let its agents reach %s",
}

// Refusal is the sentence that an app gets for what the owner turned off.
func Refusal(title, item string) string {
	kind, name, _ := strings.Cut(item, ":")
	what := strings.Replace(phrases[kind], "%s", name, 1)
	return title + " isn't allowed to " + what + ". The owner can allow it in Settings, Permissions."
}

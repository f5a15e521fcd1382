package permission

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"gurtos/netpolicy/rules"
)

// Uses are when each app last used what the owner can take from it: by app and item,
// the at of a line of the log.
type Uses map[string]map[string]string

// mostUsed is how many hosts and keys are kept of an app, those that it used last. What
// it declares and what is off is shown besides.
const mostUsed = 200

// See takes uses of one line.
func (u Uses) See(app, at string, items ...string) {
	if len(items) == 0 {
		return
	}
	used := u[app]
	if used == nil {
		used = map[string]string{}
		u[app] = used
	}
	now := map[string]bool{}
	for _, item := range items {
		used[item], now[item] = at, true
	}
	if len(used) <= mostUsed {
		return
	}
	var named []string
	for item := range used {
		if strings.Contains(item, ":") {
			named = append(named, item)
		}
	}
	slices.SortFunc(named, func(a, b string) int {
		switch {
		case now[a] != now[b] && now[b]: // whatever the clock says, a new one is the last
			return -1
		case now[a] != now[b]:
			return 1
		}
		return cmp.Or(strings.Compare(used[a], used[b]), strings.Compare(a, b))
	})
	for _, item := range named[:max(0, len(named)-mostUsed)] {
		delete(used, item)
	}
}

// Parsed are the rules of items, so that none is read again at each look.
type Parsed map[string]rules.Rule

// mostParsed is how many are kept.
const mostParsed = 10_000

func (p Parsed) rule(item string) (rules.Rule, bool) {
	text, ok := strings.CutPrefix(item, "host:")
	if !ok {
		return rules.Rule{}, false
	}
	r, ok := p[item]
	if !ok {
		if len(p) >= mostParsed {
			clear(p)
		}
		r, _ = rules.Parse(text) // what is none overlaps with no host
		p[item] = r
	}
	return r, true
}

// Reached takes that a task of the app reached each host:port, by a rule that it was
// made with before.
func (u Uses) Reached(app string, hostports []string, at string, p Parsed) {
	known := map[string]rules.Rule{}
	for item := range u[app] {
		if r, ok := p.rule(item); ok {
			known[item] = r
		}
	}
	for _, h := range hostports {
		host, err := rules.Parse(h)
		if err != nil {
			continue
		}
		for item, r := range known {
			if r.Overlaps(host) {
				u[app][item] = at
				delete(known, item) // it is as late as can be
			}
		}
	}
}

// Clone is a copy that shares nothing with u.
func (u Uses) Clone() Uses {
	out := Uses{}
	for app, items := range u {
		out[app] = maps.Clone(items)
	}
	return out
}

// Declared is what an app says that it does, as far as the owner can turn it off.
type Declared struct {
	App       string
	Title     string   // for people
	Keys      []string // of the vault: the app's own, its tools' and its jobs'
	Money     bool     // a tool of it has a price
	Strangers bool     // it has open routes
}

// Items are what may be turned off for the app: what it declares, what it used, and
// what is off. Their order is that of the specification.
func (d Declared) Items(r Rights, used map[string]string) []string {
	all := map[string]bool{}
	for _, k := range d.Keys {
		all["key:"+k] = true
	}
	if d.Money {
		all[Money] = true
	}
	if d.Strangers {
		all[Strangers] = true
	}
	for item := range used {
		all[item] = true
	}
	for item := range r.Off {
		all[item] = true
	}
	order := []string{"key", Money, Strangers, Shell, Folders, "host"}
	rank := func(item string) int {
		kind, _, _ := strings.Cut(item, ":")
		return slices.Index(order, kind)
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
}

// Knows says whether an item may be turned on or off for the app: a key only where it
// declares it, or it is off already.
func (d Declared) Knows(item string, r Rights) bool {
	name, isKey := strings.CutPrefix(item, "key:")
	return !isKey || slices.Contains(d.Keys, name) || r.Off[item]
}

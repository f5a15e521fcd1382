package permission

import (
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"gurtos/netpolicy/rules"
)

// Uses are when each app last used what the owner can take from it: by app and item,
// the at of a line of the log.
type Uses map[string]map[string]string

// See takes one use.
func (u Uses) See(app, item, at string) {
	if u[app] == nil {
		u[app] = map[string]string{}
	}
	u[app][item] = at
}

// Reached takes that a task of the app reached host:port, by a rule that it was made
// with before.
func (u Uses) Reached(app, hostport, at string) {
	host, p, err := net.SplitHostPort(hostport)
	port, err2 := strconv.ParseUint(p, 10, 16)
	if err != nil || err2 != nil {
		return
	}
	for item := range u[app] {
		rule, ok := strings.CutPrefix(item, "host:")
		if !ok {
			continue
		}
		set, err := rules.ParseList([]string{rule})
		if err != nil {
			continue
		}
		if _, ok := set.Match(host, uint16(port)); ok {
			u[app][item] = at
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

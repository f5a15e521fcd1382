package rules

import (
	"fmt"
	"net/netip"
	"strings"
)

// Set is the rules of one task. A look-up costs a step for each label of the
// name, however many rules there are. Its zero value allows nothing.
type Set struct {
	exact    map[string][]Rule // by name
	wildcard map[string][]Rule // by the name below which it holds
	addrs    map[netip.AddrPort]Rule
	all      []Rule
}

// ParseList reads a task's hosts. The error names the rule that is wrong by its
// index, as written, and the reason.
func ParseList(hosts []string) (Set, error) {
	if len(hosts) > Max {
		return Set{}, fmt.Errorf("hosts: at most %d hosts, not %d", Max, len(hosts))
	}
	s := Set{exact: map[string][]Rule{}, wildcard: map[string][]Rule{}, addrs: map[netip.AddrPort]Rule{}}
	for i, h := range hosts {
		r, err := Parse(h)
		if err != nil {
			return Set{}, fmt.Errorf("hosts[%d] %.300q: %w", i, h, err)
		}
		s.all = append(s.all, r)
		switch {
		case r.addr.IsValid():
			s.addrs[netip.AddrPortFrom(r.addr, r.port)] = r
		case r.wildcard:
			s.wildcard[r.name] = append(s.wildcard[r.name], r)
		default:
			s.exact[r.name] = append(s.exact[r.name], r)
		}
	}
	return s, nil
}

// Rules are the normalised rules in the order given.
func (s Set) Rules() []Rule { return s.all }

// Name says whether any port of a normalised name may be reached: what the name
// server asks.
func (s Set) Name(name string) bool {
	_, ok := s.find(name, func(Rule) bool { return true })
	return ok
}

// Match finds the rule that allows a port of a normalised name; one that names
// the port wins over one that does not, and a name over a wildcard.
func (s Set) Match(name string, port uint16) (Rule, bool) {
	if r, ok := s.find(name, func(r Rule) bool { return r.port == port }); ok {
		return r, true
	}
	return s.find(name, func(r Rule) bool { return r.port == 0 })
}

// MatchAddr finds the rule that names exactly this address and port.
func (s Set) MatchAddr(a netip.AddrPort) (Rule, bool) {
	r, ok := s.addrs[netip.AddrPortFrom(Embedded(a.Addr()), a.Port())]
	return r, ok
}

func (s Set) find(name string, ok func(Rule) bool) (Rule, bool) {
	for _, r := range s.exact[name] {
		if ok(r) {
			return r, true
		}
	}
	for {
		_, rest, more := strings.Cut(name, ".")
		if !more {
			return Rule{}, false
		}
		for _, r := range s.wildcard[rest] {
			if ok(r) {
				return r, true
			}
		}
		name = rest
	}
}

package rules

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Set is the rules of one task. A look-up costs a step for each label of the
// name, however many rules there are. Its zero value allows nothing.
type Set struct {
	exact    map[string][]Rule // by name
	wildcard map[string][]Rule // by the name below which it holds
	addrs    map[netip.AddrPort]Rule
	all      []Rule
	public   bool // any public host besides
}

// ParseOpen reads the hosts that an app declares. Its set lets through any public host
// besides; one on a private network only where a rule names its exact host:port, as
// ever. The error is that of ParseList.
func ParseOpen(hosts []string) (Set, error) {
	s, err := ParseList(hosts)
	s.public = err == nil
	return s, err
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
		s.put(r)
	}
	return s, nil
}

func (s *Set) put(r Rule) {
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

// Add adds rules that nobody gave the task: Max doesn't count them, and none of them
// opens a private network.
func (s *Set) Add(hosts ...string) error {
	for _, h := range hosts {
		r, err := Parse(h)
		if err != nil {
			return fmt.Errorf("%.300q: %w", h, err)
		}
		r.added = true
		s.put(r)
	}
	return nil
}

// Rules are the normalised rules in the order given.
func (s Set) Rules() []Rule { return s.all }

// Name says whether any port of a normalised name may be reached: what the name
// server asks.
func (s Set) Name(name string) bool {
	_, ok := s.find(name, func(Rule) bool { return true })
	return ok || s.anyName(name)
}

// Names says whether a rule names this one host, a normalised name or an address, with
// whatever port; no wildcard does.
func (s Set) Names(host string) bool {
	if _, ok := s.exact[host]; ok {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && slices.ContainsFunc(s.all, func(r Rule) bool { return r.addr == Embedded(a) })
}

// Match finds the rule that allows a port of a normalised name; one that names
// the port wins over one that does not, a name over a wildcard, and each of them
// over the leave for any public host.
func (s Set) Match(name string, port uint16) (Rule, bool) {
	if r, ok := s.find(name, func(r Rule) bool { return r.port == port }); ok {
		return r, true
	}
	if r, ok := s.find(name, func(r Rule) bool { return r.port == 0 }); ok {
		return r, true
	}
	if s.anyName(name) {
		return Rule{public: true}, true
	}
	return Rule{}, false
}

// MatchAddr finds the rule that names exactly this address and port.
func (s Set) MatchAddr(a netip.AddrPort) (Rule, bool) {
	if r, ok := s.addrs[netip.AddrPortFrom(Embedded(a.Addr()), a.Port())]; ok {
		return r, true
	}
	if s.public && a.Port() != 0 && Classify(a.Addr()) == Public {
		return Rule{public: true}, true
	}
	return Rule{}, false
}

// anyName says whether a name may be one of a public host. Where it leads is for the
// dialler to judge.
func (s Set) anyName(name string) bool {
	return s.public && name != "" && !isLocal(name) && !metadataNames[name] && !EndsInNumber(name)
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

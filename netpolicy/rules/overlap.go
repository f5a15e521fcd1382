package rules

import "strings"

// Overlaps says whether there is a host and port that both rules let through.
func (r Rule) Overlaps(o Rule) bool {
	if r.addr.IsValid() || o.addr.IsValid() {
		return r.addr == o.addr && r.port == o.port
	}
	if r.port != 0 && o.port != 0 && r.port != o.port {
		return false
	}
	switch {
	case r.name == "" || o.name == "":
		return false
	case r.wildcard && o.wildcard:
		return below(r.name, o.name) || below(o.name, r.name) || r.name == o.name
	case r.wildcard:
		return below(o.name, r.name)
	case o.wildcard:
		return below(r.name, o.name)
	}
	return r.name == o.name
}

func below(name, top string) bool { return strings.HasSuffix(name, "."+top) }

package netpolicy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"gurtos/netpolicy/rules"
)

// Lead is one address that a name has, and why it is not dialled, "" when it is.
type Lead struct {
	Addr  string `json:"addr"`
	Class string `json:"class"` // such as "a public address"
	Why   string `json:"why,omitempty"`
}

// Explanation says whether a host is let through, and why.
type Explanation struct {
	Target  string `json:"target"` // host:port as it was understood
	Allowed bool   `json:"allowed"`
	Rule    string `json:"rule,omitempty"` // the rule that names it
	Why     string `json:"why"`            // a sentence
	Leads   []Lead `json:"leads,omitempty"`
}

// NoHost says what makes something no host:port.
type NoHost struct {
	Host string // as it was given
	Why  error
}

func (e *NoHost) Error() string { return fmt.Sprintf("%.300q: %v", e.Host, e.Why) }
func (e *NoHost) Unwrap() error { return e.Why }

// Explain says what a program with this policy gets that goes to hostport, as the
// listener and the dialler would decide now. Without a port, 443 is meant. An address
// that stands for a name in the file of names means that name. What is no host is a
// *NoHost.
func (p *Policy) Explain(ctx context.Context, hostport string) (Explanation, error) {
	set, err := p.parse(p.Hosts, p.AnyPublic)
	if err != nil {
		return Explanation{}, err
	}
	if strings.LastIndexByte(hostport, ':') <= strings.LastIndexByte(hostport, ']') {
		hostport += ":443"
	}
	t, err := parseTarget(hostport, true)
	if err != nil {
		return Explanation{}, &NoHost{hostport, err}
	}
	if t.name == "" && p.Names != "" {
		known, err := openNames(p.Names)
		if err != nil {
			return Explanation{}, err
		}
		t.name, _ = known.name(t.addr)
	}
	e := Explanation{Target: t.String()}
	if _, local := own(t.name + "."); local || t.name == "" && (t.addr.IsLoopback() || t.addr.IsUnspecified()) {
		e.Why = fmt.Sprintf("%s is the sandbox itself: nothing that goes there leaves it.", t.host())
		return e, nil
	}
	rule, err := t.verdict(&set)
	switch {
	case err == nil:
	case t.name == "":
		e.Why = fmt.Sprintf("No rule names the address %s with port %d; an address is let through by its exact address:port alone, not by a name that has it.", t.addr, t.port)
	case set.Name(t.name):
		e.Why = fmt.Sprintf("A rule names %s, but another port of it.", t.name)
	default:
		e.Why = fmt.Sprintf("No rule names %s.", t.name)
	}
	if err != nil {
		return e, nil
	}
	e.Rule = rule.String()
	d, addrs := newDialer(), []netip.Addr{t.addr}
	if t.name != "" {
		if addrs, err = d.resolver.LookupNetIP(ctx, "ip", absolute(t.name)); err != nil {
			e.Why = fmt.Sprintf("The rule %s lets it through, but the name does not resolve: %v.", rule, err)
			return e, nil
		}
	}
	for _, a := range addrs {
		a = a.Unmap()
		lead := Lead{Addr: a.String(), Class: rules.Classify(a).String()}
		switch no, refused := errors.AsType[*Refused](d.check(a, rule.Exact())); {
		case refused:
			lead.Why = no.Why
		default:
			e.Allowed = true
		}
		e.Leads = append(e.Leads, lead)
	}
	switch {
	case !e.Allowed:
		e.Why = fmt.Sprintf("The rule %s names it, but where it leads is refused.", rule)
	case rule.Added():
		e.Why = fmt.Sprintf("The rule %s, which its worker brings for its model, lets it through.", rule)
	default:
		e.Why = fmt.Sprintf("The rule %s lets it through.", rule)
	}
	if e.Allowed && t.port == 53 {
		e.Why += " That is by the proxy: what goes to port 53 without it gets the box's own name server."
	}
	return e, nil
}

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

// Explain says what a task with these hosts gets that goes to hostport, as the
// listener and the dialler would decide now. Without a port, 443 is meant.
func Explain(ctx context.Context, hosts []string, hostport string) (Explanation, error) {
	return explain(ctx, newDialer(), hosts, hostport)
}

func explain(ctx context.Context, d *dialer, hosts []string, hostport string) (Explanation, error) {
	set, err := rules.ParseList(hosts)
	if err != nil {
		return Explanation{}, err
	}
	if strings.LastIndexByte(hostport, ':') <= strings.LastIndexByte(hostport, ']') {
		hostport += ":443"
	}
	t, err := parseTarget(hostport, true)
	if err != nil {
		return Explanation{}, fmt.Errorf("%.300q: %w", hostport, err)
	}
	e := Explanation{Target: t.String()}
	rule, err := t.verdict(&set)
	switch {
	case err != nil && t.name != "" && set.Name(t.name):
		e.Why = fmt.Sprintf("A rule names %s, but another port of it.", t.name)
	case err != nil && t.name == "":
		e.Why = fmt.Sprintf("No rule names the address %s with port %d; an address is let through by its exact address:port alone, not by a name that has it.", t.addr, t.port)
	case err != nil:
		e.Why = fmt.Sprintf("No rule names %s.", t.name)
	}
	if err != nil {
		return e, nil
	}
	e.Rule = rule.String()
	addrs := []netip.Addr{t.addr}
	if t.name != "" {
		if addrs, err = d.resolver.LookupNetIP(ctx, "ip", absolute(t.name)); err != nil {
			e.Why = fmt.Sprintf("The rule %s lets it through, but the name does not resolve: %v.", rule, err)
			return e, nil
		}
	}
	for _, a := range addrs {
		a = a.Unmap()
		lead := Lead{Addr: a.String(), Class: rules.Classify(a).String()}
		no, refused := errors.AsType[*Refused](d.check(a, rule.Exact()))
		if refused {
			lead.Why = no.Why
		}
		e.Allowed = e.Allowed || !refused
		e.Leads = append(e.Leads, lead)
	}
	if e.Allowed {
		e.Why = fmt.Sprintf("The rule %s lets it through.", rule)
	} else {
		e.Why = fmt.Sprintf("The rule %s names it, but where it leads is refused.", rule)
	}
	return e, nil
}

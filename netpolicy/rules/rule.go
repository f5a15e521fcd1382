package rules

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// Max is the most rules that a task may have (specification, page 1, hosts).
const Max = 50

// Rule is one host that a task may reach, normalised. Its zero value matches
// nothing.
type Rule struct {
	name     string     // A-labels, lower case, no final dot; "" for an address
	wildcard bool       // name stands for all that is below it
	addr     netip.Addr // unmapped, without zone
	port     uint16     // 0 means any
	public   bool       // any public host; nothing else is set
	added    bool       // by Set.Add
}

// String is the normalised spelling; Parse of it gives the same rule. The leave for
// any public host has no spelling.
func (r Rule) String() string {
	if r.addr.IsValid() {
		return netip.AddrPortFrom(r.addr, r.port).String()
	}
	if r.port != 0 {
		return r.Host() + ":" + strconv.Itoa(int(r.port))
	}
	return r.Host()
}

// Host is the rule without its port.
func (r Rule) Host() string {
	switch {
	case r.public:
		return "any public host"
	case r.addr.IsValid():
		return r.addr.String()
	case r.wildcard:
		return "*." + r.name
	}
	return r.name
}

// Exact says whether somebody named one host and one port: only such a rule
// opens a host on a private network.
func (r Rule) Exact() bool { return r.port != 0 && !r.wildcard && !r.added }

// Added says whether the rule is none of those that the task was given (Set.Add).
func (r Rule) Added() bool { return r.added }

// Addr is the address that the rule names, invalid when it names a name.
func (r Rule) Addr() netip.Addr { return r.addr }

// Name is the normalised name, without the wildcard.
func (r Rule) Name() string { return r.name }

// Parse reads one rule. The error is the reason, to be put behind the rule in
// quotes: `hosts[2] "*.com": a wildcard over …`.
func Parse(s string) (Rule, error) {
	if s == "" {
		return Rule{}, errors.New("a host is empty")
	}
	if len(s) > 1024 {
		return Rule{}, errors.New("a host name has at most 253 characters")
	}
	if i := strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }); i >= 0 {
		return Rule{}, errors.New("a host holds no spaces or control characters")
	}
	if strings.Contains(s, "://") {
		return Rule{}, errors.New("give the host alone, without http:// or the like")
	}
	if strings.ContainsAny(s, "/?#\\") {
		return Rule{}, errors.New("give the host alone, without a path")
	}
	if strings.Contains(s, "@") {
		return Rule{}, errors.New("give the host alone, without a user name")
	}
	host, port, err := splitPort(s)
	if err != nil {
		return Rule{}, err
	}
	if strings.HasPrefix(host, "[") || EndsInNumber(host) {
		return parseAddr(host, port)
	}
	return parseName(host, port)
}

// splitPort takes a port off the end. A bracketed address keeps its brackets.
func splitPort(s string) (host string, port uint16, err error) {
	host = s
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return "", 0, errors.New("an address that starts with [ ends with ]")
		}
		host, s = s[:end+1], s[end+1:]
		if s == "" {
			return host, 0, nil
		}
		if s[0] != ':' {
			return "", 0, errors.New("after ] there is :port or nothing")
		}
		s = s[1:]
	} else {
		if strings.Count(s, ":") > 1 {
			return "", 0, errors.New("an IPv6 address is written in brackets, with a port, such as [2001:db8::1]:443")
		}
		var found bool
		if host, s, found = strings.Cut(s, ":"); !found {
			return host, 0, nil
		}
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != s {
		return "", 0, errors.New("a port is a number from 1 to 65535")
	}
	return host, uint16(n), nil
}

// EndsInNumber says whether programs would read the host as an IPv4 address:
// its last label is a number, decimal, octal or hexadecimal (WHATWG URL
// Standard, section 3.5, "ends in a number").
func EndsInNumber(host string) bool {
	host = strings.TrimSuffix(mapWidth(host), ".")
	last := host[strings.LastIndexByte(host, '.')+1:]
	if last == "" {
		return false
	}
	if strings.Trim(last, "0123456789") == "" {
		return true
	}
	low := strings.ToLower(last)
	return strings.HasPrefix(low, "0x") && strings.Trim(low[2:], "0123456789abcdef") == ""
}

func parseAddr(host string, port uint16) (Rule, error) {
	text := host
	bracket := strings.HasPrefix(host, "[")
	if bracket {
		text = host[1 : len(host)-1]
	}
	a, err := netip.ParseAddr(strings.TrimSuffix(mapWidth(text), "."))
	switch {
	case err != nil && bracket:
		return Rule{}, errors.New("this is not an IPv6 address")
	case err != nil:
		return Rule{}, errors.New("an address is written as four decimal numbers from 0 to 255, without leading zeros, and a name does not end in a number")
	case a.Zone() != "":
		return Rule{}, errors.New("an address has no zone here")
	case bracket && a.Is4():
		return Rule{}, errors.New("only an IPv6 address is written in brackets")
	}
	a = Embedded(a)
	if c := Classify(a); !c.nameable() {
		return Rule{}, fmt.Errorf("%s is %s, which no task may reach", a, c)
	}
	if port == 0 {
		return Rule{}, errors.New("an address needs an exact port, such as 192.0.2.34:443")
	}
	return Rule{addr: a, port: port}, nil
}

func parseName(host string, port uint16) (Rule, error) {
	r := Rule{port: port}
	if host == "*" || host == "*." {
		return Rule{}, errors.New("a wildcard over all hosts is refused; name the hosts that the task needs")
	}
	if rest, ok := strings.CutPrefix(host, "*."); ok {
		r.wildcard, host = true, rest
	}
	if strings.Contains(host, "*") {
		return Rule{}, errors.New("a * stands only in front, as in *.example.com")
	}
	name, err := Normalize(host)
	if err != nil {
		return Rule{}, err
	}
	if EndsInNumber(name) {
		return Rule{}, errors.New("a name does not end in a number")
	}
	if isLocal(name) {
		return Rule{}, fmt.Errorf("%s is the task itself, which needs no rule", name)
	}
	if metadataNames[name] {
		return Rule{}, fmt.Errorf("%s is a cloud's metadata service, which no task may reach", name)
	}
	if r.wildcard {
		if suffix, _ := publicsuffix.PublicSuffix(name); suffix == name {
			return Rule{}, fmt.Errorf("a wildcard over %s, below which anyone can have a name, is refused; name the hosts that the task needs", name)
		}
	}
	r.name = name
	return r, nil
}

// profile maps as browsers do before a look-up (UTS 46, not transitional). The
// letter-digit-hyphen rule is ours below, since names with _ exist.
var profile = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false), idna.StrictDomainName(false))

// Normalize gives a name's one spelling: A-labels, lower case, no final dot.
// The error says what makes it no name.
func Normalize(name string) (string, error) {
	low, err := profile.ToASCII(name)
	if err == nil && strings.Contains(low, "xn--") {
		// What reads differently the second time is two names.
		var again string
		if again, err = profile.ToASCII(low); err == nil && again != low {
			err = errors.New("unstable")
		}
	}
	if err != nil {
		return "", errors.New("this is not a valid host name")
	}
	low = strings.TrimSuffix(strings.ToLower(low), ".")
	if low == "" || len(low) > 253 {
		return "", errors.New("a host name has 1 to 253 characters")
	}
	for label := range strings.SplitSeq(low, ".") {
		if label == "" {
			return "", errors.New("a host name has no empty part between its dots")
		}
		if len(label) > 63 {
			return "", errors.New("each part of a host name has at most 63 characters")
		}
		if strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "", errors.New("a host name has letters, digits, hyphens and dots only")
		}
	}
	return low, nil
}

// mapWidth turns the dots and digits of other scripts into ASCII, as a resolver
// of international names would, so that none of them hides an address.
func mapWidth(s string) string {
	for i := range len(s) {
		if s[i] >= 0x80 {
			if m, err := profile.ToASCII(s); err == nil {
				return m
			}
			return s
		}
	}
	return s
}

// isLocal knows the names that mean the machine itself (RFC 6761, section 6.3,
// and what /etc/hosts files commonly add).
func isLocal(name string) bool {
	switch name {
	case "localhost", "localhost.localdomain", "localhost4", "localhost6", "localhost4.localdomain4", "localhost6.localdomain6", "ip6-localhost", "ip6-loopback", "loopback":
		return true
	}
	return strings.HasSuffix(name, ".localhost")
}

// metadataNames are the names of clouds' metadata services.
var metadataNames = map[string]bool{
	"metadata.google.internal": true, "metadata.goog": true, "metadata": true, "instance-data": true, "instance-data.ec2.internal": true,
}

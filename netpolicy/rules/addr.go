package rules

import "net/netip"

// Class says what kind of network an address belongs to.
type Class int

// The classes of addresses. Only a Public one is reached by a rule with a name;
// a Private one needs the rule to be its exact host:port; the others are never
// reached.
const (
	Public Class = iota
	Private
	Loopback
	LinkLocal
	Unspecified
	Multicast
	Metadata
	Synthetic
	Reserved
)

// String names the class as part of a sentence.
func (c Class) String() string {
	return [...]string{"a public address", "an address of a private network", "a loopback address", "a link-local address", "an unspecified address", "a multicast address", "a cloud's metadata address", "an address that stands for names inside a task", "a reserved address"}[c]
}

// nameable says whether a rule may name such an address.
func (c Class) nameable() bool { return c == Public || c == Private }

// Ranges of synthetic addresses that the name server of a task gives out
// (specification 6, Names). The IPv6 one is a ULA (RFC 4193) of the box's own.
var (
	Synthetic4 = netip.MustParsePrefix("198.18.0.0/15")
	Synthetic6 = netip.MustParsePrefix("fdb0:7057:6f73::/64")
)

// table is searched from the top; the first prefix that holds the address says
// its class. From the IANA special-purpose registries and clouds' documentation.
var table = []struct {
	prefix netip.Prefix
	class  Class
}{
	{netip.MustParsePrefix("169.254.169.254/32"), Metadata}, // AWS, Azure, GCP, OpenStack
	{netip.MustParsePrefix("169.254.170.2/32"), Metadata},   // AWS ECS
	{netip.MustParsePrefix("100.100.100.200/32"), Metadata}, // Alibaba
	{netip.MustParsePrefix("192.0.0.192/32"), Metadata},     // Oracle
	{netip.MustParsePrefix("168.63.129.16/32"), Metadata},   // Azure's wire server
	{netip.MustParsePrefix("fd00:ec2::/32"), Metadata},      // AWS
	{netip.MustParsePrefix("fd20:ce::254/128"), Metadata},   // GCP
	{netip.MustParsePrefix("0.0.0.0/32"), Unspecified},
	{netip.MustParsePrefix("0.0.0.0/8"), Reserved},
	{netip.MustParsePrefix("127.0.0.0/8"), Loopback},
	{netip.MustParsePrefix("169.254.0.0/16"), LinkLocal},
	{Synthetic4, Synthetic},
	{netip.MustParsePrefix("10.0.0.0/8"), Private},
	{netip.MustParsePrefix("172.16.0.0/12"), Private},
	{netip.MustParsePrefix("192.168.0.0/16"), Private},
	{netip.MustParsePrefix("100.64.0.0/10"), Private}, // RFC 6598
	{netip.MustParsePrefix("192.0.0.0/24"), Reserved},
	{netip.MustParsePrefix("192.88.99.0/24"), Reserved}, // 6to4 relay, RFC 7526
	{netip.MustParsePrefix("224.0.0.0/4"), Multicast},
	{netip.MustParsePrefix("240.0.0.0/4"), Reserved},
	{netip.MustParsePrefix("::/128"), Unspecified},
	{netip.MustParsePrefix("::1/128"), Loopback},
	{netip.MustParsePrefix("2001::/23"), Reserved}, // protocols: Teredo, ORCHID, benchmarks
	{netip.MustParsePrefix("fe80::/10"), LinkLocal},
	{netip.MustParsePrefix("fec0::/10"), Private}, // site-local, RFC 3879
	{Synthetic6, Synthetic},
	{netip.MustParsePrefix("fc00::/7"), Private},
	{netip.MustParsePrefix("ff00::/8"), Multicast},
	{netip.MustParsePrefix("2000::/3"), Public},
	{netip.MustParsePrefix("::/0"), Reserved}, // IPv4-compatible and translated forms, local NAT64, discards: nothing that IANA gave out for hosts
}

// Classify says what kind of address a is, looking through the forms that carry
// an IPv4 address inside an IPv6 one. An invalid address is Reserved.
func Classify(a netip.Addr) Class {
	if !a.IsValid() {
		return Reserved
	}
	a = Embedded(a.WithZone(""))
	for _, e := range table {
		if e.prefix.Contains(a) {
			return e.class
		}
	}
	return Public
}

var (
	nat64 = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052
	sixto = netip.MustParsePrefix("2002::/16")    // RFC 3056
)

// Embedded returns the IPv4 address that a carries (IPv4-mapped, NAT64 and 6to4
// forms), or else a itself.
func Embedded(a netip.Addr) netip.Addr {
	a = a.Unmap()
	if !a.Is6() {
		return a
	}
	b := a.As16()
	switch {
	case nat64.Contains(a):
		return netip.AddrFrom4([4]byte(b[12:16]))
	case sixto.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return a
}

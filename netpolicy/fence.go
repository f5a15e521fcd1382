package netpolicy

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Ports of the listeners inside a namespace. They are above 1024 and below the
// ephemeral range (32768), so that neither a service nor a client meets them.
const (
	relayPort = 15001 // where all TCP ends
	namePort  = 15053 // where port 53 ends, UDP and TCP
	proxyPort = 15002 // CONNECT and plain HTTP proxy, for programs that ask for one
)

// logGroup is the NFLOG group, in the namespace, of what was refused.
const logGroup = 1

// logRate bounds how many refused packets a second are read by the daemon; the
// others are dropped all the same.
const logRate = 200

// beginRate bounds how many connections, and how many questions for names, a second a
// program may begin, after as many as beginBurst at once. What is above that waits in
// the kernel that it comes from, which sends it again: a loop costs the daemon no more.
const (
	beginRate  = 500
	beginBurst = 5000
)

// fenceRule is one line of the namespace's rules.
type fenceRule struct {
	chain, name string
	exprs       []expr.Any
}

// fence is all that stands between a program and the network. Order matters:
// packets meet nat (priority -100) before out (priority 0), and the first rule
// with a verdict ends a chain. Nothing matches in out: dropped, which the program
// sees as EPERM at once.
var fence = []fenceRule{
	{"nat", "names over UDP", concat(l4(unix.IPPROTO_UDP), dport(53), redirect(namePort))},
	{"nat", "names over TCP", concat(l4(unix.IPPROTO_TCP), dport(53), redirect(namePort))},
	{"nat", "loopback v4 is the sandbox's own", concat(to4([4]byte{127}, 8), accept())},
	{"nat", "loopback v6 is the sandbox's own", concat(to6loopback(), accept())},
	{"nat", "all other TCP to the relay", concat(l4(unix.IPPROTO_TCP), redirect(relayPort))},
	{"out", "answers", concat(established(), accept())},
	{"out", "errors of connections that were turned back", concat(l4(unix.IPPROTO_ICMP), icmpType(3), accept())},
	{"out", "errors of connections that were turned back, v6", concat(l4(unix.IPPROTO_ICMPV6), icmpType(1), accept())},
	{"out", "connections that were turned back", concat(l4(unix.IPPROTO_TCP), flags(tcpRST, tcpRST), accept())},
	{"out", "loopback v4", concat(to4([4]byte{127}, 8), accept())},
	{"out", "loopback v6", concat(to6loopback(), accept())},
	{"out", "tell the daemon", concat(within(logRate), told(""))},
}

// pace comes before all others. It holds back who begins too much at once, and keeps what
// a program says to itself out of connection tracking, whose table would be full of it.
var pace = []fenceRule{
	{"pace", "names over UDP", concat(l4(unix.IPPROTO_UDP), dport(53), above(beginRate))},
	{"pace", "names over UDP, at the server's own port", concat(l4(unix.IPPROTO_UDP), dport(namePort), above(beginRate))},
	{"pace", "names over TCP", concat(l4(unix.IPPROTO_TCP), first(), dport(53), above(beginRate))},
	{"pace", "names over TCP, at the server's own port", concat(l4(unix.IPPROTO_TCP), first(), dport(namePort), above(beginRate))},
	{"pace", "connections to the proxy", concat(l4(unix.IPPROTO_TCP), first(), dport(proxyPort), above(beginRate))},
	{"pace", "connections to the relay", concat(l4(unix.IPPROTO_TCP), first(), dport(relayPort), above(beginRate))},
	{"pace", "loopback v4", concat(from4([4]byte{127}, 8), to4([4]byte{127}, 8), jump("own"))},
	{"pace", "loopback v6", concat(from6loopback(), to6loopback(), jump("own"))},
	{"pace", "connections", concat(l4(unix.IPPROTO_TCP), first(), above(beginRate))},
	{"own", "names are redirected", concat(dport(53), accept())},
	{"own", "what the server of names is asked", concat(dport(namePort), accept())},
	{"own", "what the server of names answers", concat(sport(namePort), accept())},
	{"own", "what is said to the relay", concat(dport(relayPort), accept())},
	{"own", "what the relay says", concat(sport(relayPort), accept())},
	{"own", "all else is the sandbox's own", concat([]expr.Any{&expr.Notrack{}}, accept())},
	{"held", "tell the daemon", concat(within(1), told(heldBack))},
	{"held", "and drop it", []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}},
}

// gate has the first packet of each connection wait for the daemon, before the kernel
// knows of a connection at all, and turns it back with the mark that the daemon gives it.
var gate = []fenceRule{
	{"hold", "loopback v4 is the sandbox's own", concat(to4([4]byte{127}, 8), accept())},
	{"hold", "loopback v6 is the sandbox's own", concat(to6loopback(), accept())},
	{"hold", "names over TCP", concat(l4(unix.IPPROTO_TCP), dport(53), accept())},
	{"hold", "first packets", concat(l4(unix.IPPROTO_TCP), first())}, // and into the queue
	{"turn", "refused", concat(marked(markReset), []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}})},
	{"turn", "no such host", concat(marked(markNoHost), []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_HOST_UNREACH}})},
	{"turn", "no such network", concat(marked(markNoNet), []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_NO_ROUTE}})},
}

// queueing is how a namespace's first packets come to the daemon, as kernels differ in what
// they are built with.
type queueing struct {
	bind func() (*netlink.Conn, error) // the queue of the calling thread's namespace
	into []expr.Any                    // ways to put a packet into it, the first that the kernel knows is taken
}

// byQueue has the expression, and the older target by the compatibility layer.
var byQueue = queueing{openQueue, []expr.Any{
	&expr.Queue{Num: queueNumber},
	&expr.Target{Name: "NFQUEUE", Info: &xt.Unknown{queueNumber, 0, 0, 0, 0, 0, 0, 0}}, // struct xt_NFQ_info, aligned
}}

// noQueue is what is weaker on a kernel without one.
const noQueue = "This kernel has no NFQUEUE: a task's connection that is refused, or whose host is down, looks connected for a moment and is then reset."

// raise puts the fence up in the namespace of the calling thread, and the gate before
// it where the kernel has a queue; without one connections are taken before the daemon
// has dialled, and reset when that fails.
func raise(by queueing) (queue *netlink.Conn, err error) {
	lacks := func(err error) bool {
		return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL)
	}
	queue, err = by.bind()
	if err != nil && !lacks(err) {
		return nil, err
	}
	if queue == nil {
		return nil, load(nil)
	}
	for _, into := range by.into {
		if err = load(into); err == nil {
			return queue, nil
		}
		if !lacks(err) {
			break
		}
	}
	queue.Close()
	if lacks(err) {
		return nil, load(nil)
	}
	return nil, err
}

// load loads the rules, all or none.
func load(into expr.Any) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "box"})
	drop := nftables.ChainPolicyDrop
	raw := *nftables.ChainPriorityRaw // connections are tracked behind it
	before := raw - 1
	chains := map[string]*nftables.Chain{
		"pace": c.AddChain(&nftables.Chain{Name: "pace", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookOutput, Priority: &before}),
		"own":  c.AddChain(&nftables.Chain{Name: "own", Table: table}),
		"held": c.AddChain(&nftables.Chain{Name: "held", Table: table}),
		"nat":  c.AddChain(&nftables.Chain{Name: "nat", Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityNATDest}),
		"out":  c.AddChain(&nftables.Chain{Name: "out", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityFilter, Policy: &drop}),
	}
	rules := slices.Concat(pace, fence)
	if into != nil {
		after := raw + 1
		chains["hold"] = c.AddChain(&nftables.Chain{Name: "hold", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookOutput, Priority: &raw})
		chains["turn"] = c.AddChain(&nftables.Chain{Name: "turn", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookOutput, Priority: &after})
		rules = append(rules, gate...)
	}
	for _, r := range rules {
		exprs := r.exprs
		if r.name == "first packets" {
			exprs = concat(exprs, []expr.Any{into})
		}
		c.AddRule(&nftables.Rule{Table: table, Chain: chains[r.chain], Exprs: exprs})
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("load the namespace's nftables rules: %w", err)
	}
	return nil
}

func concat(parts ...[]expr.Any) (all []expr.Any) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// l4 matches the transport protocol.
func l4(proto byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{proto}}}
}

// dport matches the destination port of UDP or TCP.
func dport(port uint16) []expr.Any { return portAt(2, port) }

// sport matches the source port of UDP or TCP.
func sport(port uint16) []expr.Any { return portAt(0, port) }

func portAt(offset uint32, port uint16) []expr.Any {
	return []expr.Any{&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(port)}}
}

// first matches the first packet of a TCP connection.
func first() []expr.Any { return flags(tcpSYN|tcpACK|tcpRST, tcpSYN) }

// above holds back what comes more often than so many times a second.
func above(rate uint64) []expr.Any {
	return concat([]expr.Any{&expr.Limit{Type: expr.LimitTypePkts, Rate: rate, Burst: beginBurst, Unit: expr.LimitTimeSecond, Over: true}}, jump("held"))
}

// within matches so many packets a second, and a few more at once.
func within(rate uint32) []expr.Any {
	return []expr.Any{&expr.Limit{Type: expr.LimitTypePkts, Rate: uint64(rate), Burst: 5 * rate, Unit: expr.LimitTimeSecond}}
}

// heldBack is what the kernel says with a packet that comes above beginRate, so that it is not taken for one that no rule lets through.
const heldBack = "held"

// told has the daemon read the head of a packet, with a word about it.
func told(word string) []expr.Any {
	l := &expr.Log{Key: 1<<unix.NFTA_LOG_GROUP | 1<<unix.NFTA_LOG_SNAPLEN, Group: logGroup, Snaplen: 64}
	if word != "" {
		l.Key |= 1 << unix.NFTA_LOG_PREFIX
		l.Data = slices.Clip([]byte(word)) // what loads it appends to it
	}
	return []expr.Any{l}
}

// jump goes on in another chain.
func jump(chain string) []expr.Any {
	return []expr.Any{&expr.Verdict{Kind: expr.VerdictJump, Chain: chain}}
}

// Flags of TCP (RFC 9293, section 3.1).
const (
	tcpSYN = 0x02
	tcpRST = 0x04
	tcpACK = 0x10
)

// flags matches TCP packets whose flags under the mask are these.
func flags(mask, are byte) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 13, Len: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 1, Mask: []byte{mask}, Xor: []byte{0}},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{are}},
	}
}

// icmpType matches the type of an ICMP message.
func icmpType(kind byte) []expr.Any {
	return []expr.Any{&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{kind}}}
}

// marked matches a packet's mark.
func marked(mark uint32) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyMARK, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(mark)}}
}

// family matches IPv4 (unix.NFPROTO_IPV4) or IPv6.
func family(f byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{f}}}
}

// to4 matches an IPv4 destination of whole-byte prefix length, and from4 a source.
func to4(addr [4]byte, bits uint32) []expr.Any {
	return addressAt(unix.NFPROTO_IPV4, 16, addr[:bits/8])
}

func from4(addr [4]byte, bits uint32) []expr.Any {
	return addressAt(unix.NFPROTO_IPV4, 12, addr[:bits/8])
}

func to6loopback() []expr.Any { return addressAt(unix.NFPROTO_IPV6, 24, loopback6) }

func from6loopback() []expr.Any { return addressAt(unix.NFPROTO_IPV6, 8, loopback6) }

var loopback6 = []byte(net.IPv6loopback)

// addressAt matches the bytes of an address in a head of IPv4 or IPv6.
func addressAt(fam byte, offset uint32, prefix []byte) []expr.Any {
	return concat(family(fam), []expr.Any{&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: uint32(len(prefix))}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: prefix}})
}

func established() []expr.Any {
	return []expr.Any{
		&expr.Ct{Register: 1, Key: expr.CtKeySTATE},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
	}
}

// redirect sends the packet to a port of the loopback address.
func redirect(port uint16) []expr.Any {
	return []expr.Any{&expr.Immediate{Register: 1, Data: binaryutil.BigEndian.PutUint16(port)}, &expr.Redir{RegisterProtoMin: 1, RegisterProtoMax: 1, Flags: unix.NF_NAT_RANGE_PROTO_SPECIFIED}}
}

func accept() []expr.Any { return []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}} }

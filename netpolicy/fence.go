package netpolicy

import (
	"errors"
	"fmt"
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
const logRate = 50

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
	{"out", "tell the daemon", []expr.Any{
		&expr.Limit{Type: expr.LimitTypePkts, Rate: logRate, Burst: 4 * logRate, Unit: expr.LimitTimeSecond},
		&expr.Log{Key: 1<<unix.NFTA_LOG_GROUP | 1<<unix.NFTA_LOG_SNAPLEN, Group: logGroup, Snaplen: 64},
	}},
}

// gate has the first packet of each connection wait for the daemon, before the kernel
// knows of a connection at all, and turns it back with the mark that the daemon gives it.
var gate = []fenceRule{
	{"hold", "loopback v4 is the sandbox's own", concat(to4([4]byte{127}, 8), accept())},
	{"hold", "loopback v6 is the sandbox's own", concat(to6loopback(), accept())},
	{"hold", "names over TCP", concat(l4(unix.IPPROTO_TCP), dport(53), accept())},
	{"hold", "first packets", concat(l4(unix.IPPROTO_TCP), flags(tcpSYN|tcpACK|tcpRST, tcpSYN))}, // and into the queue
	{"turn", "refused", concat(marked(markReset), []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}})},
	{"turn", "no such host", concat(marked(markNoHost), []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_HOST_UNREACH}})},
	{"turn", "no such network", concat(marked(markNoNet), []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_NO_ROUTE}})},
}

// queues are the ways to put a packet into the queue, as kernels differ in what they
// are built with: the expression, and the older target by the compatibility layer.
var queues = []expr.Any{
	&expr.Queue{Num: queueNumber},
	&expr.Target{Name: "NFQUEUE", Info: &xt.Unknown{queueNumber, 0, 0, 0, 0, 0, 0, 0}}, // struct xt_NFQ_info, aligned
}

// raise puts the fence up in the namespace of the calling thread, and the gate before
// it where the kernel has a queue; without one connections are taken before the daemon
// has dialled, and reset when that fails.
func raise() (queue *netlink.Conn, err error) {
	lacks := func(err error) bool {
		return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL)
	}
	queue, err = openQueue()
	if err != nil && !lacks(err) {
		return nil, err
	}
	if queue == nil {
		return nil, load(nil)
	}
	for _, into := range queues {
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
	chains := map[string]*nftables.Chain{
		"nat": c.AddChain(&nftables.Chain{Name: "nat", Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityNATDest}),
		"out": c.AddChain(&nftables.Chain{Name: "out", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityFilter, Policy: &drop}),
	}
	rules := fence
	if into != nil {
		raw := *nftables.ChainPriorityRaw // connections are tracked behind it
		after := raw + 1
		chains["hold"] = c.AddChain(&nftables.Chain{Name: "hold", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookOutput, Priority: &raw})
		chains["turn"] = c.AddChain(&nftables.Chain{Name: "turn", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookOutput, Priority: &after})
		rules = append(slices.Clone(fence), gate...)
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
func dport(port uint16) []expr.Any {
	return []expr.Any{&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(port)}}
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

// to4 matches an IPv4 destination of whole-byte prefix length.
func to4(addr [4]byte, bits uint32) []expr.Any {
	n := bits / 8
	return concat(family(unix.NFPROTO_IPV4), []expr.Any{&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: n}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: addr[:n]}})
}

func to6loopback() []expr.Any {
	one := make([]byte, 16)
	one[15] = 1
	return concat(family(unix.NFPROTO_IPV6), []expr.Any{&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 24, Len: 16}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: one}})
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

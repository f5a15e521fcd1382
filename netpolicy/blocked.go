package netpolicy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// From linux/netfilter/nfnetlink_log.h, which golang.org/x/sys/unix lacks.
const (
	nfulnlMsgConfig  = 1
	nfulnlCmdBind    = 1
	nfulnlCopyPacket = 2
	nfulaCfgCmd      = 1
	nfulaCfgMode     = 2
	nfulaCfgTimeout  = 4
	nfulaPayload     = 9
	nfulaPrefix      = 10
)

// openLog subscribes to the refused packets of the calling thread's namespace
// (linux/netfilter/nfnetlink_log.h).
func openLog() (*netlink.Conn, error) {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, fmt.Errorf("open netfilter netlink: %w", err)
	}
	const config = netlink.HeaderType(unix.NFNL_SUBSYS_ULOG<<8 | nfulnlMsgConfig)
	bind := func(family byte, group uint16, attrs []netlink.Attribute) error {
		data, err := netlink.MarshalAttributes(attrs)
		if err != nil {
			return err
		}
		head := binary.BigEndian.AppendUint16([]byte{family, unix.NFNETLINK_V0}, group)
		_, err = c.Execute(netlink.Message{Header: netlink.Header{Type: config, Flags: netlink.Request | netlink.Acknowledge}, Data: append(head, data...)})
		return err
	}
	mode := binary.BigEndian.AppendUint32(nil, 64) // bytes copied of each packet
	mode = append(mode, nfulnlCopyPacket, 0)
	flush := binary.BigEndian.AppendUint32(nil, 1) // hundredths of a second until a packet is told
	err = errors.Join(
		bind(unix.AF_UNSPEC, logGroup, []netlink.Attribute{{Type: nfulaCfgCmd, Data: []byte{nfulnlCmdBind}}}),
		bind(unix.AF_UNSPEC, logGroup, []netlink.Attribute{{Type: nfulaCfgMode, Data: mode}, {Type: nfulaCfgTimeout, Data: flush}}),
	)
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("subscribe to refused packets: %w", err)
	}
	return c, nil
}

// packet is one that the kernel did not let out.
type packet struct {
	to    netip.AddrPort // the port is 0 where the protocol has none
	proto byte           // IPPROTO_UDP and the like
	held  bool           // it came above beginRate, whatever the rules say of it
}

// readLog passes on each refused packet until c is closed. What could not be read was
// refused all the same.
func readLog(ctx context.Context, c *netlink.Conn, failed func(error), dropped func(packet)) {
	for {
		msgs, more := receive(ctx, c, failed)
		if !more {
			return
		}
		for _, m := range msgs {
			if len(m.Data) < 4 {
				continue
			}
			ad, err := netlink.NewAttributeDecoder(m.Data[4:])
			if err != nil {
				continue
			}
			var p packet
			seen := false
			for ad.Next() {
				switch ad.Type() {
				case nfulaPayload:
					p.to, p.proto, seen = destination(ad.Bytes())
				case nfulaPrefix:
					p.held = ad.String() == heldBack
				}
			}
			if seen {
				dropped(p)
			}
		}
	}
}

// destination reads where a packet was going and by which protocol; the port is 0 where
// that has none. The kernel's own multicast (neighbour and group discovery) is nobody's try.
func destination(p []byte) (to netip.AddrPort, proto byte, ok bool) {
	var addr netip.Addr
	var rest []byte
	switch {
	case len(p) >= 20 && p[0]>>4 == 4:
		head := int(p[0]&15) * 4
		addr, proto = netip.AddrFrom4([4]byte(p[16:20])), p[9]
		if head > len(p) {
			return to, 0, false
		}
		rest = p[head:]
	case len(p) >= 40 && p[0]>>4 == 6:
		addr, proto, rest = netip.AddrFrom16([16]byte(p[24:40])), p[6], p[40:]
		if proto == unix.IPPROTO_HOPOPTS || proto == unix.IPPROTO_ICMPV6 && addr.IsMulticast() {
			return to, 0, false
		}
	default:
		return to, 0, false
	}
	var port uint16
	if (proto == unix.IPPROTO_UDP || proto == unix.IPPROTO_TCP) && len(rest) >= 4 {
		port = binary.BigEndian.Uint16(rest[2:4])
	}
	return netip.AddrPortFrom(addr, port), proto, true
}

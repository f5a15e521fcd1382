package netpolicy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

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

// readLog passes on the destination of each refused packet until c is closed. What could
// not be read was refused all the same.
func readLog(ctx context.Context, c *netlink.Conn, failed func(error), refused func(netip.AddrPort)) {
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
			for ad.Next() {
				if ad.Type() == nfulaPayload {
					if dst, ok := destination(ad.Bytes()); ok {
						refused(dst)
					}
				}
			}
		}
	}
}

// destination reads where a packet was going; the port is 0 where the protocol
// has none. The kernel's own multicast (neighbour and group discovery) is nobody's try.
func destination(p []byte) (netip.AddrPort, bool) {
	var addr netip.Addr
	var proto byte
	var rest []byte
	switch {
	case len(p) >= 20 && p[0]>>4 == 4:
		head := int(p[0]&15) * 4
		addr, proto = netip.AddrFrom4([4]byte(p[16:20])), p[9]
		if head > len(p) {
			return netip.AddrPort{}, false
		}
		rest = p[head:]
	case len(p) >= 40 && p[0]>>4 == 6:
		addr, proto, rest = netip.AddrFrom16([16]byte(p[24:40])), p[6], p[40:]
		if proto == unix.IPPROTO_HOPOPTS || proto == unix.IPPROTO_ICMPV6 && addr.IsMulticast() {
			return netip.AddrPort{}, false
		}
	default:
		return netip.AddrPort{}, false
	}
	var port uint16
	if (proto == unix.IPPROTO_UDP || proto == unix.IPPROTO_TCP) && len(rest) >= 4 {
		port = binary.BigEndian.Uint16(rest[2:4])
	}
	return netip.AddrPortFrom(addr, port), true
}

// How often one host:port is told again; how many lines are told at once, and how many
// more each minute.
const (
	tellEvery  = time.Minute
	tellAtOnce = 1000
	tellMore   = 100
)

// teller passes refused tries on, each host:port at once and then once a minute with a
// count, so that a loop can't flood a log. One that tries ever new ones can't either:
// what there is no room for is told together, as others.
type teller struct {
	tell func(hostport string, count int)

	mu     sync.Mutex
	counts map[string]int // tries since it was last told
	spent  int            // lines told, of tellAtOnce
	since  time.Time      // when spent was last made less
	more   int            // tries that there was no room for
	timer  *time.Timer    // running while counts or more holds anything
	closed bool
}

// refused counts a try.
func (t *teller) refused(hostport string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	if t.timer == nil {
		t.timer = time.AfterFunc(tellEvery, t.minute)
	}
	if n, known := t.counts[hostport]; known {
		t.counts[hostport] = n + 1
		return
	}
	if !t.room() {
		t.more++
		return
	}
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	t.counts[hostport] = 0
	t.tell(hostport, 1)
}

// room takes the room of one line, with t.mu held.
func (t *teller) room() bool {
	if n := int(time.Since(t.since) / tellEvery); n > 0 {
		t.spent, t.since = max(0, t.spent-tellMore*min(n, tellAtOnce)), time.Now()
	}
	if t.spent >= tellAtOnce {
		return false
	}
	t.spent++
	return true
}

// minute tells what came in since the last time and forgets what has stopped.
func (t *teller) minute() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = nil
	if t.closed {
		return
	}
	for h, n := range t.counts {
		switch {
		case n == 0:
			delete(t.counts, h)
		case t.room():
			t.counts[h] = 0
			t.tell(h, n)
		default:
			t.more += n
			delete(t.counts, h)
		}
	}
	t.rest()
	if len(t.counts) > 0 {
		t.timer = time.AfterFunc(tellEvery, t.minute)
	}
}

// rest tells of those that there was no room for, with t.mu held.
func (t *teller) rest() {
	if t.more > 0 {
		t.tell(others+":0", t.more)
		t.more = 0
	}
}

// close tells what is left.
func (t *teller) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.timer != nil {
		t.timer.Stop()
	}
	for h, n := range t.counts {
		if n > 0 {
			t.tell(h, n)
		}
	}
	t.counts = nil
	t.rest()
}

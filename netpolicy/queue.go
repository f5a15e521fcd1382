package netpolicy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// From linux/netfilter/nfnetlink_queue.h, which golang.org/x/sys/unix lacks.
const (
	nfqnlMsgPacket  = 0
	nfqnlMsgVerdict = 1
	nfqnlMsgConfig  = 2

	nfqaCfgCmd    = 1
	nfqaCfgParams = 2
	nfqaCfgMaxLen = 3
	nfqnlCmdBind  = 1
	nfqnlCopyAll  = 2 // of a packet, up to the bytes asked for

	nfqaPacketHeader  = 1
	nfqaVerdictHeader = 2
	nfqaMark          = 3
	nfqaPayload       = 10
)

// Verdicts (linux/netfilter.h).
const (
	nfDrop   = 0
	nfAccept = 1
)

// queueNumber is the queue, in the namespace, in which first packets of connections wait.
const queueNumber = 0

// maxQueued is how many of them wait at most; more are dropped, and sent again by the
// kernel that they come from.
const maxQueued = 4096

// openQueue binds the queue of the calling thread's namespace.
func openQueue() (*netlink.Conn, error) {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, fmt.Errorf("open netfilter netlink: %w", err)
	}
	params := append(binary.BigEndian.AppendUint32(nil, 256), nfqnlCopyAll) // the longest heads of IP and TCP
	for _, a := range []netlink.Attribute{
		{Type: nfqaCfgCmd, Data: []byte{nfqnlCmdBind, 0, 0, unix.AF_UNSPEC}},
		{Type: nfqaCfgParams, Data: params},
		{Type: nfqaCfgMaxLen, Data: binary.BigEndian.AppendUint32(nil, maxQueued)},
	} {
		data, err := queueMessage(a)
		if err == nil {
			_, err = c.Execute(netlink.Message{Header: netlink.Header{Type: queueType(nfqnlMsgConfig), Flags: netlink.Request | netlink.Acknowledge}, Data: data})
		}
		if err != nil {
			c.Close()
			return nil, fmt.Errorf("bind the queue of new connections: %w", err)
		}
	}
	return c, nil
}

func queueType(msg netlink.HeaderType) netlink.HeaderType { return unix.NFNL_SUBSYS_QUEUE<<8 | msg }

func queueMessage(attrs ...netlink.Attribute) ([]byte, error) {
	data, err := netlink.MarshalAttributes(attrs)
	if err != nil {
		return nil, err
	}
	head := binary.BigEndian.AppendUint16([]byte{unix.AF_UNSPEC, unix.NFNETLINK_V0}, queueNumber)
	return append(head, data...), nil
}

// retryAfter is how long a socket that fails rests, so that one that always does keeps
// no processor busy.
const retryAfter = 100 * time.Millisecond

// receive gives the next messages of a netlink socket, and whether there will be more:
// only once ctx ends or the socket is closed there won't.
func receive(ctx context.Context, c *netlink.Conn, failed func(error)) ([]netlink.Message, bool) {
	msgs, err := c.Receive()
	switch {
	case err == nil:
		return msgs, true
	case ctx.Err() != nil, errors.Is(err, net.ErrClosed), errors.Is(err, os.ErrClosed), errors.Is(err, unix.EBADF):
		return nil, false
	case errors.Is(err, unix.ENOBUFS): // more came than the daemon could read
		return nil, true
	}
	failed(err)
	select {
	case <-ctx.Done():
		return nil, false
	case <-time.After(retryAfter):
		return nil, true
	}
}

// readQueue tells of each packet that waits until c is closed. What is no TCP has no
// business there and is dropped. What could not be read, its kernel sends again.
func readQueue(ctx context.Context, c *netlink.Conn, failed func(error), comes func(id uint32, from, to netip.AddrPort)) {
	for {
		msgs, more := receive(ctx, c, failed)
		if !more {
			return
		}
		for _, m := range msgs {
			if m.Header.Type != queueType(nfqnlMsgPacket) || len(m.Data) < 4 {
				continue
			}
			ad, err := netlink.NewAttributeDecoder(m.Data[4:])
			if err != nil {
				continue
			}
			var id uint32
			var packet []byte
			for ad.Next() {
				switch ad.Type() {
				case nfqaPacketHeader:
					if b := ad.Bytes(); len(b) >= 4 {
						id = binary.BigEndian.Uint32(b)
					}
				case nfqaPayload:
					packet = ad.Bytes()
				}
			}
			if from, to, ok := ends(packet); ok {
				comes(id, from, to)
			} else {
				verdict(c, id, nfDrop, 0)
			}
		}
	}
}

// verdict says what becomes of a packet that waits. An error would mean that it does
// not wait any more.
func verdict(c *netlink.Conn, id uint32, v uint32, mark uint32) {
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, v), id)
	attrs := []netlink.Attribute{{Type: nfqaVerdictHeader, Data: head}}
	if mark != 0 {
		attrs = append(attrs, netlink.Attribute{Type: nfqaMark, Data: binary.BigEndian.AppendUint32(nil, mark)})
	}
	if data, err := queueMessage(attrs...); err == nil {
		c.Send(netlink.Message{Header: netlink.Header{Type: queueType(nfqnlMsgVerdict), Flags: netlink.Request}, Data: data}) //nolint:errcheck // see above
	}
}

// ends reads where a TCP packet comes from and goes to.
func ends(p []byte) (from, to netip.AddrPort, ok bool) {
	var src, dst netip.Addr
	var rest []byte
	switch {
	case len(p) >= 20 && p[0]>>4 == 4:
		head := int(p[0]&15) * 4
		if head < 20 || head > len(p) || p[9] != unix.IPPROTO_TCP || p[6]&0x1f != 0 || p[7] != 0 {
			return from, to, false
		}
		src, dst, rest = netip.AddrFrom4([4]byte(p[12:16])), netip.AddrFrom4([4]byte(p[16:20])), p[head:]
	case len(p) >= 40 && p[0]>>4 == 6 && p[6] == unix.IPPROTO_TCP:
		src, dst, rest = netip.AddrFrom16([16]byte(p[8:24])), netip.AddrFrom16([16]byte(p[24:40])), p[40:]
	}
	if len(rest) < 4 {
		return from, to, false
	}
	return netip.AddrPortFrom(src, binary.BigEndian.Uint16(rest)), netip.AddrPortFrom(dst, binary.BigEndian.Uint16(rest[2:])), true
}

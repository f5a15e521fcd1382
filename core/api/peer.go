package api

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// peer is the process at the other end of a loopback connection, as the kernel
// knows it.
type peer struct {
	uid   uint32
	inode uint32
}

var errNoPeer = errors.New("no such established connection of another process")

// tcpEstablished is the kernel's TCP_ESTABLISHED.
const tcpEstablished = 1

// sockDiagRequest is struct nlmsghdr and struct inet_diag_req_v2.
type sockDiagRequest struct {
	unix.NlMsghdr
	family, protocol, ext, pad uint8
	states                     uint32
	sport, dport               [2]byte
	src, dst                   [16]byte
	iface                      uint32
	cookie                     [2]uint32
}

// inetDiagMsg is struct inet_diag_msg.
type inetDiagMsg struct {
	family, state, timer, retrans uint8
	sport, dport                  [2]byte
	src, dst                      [16]byte
	iface                         uint32
	cookie                        [2]uint32
	expires, rqueue, wqueue       uint32
	uid, inode                    uint32
}

// lookUp asks the kernel for the socket at the other end of conn. It names the
// exact connection: a dump (which netlink.SocketGet makes) would walk every
// socket of the machine for each connection. Where no connection matches, the
// kernel answers with a listener of the port, so the state is looked at. own says
// whether boxd itself holds a socket.
func lookUp(conn net.Conn, own func(inode uint32) bool) (peer, error) {
	theirs, err1 := addrPort(conn.RemoteAddr())
	ours, err2 := addrPort(conn.LocalAddr())
	if err := errors.Join(err1, err2); err != nil {
		return peer{}, err
	}
	req := sockDiagRequest{protocol: unix.IPPROTO_TCP, states: 1 << tcpEstablished, cookie: [2]uint32{^uint32(0), ^uint32(0)}}
	req.family = unix.AF_INET6
	if theirs.Addr().Is4() {
		req.family = unix.AF_INET
	}
	copy(req.src[:], theirs.Addr().AsSlice())
	copy(req.dst[:], ours.Addr().AsSlice())
	binary.BigEndian.PutUint16(req.sport[:], theirs.Port())
	binary.BigEndian.PutUint16(req.dport[:], ours.Port())
	msg, err := ask(&req)
	if err != nil {
		return peer{}, err
	}
	same := msg.src == req.src && msg.dst == req.dst && msg.sport == req.sport && msg.dport == req.dport
	if !same || msg.state != tcpEstablished || msg.inode == 0 {
		return peer{}, errNoPeer
	}
	p := peer{msg.uid, msg.inode}
	if p.uid == uint32(os.Geteuid()) && own(p.inode) {
		return peer{}, errNoPeer
	}
	return p, nil
}

func addrPort(a net.Addr) (netip.AddrPort, error) {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("%v is no TCP address", a)
	}
	ap := t.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()), nil
}

func ask(req *sockDiagRequest) (inetDiagMsg, error) {
	req.Len, req.Type, req.Flags = uint32(unsafe.Sizeof(*req)), unix.SOCK_DIAG_BY_FAMILY, unix.NLM_F_REQUEST
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return inetDiagMsg{}, fmt.Errorf("asking whose connection it is: %w", err)
	}
	defer unix.Close(fd)
	out := unsafe.Slice((*byte)(unsafe.Pointer(req)), unsafe.Sizeof(*req))
	if err := unix.Sendto(fd, out, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return inetDiagMsg{}, fmt.Errorf("asking whose connection it is: %w", err)
	}
	// The kernel answered within sendto; nothing is waited for.
	buf := make([]byte, 4096)
	n, from, err := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT)
	if err != nil {
		return inetDiagMsg{}, fmt.Errorf("asking whose connection it is: %w", err)
	}
	if nl, ok := from.(*unix.SockaddrNetlink); !ok || nl.Pid != 0 {
		return inetDiagMsg{}, errNoPeer
	}
	var head unix.NlMsghdr
	var msg inetDiagMsg
	if n < int(unsafe.Sizeof(head)+unsafe.Sizeof(msg)) {
		return inetDiagMsg{}, errNoPeer
	}
	head = *(*unix.NlMsghdr)(unsafe.Pointer(&buf[0]))
	if head.Type != unix.SOCK_DIAG_BY_FAMILY { // NLMSG_ERROR: there is none
		return inetDiagMsg{}, errNoPeer
	}
	return *(*inetDiagMsg)(unsafe.Pointer(&buf[unsafe.Sizeof(head)])), nil
}

// ownSocket says whether boxd itself holds the socket of an inode: a request
// that boxd was talked into making must not speak for the screen.
func ownSocket(inode uint32) bool {
	want := fmt.Sprintf("socket:[%d]", inode)
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return true
	}
	for _, fd := range fds {
		if to, err := os.Readlink(filepath.Join("/proc/self/fd", fd.Name())); err == nil && to == want {
			return true
		}
	}
	return false
}

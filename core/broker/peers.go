package broker

import (
	"net"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// maxConns is how many connections a listener of a task holds open at once.
const maxConns = 256

// peers is a listener that only takes connections of certain users, by what the
// kernel says of the peer when it connected (SO_PEERCRED), whatever the file's mode.
type peers struct {
	net.Listener
	allowed []uint32
	slots   chan struct{} // one for each open connection
}

// Accept returns the next connection that may be, and closes those that may not.
func (p *peers) Accept() (net.Conn, error) {
	for {
		c, err := p.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, ok := peer(c)
		if !ok || !slices.Contains(p.allowed, uid) {
			c.Close()
			continue
		}
		select {
		case p.slots <- struct{}{}:
			return &held{Conn: c, free: sync.OnceFunc(func() { <-p.slots })}, nil
		default:
			c.Close() // one too many
		}
	}
}

// peer is the user at the other end of a Unix connection.
func peer(c net.Conn) (uid uint32, ok bool) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return 0, false
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0, false
	}
	var cred *unix.Ucred
	if cerr := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); cerr != nil || err != nil {
		return 0, false
	}
	return cred.Uid, true
}

// held is a connection that gives its place back when it is closed.
type held struct {
	net.Conn
	free func()
}

func (h *held) Close() error {
	h.free()
	return h.Conn.Close()
}

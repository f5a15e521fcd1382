package broker

import (
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

// maxConns is how many connections a listener of a task holds open at once.
const maxConns = 256

// peers is a listener that only takes connections of certain users, by what the
// kernel says of the peer when it connected (SO_PEERCRED), whatever the file's mode.
type peers struct {
	net.Listener
	socket *socket
	root   bool          // the host's root may connect too
	slots  chan struct{} // one for each open connection
}

// Accept returns the next connection that may be, and closes those that may not.
func (p *peers) Accept() (net.Conn, error) {
	for {
		c, err := p.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if !p.may(c) {
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

// may waits until it is known who the task's user is, and says whether c is theirs.
func (p *peers) may(c net.Conn) bool {
	select {
	case <-p.socket.told:
	case <-p.socket.closed:
		return false
	}
	uid, ok := peer(c)
	return ok && (uid == uint32(p.socket.uid) || p.root && uid == 0)
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

package netpolicy

import (
	"net"
	"sync"
)

// counted counts what goes to the real host.
type counted struct {
	*net.TCPConn
	x *swapper
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	c.x.st.received.Add(int64(n))
	return n, err
}

func (c *counted) Write(b []byte) (int, error) {
	f := flow{s: c.x.s, st: c.x.st, al: c.x.al, up: c.TCPConn}
	if err := f.send(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// ahead is a connection some of whose bytes were read already.
type ahead struct {
	*net.TCPConn
	buf    []byte
	closed func()
}

func (a *ahead) Read(b []byte) (int, error) {
	if len(a.buf) > 0 {
		n := copy(b, a.buf)
		a.buf = a.buf[n:]
		return n, nil
	}
	return a.TCPConn.Read(b)
}

func (a *ahead) Close() error {
	defer a.closed()
	return a.TCPConn.Close()
}

// oneListener accepts one connection and ends when it does.
type oneListener struct {
	mu    sync.Mutex
	conn  *ahead
	given bool
	ended chan struct{}
}

func (l *oneListener) Accept() (net.Conn, error) {
	l.mu.Lock()
	given := l.given
	l.given = true
	l.mu.Unlock()
	if given {
		<-l.ended
		return nil, net.ErrClosed
	}
	return l.conn, nil
}

func (l *oneListener) Close() error   { return nil }
func (l *oneListener) Addr() net.Addr { return l.conn.LocalAddr() }

package netpolicy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// maxHead bounds a TLS hello or an HTTP head, which are judged whole.
const maxHead = 64 << 10

// maxSplice is how many bytes are moved between two looks at the counters.
const maxSplice = 4 << 20

// peeker reads ahead on a connection, so that first bytes can be judged before
// they are passed on. An idle one holds no buffer.
type peeker struct {
	c   *net.TCPConn
	buf []byte // read and not yet passed on
}

// fill reads more; it waits until there is something. io.EOF when the program
// has ended its side.
func (p *peeker) fill() error {
	if len(p.buf) >= maxHead {
		return &Refused{"its first bytes are longer than 64 KB"}
	}
	if cap(p.buf) == len(p.buf) {
		if len(p.buf) == 0 {
			if err := readable(p.c); err != nil {
				return err
			}
		}
		p.buf = append(make([]byte, 0, min(max(2*cap(p.buf), 4096), maxHead)), p.buf...)
	}
	n, err := p.c.Read(p.buf[len(p.buf):cap(p.buf)])
	p.buf = p.buf[:len(p.buf)+n]
	if n > 0 {
		return nil
	}
	return err
}

// discard drops the first n bytes of the buffer.
func (p *peeker) discard(n int) {
	p.buf = p.buf[n:]
	if len(p.buf) == 0 {
		p.buf = nil
	}
}

// readable waits until a read would not block, without holding a buffer.
func readable(c *net.TCPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var b [1]byte
	return raw.Read(func(fd uintptr) bool {
		_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return err != unix.EAGAIN && err != unix.EINTR
	})
}

// flow is one connection that is being passed on.
type flow struct {
	s  *Space
	k  *conn
	t  target
	st *stat
	al *allowance
	up *net.TCPConn
	in *peeker

	// answers is set before the first request goes out when the connection is
	// cleartext HTTP/1, so that download follows the answers to them.
	answers atomic.Pointer[answers]
}

// upload judges what the program sends first and passes it on. A nil error means
// the program has ended its side.
func (f *flow) upload() error {
	kind, err := sniff(f.in)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = f.send(f.in.buf)
		}
		return err
	}
	switch kind {
	case tlsHello:
		if err := f.checkHello(); err != nil {
			return err
		}
	case http1:
		return f.requests()
	case http2Preface:
		return f.frames()
	}
	return f.rest()
}

// rest passes on all that still comes, spliced by the kernel.
func (f *flow) rest() error {
	b := f.in.buf
	f.in.buf = nil
	if err := f.send(b); err != nil {
		return err
	}
	for {
		n, err := f.splice(maxSplice)
		if err != nil || n == 0 {
			return err
		}
	}
}

// send passes b on.
func (f *flow) send(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if _, err := f.permit(int64(len(b))); err != nil {
		return err
	}
	n, err := f.up.Write(b)
	f.sent(int64(n))
	return err
}

// forward passes on exactly n bytes of what the program sends.
func (f *flow) forward(n int64) error {
	b := f.in.buf[:min(int64(len(f.in.buf)), n)]
	if err := f.send(b); err != nil {
		return err
	}
	f.in.discard(len(b))
	for n -= int64(len(b)); n > 0; {
		m, err := f.splice(n)
		if err != nil {
			return err
		}
		if m == 0 {
			return io.ErrUnexpectedEOF
		}
		n -= m
	}
	return nil
}

// splice moves up to n bytes from the program without a copy; 0 means it ended.
func (f *flow) splice(n int64) (int64, error) {
	n, err := f.permit(min(n, maxSplice))
	if err != nil {
		return 0, err
	}
	m, err := f.up.ReadFrom(&io.LimitedReader{R: f.k.down, N: n})
	f.sent(m)
	return m, err
}

func (f *flow) sent(n int64) {
	f.st.sent.Add(n)
	f.al.sent.Add(n)
}

// permit says how many of the next n bytes may go now. At the limit it waits for
// the owner's answer.
func (f *flow) permit(n int64) (int64, error) {
	limit := f.s.p.UploadLimit
	if limit == 0 {
		return n, nil
	}
	left := limit - f.al.sent.Load()
	if left >= n {
		return n, nil
	}
	if left > 0 && n > maxHead {
		return left, nil
	}
	f.al.once.Do(func() { f.al.yes = f.s.p.Upload(f.s.ctx, f.t.host()) })
	if !f.al.yes {
		return 0, &Refused{fmt.Sprintf("more than %d bytes to %s were not allowed", limit, f.t.host())}
	}
	return n, nil
}

// download passes the answers back until the other side ends.
func (f *flow) download() {
	// Waiting first lets upload say what the connection is before the first
	// answer comes; a side that speaks before it was asked is no HTTP server.
	err := readable(f.up)
	if a := f.answers.Load(); a != nil && err == nil {
		err = a.follow()
		a.lost()
	}
	if err == nil {
		err = f.back()
	}
	if err != nil {
		reset(f.k.down)
		reset(f.up)
		return
	}
	f.k.down.CloseWrite() //nolint:errcheck // the program may have closed first
}

// back passes on all that still comes back, spliced by the kernel.
func (f *flow) back() error {
	for {
		n, err := f.receive(maxSplice)
		if err != nil || n == 0 {
			return err
		}
	}
}

// receive moves up to n bytes to the program; 0 means the other side ended.
func (f *flow) receive(n int64) (int64, error) {
	m, err := f.k.down.ReadFrom(&io.LimitedReader{R: f.up, N: min(n, maxSplice)})
	f.st.received.Add(m)
	return m, err
}

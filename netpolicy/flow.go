package netpolicy

import (
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// maxHead bounds a TLS hello or an HTTP head, which are judged whole.
const maxHead = 64 << 10

// maxSplice bounds the bytes moved between two looks at the counters.
const maxSplice = 4 << 20

// busy is how many waiting bytes show a flow in full swing. Such a one is spliced on
// without a look at what waits after each piece, which costs a tenth of a gigabit.
const busy = 64 << 10

// peeker reads ahead on a connection, so that first bytes can be judged before
// they are passed on. An idle one holds no buffer.
type peeker struct {
	c      *net.TCPConn
	buf    []byte // read ahead
	passed int    // bytes at the start of buf that went on while they were judged
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
	p.passed = max(p.passed-n, 0)
	if len(p.buf) == 0 {
		p.buf = nil
	}
}

// unpassed is what of the first n bytes has not gone on yet.
func (p *peeker) unpassed(n int) []byte { return p.buf[min(p.passed, n):n] }

// waiting waits until there is something to read and says how many bytes; 0 is the
// end, which the next read tells. No pipe and no buffer is held
// meanwhile, since most connections idle most of the time.
func waiting(c *net.TCPConn) (int64, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	n := 0
	var peeked error
	err = raw.Read(func(fd uintptr) bool {
		if n, _ = unix.IoctlGetInt(int(fd), unix.SIOCINQ); n > 0 {
			peeked = nil
			return true
		}
		if peeked = peek(fd); peeked == nil {
			n, _ = unix.IoctlGetInt(int(fd), unix.SIOCINQ) // it came in between; 0 is the end
		}
		return peeked != unix.EAGAIN
	})
	if err == nil {
		err = peeked
	}
	return int64(n), err
}

// peek looks at what waits and takes nothing but an error: that one is told once,
// and a look that lost it would make a reset an orderly end.
func peek(fd uintptr) error {
	var b [1]byte
	for {
		if _, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT); err != unix.EINTR {
			return err
		}
	}
}

// move splices up to n of the bytes that wait in from to to; 0 means that from ended.
func move(to, from *net.TCPConn, n int64) (int64, error) {
	if n <= 0 {
		var b [1]byte
		m, err := from.Read(b[:])
		if err == io.EOF {
			return 0, nil
		}
		if err == nil {
			m, err = to.Write(b[:m])
		}
		return int64(m), err
	}
	return to.ReadFrom(&io.LimitedReader{R: from, N: n})
}

// readable waits until a read would not block, without holding a buffer.
func readable(c *net.TCPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var peeked error
	err = raw.Read(func(fd uintptr) bool {
		peeked = peek(fd)
		return peeked != unix.EAGAIN
	})
	if err == nil {
		err = peeked
	}
	return err
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

	answers *answers // followed when the connection is cleartext HTTP/1
}

// upload judges what the program sends first and passes it on. A nil error means
// the program has ended its side.
func (f *flow) upload() error {
	kind, err := sniff(f.in, f.send)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = f.send(f.in.unpassed(len(f.in.buf)))
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
	b := f.in.unpassed(len(f.in.buf))
	f.in.discard(len(f.in.buf))
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
	for len(b) > 0 {
		may, err := f.permit(int64(len(b)))
		if err != nil {
			return err
		}
		n, err := f.up.Write(b[:may])
		f.sent(may, int64(n))
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// forward passes on exactly n bytes of what the program sends.
func (f *flow) forward(n int64) error {
	have := int(min(int64(len(f.in.buf)), n))
	if err := f.send(f.in.unpassed(have)); err != nil {
		return err
	}
	f.in.discard(have)
	for n -= int64(have); n > 0; {
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
	wait, err := waiting(f.k.down)
	if err != nil {
		return 0, err
	}
	if wait == 0 {
		return move(f.up, f.k.down, 0)
	}
	may, err := f.permit(min(n, wait, maxSplice))
	if err != nil {
		return 0, err
	}
	m, err := move(f.up, f.k.down, may)
	f.sent(may, m)
	return m, err
}

// sent counts what really went of what permit gave.
func (f *flow) sent(given, n int64) {
	f.st.sent.Add(n)
	f.al.sent.Add(n - given)
}

// permit gives up to n bytes that may go now, taken off what the host may get
// before sent counts them. At the limit it waits for the owner's answer.
func (f *flow) permit(n int64) (int64, error) {
	limit := f.s.p.UploadLimit
	if limit == 0 {
		f.al.sent.Add(n)
		return n, nil
	}
	for {
		gone := f.al.sent.Load()
		may := min(n, limit-gone)
		if may <= 0 {
			break
		}
		if f.al.sent.CompareAndSwap(gone, gone+may) {
			return may, nil
		}
	}
	f.al.once.Do(func() { f.al.yes = f.s.p.Upload(f.s.ctx, f.al.host) })
	if !f.al.yes {
		return 0, &Refused{fmt.Sprintf("more than %d bytes to %s were not allowed", limit, f.al.host)}
	}
	f.al.sent.Add(n)
	return n, nil
}

// download passes the answers back until the other side ends.
func (f *flow) download() {
	// Waiting first lets upload say what the connection is before the first
	// answer comes; a side that speaks before it was asked is no HTTP server.
	err := readable(f.up)
	if err == nil && f.answers.asked() {
		err = f.answers.follow()
	}
	f.answers.lost() // whatever ended it, nobody may go on waiting for an answer
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
	wait, err := waiting(f.up)
	if err != nil {
		return 0, err
	}
	n = min(n, maxSplice)
	if wait < busy {
		n = min(n, wait)
	}
	m, err := move(f.k.down, f.up, n)
	f.st.received.Add(m)
	return m, err
}

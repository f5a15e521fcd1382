package netpolicy

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"gurtos/netpolicy/rules"
)

// kind is what a connection's first bytes show it to be.
type kind int

const (
	opaque kind = iota // ssh, postgres, anything: the address is the name
	tlsHello
	http1
	http2Preface
	forwarded // the head that one proxy puts in front of another's connection
	headless  // TLS that begins with another message than a hello
	bareLine  // a request of HTTP that names no version
)

// Why a connection of these kinds is closed: what comes behind would pass unjudged, and
// there are servers that read on.
var (
	errForwarded = &Refused{"it begins with the addresses of another connection"}
	errHeadless  = &Refused{"its TLS does not begin with a hello"}
	errBareLine  = &Refused{"its HTTP request names no version"} // some servers read fields behind it, and its Host
)

// proxyHead2 is how version 2 of the PROXY protocol begins; version 1 is a line.
var proxyHead2 = []byte("\r\n\r\n\x00\r\nQUIT\n")

// maxFirstLine is how much of a first line is kept. No request is that long.
const maxFirstLine = 32 << 10

var errLongLine = &Refused{"its first line is longer than 32 KB"}

// sniff reads just as far as it takes to tell. A line that any HTTP server might
// take for a request counts as HTTP, however odd: it is refused later, not passed.
//
// A program that speaks another protocol may wait for an answer to half a line, so
// what has come of one is passed on by pass at once. That gives nothing away: no
// server answers a request before its first line is whole.
func sniff(p *peeker, pass func([]byte) error) (kind, error) {
	long := false
	for {
		if len(p.buf) > 0 {
			k, sure := judge(p.buf)
			switch {
			case sure && long && k != opaque:
				return opaque, errLongLine
			case sure && k == forwarded:
				return opaque, errForwarded
			case sure && k == headless:
				return opaque, errHeadless
			case sure && k == bareLine:
				return opaque, errBareLine
			}
			if sure {
				return k, nil
			}
			if p.buf[0] != 0x16 {
				if err := pass(p.unpassed(len(p.buf))); err != nil {
					return opaque, err
				}
				p.passed = len(p.buf)
			}
			if len(p.buf) > maxFirstLine {
				if bytes.Contains(bytes.ToUpper(p.buf), []byte("HTTP/")) {
					return opaque, errLongLine
				}
				// What is kept begins with a byte of no importance, and holds what
				// "HTTP/" may still become.
				long = true
				p.discard(len(p.buf) - 8)
				p.buf[0] = '?'
			}
		}
		if err := p.fill(); err != nil {
			return opaque, err
		}
	}
}

// judge says what b begins with; sure is false while more bytes are needed.
func judge(b []byte) (k kind, sure bool) {
	if b[0] == 0x16 { // a handshake record, RFC 8446 section 5.1
		if len(b) < 2 {
			return opaque, false
		}
		if b[1] == 3 {
			return tlsHello, true
		}
		return opaque, true
	}
	if b[0] == 0x14 || b[0] == 0x15 || b[0] == 0x17 { // other records: OpenSSL skips warnings in front of a hello
		if len(b) < 3 {
			return opaque, false
		}
		if b[1] == 3 && b[2] <= 4 {
			return headless, true
		}
	}
	if n := min(len(b), len(proxyHead2)); bytes.Equal(b[:n], proxyHead2[:n]) && n > 4 {
		return forwarded, n == len(proxyHead2)
	}
	// Servers skip empty lines in front of a request (RFC 9112, section 2.2), and
	// some of them any white space.
	line := bytes.TrimLeft(b, "\r\n\t\v\f ")
	line, _, ended := bytes.Cut(line, []byte("\n"))
	// A CR alone ends a line for few servers, and for others it is white space in one
	// (RFC 9112, section 3). So it can show a request, and never that there is none.
	cr := bytes.IndexByte(line, '\r')
	shown := ended || cr >= 0 && cr < len(line)-1
	switch up := bytes.ToUpper(line); {
	case shown && bytes.HasPrefix(up, []byte("PROXY ")):
		return forwarded, true
	case shown && bytes.HasPrefix(up, []byte("PRI ")) && bytes.Contains(up, []byte("HTTP/2")):
		return http2Preface, true
	case shown && bytes.Contains(up, []byte("HTTP/")):
		return http1, true
	case shown && isBareLine(line):
		return bareLine, true
	case bytes.IndexByte(line, 0) >= 0 && !bytes.Contains(up, []byte("HTTP/")):
		// No server reads a request line with this byte in it, and most binary
		// protocols have it early.
		return opaque, true
	}
	return opaque, ended
}

// isBareLine says whether a line is a request of HTTP/0.9, or of a later version that it
// does not name; a CR in it is white space. Text protocols that have some of these words
// (memcached's get, Redis's GET, NATS's CONNECT) put no path or address of the web behind
// them.
func isBareLine(line []byte) bool {
	f := bytes.Fields(line)
	if len(f) < 2 {
		return false
	}
	switch string(f[0]) {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE":
		at := bytes.ToLower(f[1])
		return at[0] == '/' || bytes.HasPrefix(at, []byte("http:")) || bytes.HasPrefix(at, []byte("https:"))
	}
	return false
}

// isToken says whether b is a token of RFC 9110, section 5.6.2.
func isToken(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	for _, c := range b {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			continue
		}
		if bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), c) < 0 {
			return false
		}
	}
	return true
}

// checkHello reads a whole TLS hello and holds the name in it, when there is one,
// against the target.
func (f *flow) checkHello() error {
	// Half a hello is a half-open connection.
	f.k.down.SetReadDeadline(time.Now().Add(f.s.n.dial.half)) //nolint:errcheck // a closed connection says so next
	n, err := helloLength(f.in)
	f.k.down.SetReadDeadline(time.Time{}) //nolint:errcheck // the same
	if err != nil {
		return err
	}
	sni, err := serverName(f.in.buf[:n])
	if err != nil {
		return &Refused{"its TLS hello can't be read"}
	}
	if sni == "" {
		return nil
	}
	name, err := rules.Normalize(sni)
	if err != nil || name != f.t.name {
		return &Refused{fmt.Sprintf("its TLS hello names %.253q", sni)}
	}
	return nil
}

// helloLength fills p until it holds the first handshake message, which may be
// spread over several records, and says where that ends.
func helloLength(p *peeker) (int, error) {
	need, have, at := 4, 0, 0 // handshake bytes needed and had, and the next record's place
	for {
		for len(p.buf) < at+5 {
			if err := p.fill(); err != nil {
				return 0, unexpected(err)
			}
		}
		size := int(p.buf[at+3])<<8 | int(p.buf[at+4])
		if p.buf[at] != 0x16 || p.buf[at+1] != 3 || size == 0 || size > 1<<14 {
			return 0, &Refused{"its TLS hello can't be read"}
		}
		for len(p.buf) < at+5+size {
			if err := p.fill(); err != nil {
				return 0, unexpected(err)
			}
		}
		if have == 0 && size >= 4 {
			need = 4 + int(p.buf[at+6])<<16 + int(p.buf[at+7])<<8 + int(p.buf[at+8])
		} else if have < 4 {
			return 0, &Refused{"its TLS hello is cut too small"}
		}
		have += size
		at += 5 + size
		if have >= need {
			return at, nil
		}
	}
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// errSeen ends the handshake once the hello was read.
var errSeen = errors.New("seen")

// serverName lets crypto/tls read the hello, and no more.
func serverName(hello []byte) (string, error) {
	name, seen := "", false
	cfg := &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name, seen = h.ServerName, true
		return nil, errSeen
	}}
	err := tls.Server(helloConn{bytes.NewReader(hello)}, cfg).Handshake()
	if !seen {
		return "", err
	}
	return name, nil
}

// helloConn is a connection that has only a hello to say.
type helloConn struct{ *bytes.Reader }

func (helloConn) Write(b []byte) (int, error)      { return len(b), nil }
func (helloConn) Close() error                     { return nil }
func (helloConn) LocalAddr() net.Addr              { return nil }
func (helloConn) RemoteAddr() net.Addr             { return nil }
func (helloConn) SetDeadline(time.Time) error      { return nil }
func (helloConn) SetReadDeadline(time.Time) error  { return nil }
func (helloConn) SetWriteDeadline(time.Time) error { return nil }

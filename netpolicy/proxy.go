package netpolicy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"gurtos/netpolicy/rules"
)

// proxied serves a program that asked for a proxy: CONNECT for anything, and
// plain HTTP requests with an absolute URI, one to a connection. The rules are
// those of a redirected connection.
func (s *Space) proxied(k *conn) {
	in := &peeker{c: k.down}
	k.down.SetReadDeadline(time.Now().Add(s.n.dial.half)) //nolint:errcheck // a closed connection says so next
	h, err := readHead(in)
	k.down.SetReadDeadline(time.Time{}) //nolint:errcheck // the same
	if err == nil && h.first[2] != "HTTP/1.1" && h.first[2] != "HTTP/1.0" {
		err = &Refused{"it is no HTTP/1"}
	}
	if err != nil {
		var no *Refused
		if errors.As(err, &no) {
			answer(k.down, http.StatusBadRequest, "The box can't read this request: "+no.Why+".")
		}
		return
	}
	connect := h.first[0] == http.MethodConnect
	auth := h.first[1]
	if !connect {
		var ok bool
		if auth, ok = uriHost(h.first[1]); !ok {
			answer(k.down, http.StatusBadRequest, "This is the proxy of a task: ask for http://host/path, or CONNECT host:port.")
			return
		}
	}
	t, err := s.proxyTarget(auth, connect)
	if err != nil {
		answer(k.down, http.StatusBadRequest, fmt.Sprintf("The box can't reach %.300q: %v.", auth, err))
		return
	}
	if sw := s.swapFor(t); connect && sw != nil {
		if _, err := k.down.Write(established200); err == nil {
			s.swapped(k, t, sw, in)
		}
		return
	}
	up, rule, err := s.open(k, t)
	if err != nil {
		s.refuse(k, t, err)
		return
	}
	if connect {
		if _, err := k.down.Write(established200); err != nil {
			return
		}
	} else {
		in.buf = append(originForm(h), in.buf...)
	}
	s.pass(k, t, rule, up, in)
}

var established200 = []byte("HTTP/1.1 200 Connection established\r\n\r\n")

// refuse answers a proxy's client whose target can't be had.
func (s *Space) refuse(k *conn, t target, err error) {
	var no *Refused
	if errors.As(err, &no) {
		answer(k.down, http.StatusForbidden, fmt.Sprintf("This task may not reach %s: %s.", t, no.Why))
		return
	}
	answer(k.down, http.StatusBadGateway, fmt.Sprintf("The box can't reach %s: %v.", t, err))
}

// proxyTarget reads what a proxy's client asks for. An address that stands for a
// name means the name.
func (s *Space) proxyTarget(auth string, connect bool) (target, error) {
	t, err := parseTarget(auth, connect)
	if err == nil && t.name == "" {
		t.name, _ = s.names.name(t.addr)
	}
	return t, err
}

// parseTarget reads host:port; without withPort the port may be left out and is 80.
func parseTarget(auth string, withPort bool) (target, error) {
	host, port := auth, "80"
	if withPort || strings.LastIndexByte(auth, ':') > strings.LastIndexByte(auth, ']') {
		var err error
		if host, port, err = net.SplitHostPort(auth); err != nil {
			return target{}, errors.New("a host and a port are needed")
		}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return target{}, errors.New("a port is a number from 1 to 65535")
	}
	t := target{port: uint16(n)}
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		t.addr = rules.Embedded(a.WithZone(""))
		return t, nil
	}
	if rules.EndsInNumber(host) {
		return target{}, errors.New("an address is written as four decimal numbers")
	}
	t.name, err = rules.Normalize(host)
	return t, err
}

// originForm rewrites a request to a proxy into one to the server itself, and
// makes it the connection's last (RFC 9112, section 3.2.1).
func originForm(h *head) []byte {
	uri := h.first[1][len("http://"):]
	if i := strings.IndexAny(uri, "/?"); i < 0 {
		uri = "/"
	} else if uri = uri[i:]; uri[0] == '?' {
		uri = "/" + uri
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s\r\n", h.first[0], uri, h.first[2])
	upgrade := len(h.get("upgrade")) > 0
	for line := range strings.SplitSeq(strings.TrimSuffix(string(h.raw), "\r\n\r\n"), "\r\n") {
		name, _, ok := strings.Cut(line, ":")
		low := strings.ToLower(name)
		if !ok || strings.Contains(name, " ") || strings.HasPrefix(low, "proxy-") || low == "connection" && !upgrade || low == "keep-alive" {
			continue
		}
		b.WriteString(line + "\r\n")
	}
	if !upgrade {
		b.WriteString("Connection: close\r\n")
	}
	return []byte(b.String() + "\r\n")
}

// answer ends a proxy's connection with a sentence.
func answer(c *net.TCPConn, status int, sentence string) {
	body := sentence + "\n"
	fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		status, http.StatusText(status), len(body), body)
	// What the program still sends is read, or its reset would overtake the answer.
	c.CloseWrite()                                  //nolint:errcheck // the program may have gone
	c.SetReadDeadline(time.Now().Add(time.Second))  //nolint:errcheck // the same
	io.Copy(io.Discard, io.LimitReader(c, maxHead)) //nolint:errcheck // the same
}

package netpolicy

import (
	"bytes"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"

	"gurtos/netpolicy/rules"
)

// head is the start of an HTTP/1 message, read strictly: what two servers could
// read in two ways is refused (RFC 9112, sections 2.2, 5 and 6).
type head struct {
	raw    []byte // as sent, with the empty line at its end
	passed int    // bytes of raw that went on while the first line was judged
	first  [3]string
	fields []field
}

type field struct{ name, value string } // name in lower case

// get lists the values of a field.
func (h *head) get(name string) (values []string) {
	for _, f := range h.fields {
		if f.name == name {
			values = append(values, f.value)
		}
	}
	return values
}

// has says whether a comma-separated field holds a token.
func (h *head) has(name, token string) bool {
	for _, v := range h.get(name) {
		for t := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(t), token) {
				return true
			}
		}
	}
	return false
}

// readHead takes a whole head off p. io.EOF means that none began.
func readHead(p *peeker) (*head, error) {
	at := 0
	for {
		if at == 0 {
			// Empty lines in front are allowed and mean nothing: not passed on.
			p.discard(len(p.buf) - len(bytes.TrimLeft(p.buf, "\r\n")))
		}
		if i := bytes.Index(p.buf[max(at-3, 0):], []byte("\r\n\r\n")); i >= 0 {
			n := max(at-3, 0) + i + 4
			h, err := parseHead(p.buf[:n])
			if err != nil {
				return nil, err
			}
			h.passed = p.passed
			p.discard(n)
			return h, nil
		}
		// A line ends in CR and LF: a program that forgot one of them would wait.
		for i, c := range p.buf[at:] {
			if i += at; (c == '\n') != (i > 0 && p.buf[i-1] == '\r') {
				return nil, &Refused{"its HTTP head has a stray line end"}
			}
		}
		at = len(p.buf)
		if err := p.fill(); err != nil {
			if at > 0 {
				err = unexpected(err)
			}
			return nil, err
		}
	}
}

func parseHead(raw []byte) (*head, error) {
	h := &head{raw: bytes.Clone(raw)}
	lines := strings.Split(strings.TrimSuffix(string(raw), "\r\n\r\n"), "\r\n")
	for _, l := range lines {
		if strings.ContainsAny(l, "\r\n\x00") {
			return nil, &Refused{"its HTTP head has a stray line end"}
		}
	}
	parts := strings.SplitN(lines[0], " ", 3)
	if len(parts) < 2 || parts[0] == "" || parts[1] == "" {
		return nil, &Refused{"its HTTP head begins wrongly"}
	}
	copy(h.first[:], parts)
	for _, l := range lines[1:] {
		name, value, ok := strings.Cut(l, ":")
		if !ok || !isToken([]byte(name)) {
			return nil, &Refused{"its HTTP head has a field that servers read differently"}
		}
		h.fields = append(h.fields, field{strings.ToLower(name), strings.Trim(value, " \t")})
	}
	return h, nil
}

// body says how a message's body ends: after n bytes, in chunks, or (n -1) with
// the connection.
func (h *head) body() (n int64, chunked bool, err error) {
	te, cl := h.get("transfer-encoding"), h.get("content-length")
	switch {
	case len(te) > 0 && len(cl) > 0:
		return 0, false, &Refused{"its HTTP head has both a length and a transfer coding"}
	case len(te) == 1 && strings.EqualFold(te[0], "chunked") && h.version() == "HTTP/1.1":
		return 0, true, nil
	case len(te) > 0:
		return 0, false, &Refused{"its HTTP head has a transfer coding that servers read differently"}
	case len(cl) == 1 && cl[0] != "" && strings.Trim(cl[0], "0123456789") == "":
		if n, err = strconv.ParseInt(cl[0], 10, 64); err != nil {
			return 0, false, &Refused{"its HTTP body is too long"}
		}
		return n, false, nil
	case len(cl) > 0:
		return 0, false, &Refused{"its HTTP head has a length that servers read differently"}
	}
	return -1, false, nil
}

func (h *head) version() string {
	if strings.HasPrefix(h.first[0], "HTTP/") {
		return h.first[0]
	}
	return h.first[2]
}

// checkRequest holds a request against the target.
func (h *head) checkRequest(t target) error {
	method, uri, version := h.first[0], h.first[1], h.first[2]
	if version != "HTTP/1.1" && version != "HTTP/1.0" || !isToken([]byte(method)) || strings.ContainsFunc(uri, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		return &Refused{"its HTTP request begins wrongly"}
	}
	if method == "CONNECT" {
		return &Refused{"it asks an HTTP server to connect onwards"}
	}
	hosts := h.get("host")
	if len(hosts) > 1 || len(hosts) == 0 && version == "HTTP/1.1" {
		return &Refused{fmt.Sprintf("its HTTP request has %d Host fields", len(hosts))}
	}
	if len(hosts) == 1 && !t.is(hosts[0]) {
		return &Refused{fmt.Sprintf("its HTTP request is for %.253q", hosts[0])}
	}
	if uri == "*" || strings.HasPrefix(uri, "/") {
		return nil
	}
	auth, ok := uriHost(uri)
	if !ok || !t.is(auth) {
		return &Refused{fmt.Sprintf("its HTTP request is for %.253q", uri)}
	}
	return nil
}

// uriHost takes the host out of an absolute URI of http.
func uriHost(uri string) (string, bool) {
	if len(uri) < 7 || !strings.EqualFold(uri[:7], "http://") {
		return "", false
	}
	auth := uri[7:]
	if i := strings.IndexAny(auth, "/?#"); i >= 0 {
		auth = auth[:i]
	}
	return auth, !strings.Contains(auth, "@")
}

// is says whether host or host:port, as a client writes it, is the target.
func (t target) is(host string) bool {
	name, port := host, ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		name, port = host[:i], host[i+1:]
	}
	if port != "" && port != strconv.Itoa(int(t.port)) {
		return false
	}
	if t.name == "" {
		a, err := netip.ParseAddr(strings.Trim(name, "[]"))
		return err == nil && rules.Embedded(a) == t.addr
	}
	norm, err := rules.Normalize(name)
	return err == nil && norm == t.name
}

// requests passes on a connection of cleartext HTTP/1: every head is judged, only
// bodies are spliced.
func (f *flow) requests() error {
	a := f.answers
	for {
		h, err := readHead(f.in)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := h.checkRequest(f.t); err != nil {
			return err
		}
		n, chunked, err := h.body()
		if err != nil {
			return err
		}
		asked := a.expect(h)
		if err := f.send(h.raw[h.passed:]); err != nil {
			return err
		}
		if chunked {
			err = f.chunks()
		} else if n > 0 {
			err = f.forward(n)
		}
		if err != nil {
			return err
		}
		if asked == nil {
			continue
		}
		switch proto, err := a.upgraded(asked); {
		case err != nil:
			return err
		case strings.EqualFold(proto, "h2c"):
			return f.frames()
		case len(proto) > 4 && strings.EqualFold(proto[:4], "TLS/"):
			return f.upload() // RFC 2817: the same connection goes on in TLS, which is judged as ever
		case proto != "":
			return f.rest()
		}
	}
}

// chunks passes on a chunked body with its trailer (RFC 9112, section 7.1).
func (f *flow) chunks() error {
	return eachChunk(f.in, f.send, func(l []byte) error {
		name, _, ok := strings.Cut(string(l), ":")
		if string(l) != "\r\n" && (!ok || !isToken([]byte(name)) || inFront[strings.ToLower(name)]) {
			return &Refused{"its HTTP body has a trailer that servers read differently"}
		}
		return f.send(l)
	}, f.forward)
}

// inFront are fields that say where a request goes and how it ends, and that no server
// may find behind it (RFC 9110, section 6.5.1).
var inFront = map[string]bool{"host": true, "content-length": true, "transfer-encoding": true, "te": true, "trailer": true, "connection": true, "upgrade": true, "expect": true}

// eachChunk reads the frames of a chunked body off p; line passes on a frame's own
// bytes, trailer a line behind the last one, and data that many bytes of content.
func eachChunk(p *peeker, line, trailer func([]byte) error, data func(int64) error) error {
	for {
		l, err := readLine(p)
		if err != nil {
			return err
		}
		size, _, _ := strings.Cut(strings.TrimSuffix(string(l), "\r\n"), ";")
		size = strings.TrimRight(size, " \t")
		n, err := strconv.ParseUint(size, 16, 62)
		if err != nil || size[0] == '+' {
			return &Refused{"its HTTP body is chunked wrongly"}
		}
		if err := line(l); err != nil {
			return err
		}
		if n == 0 {
			break
		}
		if err := data(int64(n)); err != nil {
			return err
		}
		if l, err = readLine(p); err != nil {
			return err
		}
		if string(l) != "\r\n" {
			return &Refused{"its HTTP body is chunked wrongly"}
		}
		if err := line(l); err != nil {
			return err
		}
	}
	for {
		l, err := readLine(p)
		if err != nil {
			return err
		}
		if err := trailer(l); err != nil || string(l) == "\r\n" {
			return err
		}
	}
}

// readLine takes a line that ends in CRLF off p.
func readLine(p *peeker) ([]byte, error) {
	for {
		if i := bytes.IndexByte(p.buf, '\n'); i >= 0 {
			if i == 0 || p.buf[i-1] != '\r' || bytes.IndexByte(p.buf[:i-1], '\r') >= 0 {
				return nil, &Refused{"its HTTP body has a stray line end"}
			}
			l := bytes.Clone(p.buf[:i+1])
			p.discard(i + 1)
			return l, nil
		}
		if err := p.fill(); err != nil {
			return nil, unexpected(err)
		}
	}
}

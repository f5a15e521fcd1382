package netpolicy

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"
)

// extension is one of a TLS hello (RFC 8446, section 4.2); 0 is the server's name.
type extension struct {
	kind uint16
	body []byte
}

// nameList is the body of a server name extension (RFC 6066, section 3).
func nameList(list ...string) []byte {
	var all []byte
	for _, n := range list {
		all = append(all, 0)
		all = binary.BigEndian.AppendUint16(all, uint16(len(n)))
		all = append(all, n...)
	}
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(all))), all...)
}

// catcher is a connection that keeps what was written first.
type catcher struct {
	net.Conn
	first []byte
}

func (c *catcher) Write(b []byte) (int, error) {
	if c.first == nil {
		c.first = bytes.Clone(b)
	}
	return len(b), nil
}
func (c *catcher) Read([]byte) (int, error)    { return 0, io.EOF }
func (c *catcher) Close() error                { return nil }
func (c *catcher) SetDeadline(time.Time) error { return nil }

// helloWith is a record with the hello that crypto/tls would send for a name, with its
// extensions changed, of which the name is the first.
func helloWith(name string, change func([]extension) []extension) []byte {
	c := &catcher{}
	tls.Client(c, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake() //nolint:errcheck,gosec // nobody answers
	b := c.first[9:]                                                                   // behind the heads of record and message
	at := 2 + 32                                                                       // version and random
	at += 1 + int(b[at])                                                               // session
	at += 2 + int(binary.BigEndian.Uint16(b[at:]))                                     // cipher suites
	at += 1 + int(b[at])                                                               // compression
	var list []extension
	for rest := b[at+2:]; len(rest) > 0; {
		n := binary.BigEndian.Uint16(rest[2:])
		list = append(list, extension{binary.BigEndian.Uint16(rest), rest[4 : 4+n]})
		rest = rest[4+n:]
	}
	for k, e := range list {
		if e.kind == 0 {
			list[0], list[k] = list[k], list[0]
		}
	}
	if change != nil {
		list = change(list)
	}
	var all []byte
	for _, e := range list {
		all = binary.BigEndian.AppendUint16(all, e.kind)
		all = binary.BigEndian.AppendUint16(all, uint16(len(e.body)))
		all = append(all, e.body...)
	}
	body := append(binary.BigEndian.AppendUint16(bytes.Clone(b[:at]), uint16(len(all))), all...)
	message := append([]byte{1, byte(len(body) >> 16), byte(len(body) >> 8), byte(len(body))}, body...)
	return append([]byte{0x16, 3, 1, byte(len(message) >> 8), byte(len(message))}, message...)
}

// hello says hello to example.com and wants a server's hello back.
func hello(name string, change func([]extension) []extension) func(program) error {
	return func(p program) error {
		c, err := p.connect("example.com", 443, false)
		if err != nil {
			p.t.Fatal("example.com itself is not reached: ", err)
		}
		if _, err := c.Write(helloWith(name, change)); err != nil {
			return err
		}
		b := make([]byte, 6)
		if _, err := io.ReadFull(c, b); err != nil {
			return err
		}
		if b[0] != 0x16 || b[5] != 2 {
			return errors.New("no hello came back")
		}
		return nil
	}
}

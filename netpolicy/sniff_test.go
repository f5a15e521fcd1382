package netpolicy

import "testing"

// TestPiecesShowNoLess holds what first bytes are taken for, and that no piece of what is to
// be judged is taken for another protocol, whose bytes pass unseen, before the rest has come.
func TestPiecesShowNoLess(t *testing.T) {
	for _, c := range []struct {
		first string
		kind  kind
	}{
		{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", http1},
		{"\r\n \tGET / HTTP/1.1\nHost: a\n\n", http1},
		{"GET\r/ HTTP/1.1\r\nHost: a\r\n\r\n", http1}, // its CR is white space for some
		{"GET\r \r/\rHTTP/1.1\r\n\r\n", http1},
		{"X\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", http1}, // and the end of a line for others
		{"X\r\r\r\rY HTTP/1.1\r\n\r\n", http1},
		{"GET / HTTP/1.1\rHost: a\r\r", http1},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", http2Preface},
		{"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", forwarded},
		{"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\rX", forwarded},
		{"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x00", forwarded},
		{"GET /\r\nHost: a\r\n\r\n", bareLine},
		{"GET /\rHost: a\r\r", bareLine},
		{"GET\r/\nHost: a\r\n\r\n", bareLine},
		{"GET\r\thttp://a/\n", bareLine},
		{"\x16\x03\x01", tlsHello},
		{"\x15\x03\x01\x00\x02", headless},
		{"SSH-2.0-x\r\n", opaque},
		{"get a\rb\r\n", opaque},
		{"\x00\x00\x00\x08\x04\xd2\x16\x2f", opaque},
	} {
		if k, sure := judge([]byte(c.first)); k != c.kind || !sure {
			t.Errorf("%q is %v, sure %v, want %v", c.first, k, sure, c.kind)
		}
		for n := 1; n < len(c.first); n++ {
			if k, sure := judge([]byte(c.first[:n])); sure && k == opaque && c.kind != opaque {
				t.Errorf("%q, of which %q has come, is taken for another protocol", c.first, c.first[:n])
			}
		}
	}
}

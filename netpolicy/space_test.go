package netpolicy

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestReaches holds that an allowed host answers, by the proxy and without.
func TestReaches(t *testing.T) {
	i := outside(t)
	i.name("example.com", webAddr, webAddr6)
	s, blocked := space(t, "example.com")
	for _, env := range [][]string{nil, Env()} {
		if code, out := in(t, s, env, "curl -sS -m 10 http://example.com/a"); code != 0 || out != "you reached example.com/a" {
			t.Errorf("curl with %v: exit %d, %q", env, code, out)
		}
	}
	if b := blocked(); len(b) > 0 {
		t.Errorf("blocked %v", b)
	}
}

// TestRefuses holds that nothing else answers, at once, and that it is told.
func TestRefuses(t *testing.T) {
	i := outside(t)
	i.name("example.com", webAddr)
	i.name("example.org", webAddr)
	i.name("inner.example.com", lanAddr)
	s, blocked := space(t, "example.com", "inner.example.com")
	for _, c := range []struct{ command, told string }{
		{"curl -sS -m 10 -f http://example.org/", "example.org:53"},
		{"curl -sS -m 10 -f http://" + webAddr + "/", webAddr + ":80"},
		{"curl -sS -m 10 -f -H 'Host: example.org' http://example.com/", "example.com:80"},
		{"curl -sS -m 10 -f http://inner.example.com/", "inner.example.com:80"},
		{"curl -sS -m 10 -f -g 'http://[" + webAddr6 + "]/'", "[" + webAddr6 + "]:80"},
		{"python3 -c \"import socket;s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM);s.connect(('198.51.100.1',443));s.send(b'x')\"", "198.51.100.1:443"},
	} {
		i.mu.Lock()
		i.seen = nil
		i.mu.Unlock()
		if code, out := in(t, s, nil, c.command); code == 0 {
			t.Errorf("%s: exit 0, %q", c.command, out)
		}
		if !eventually(func() bool { return slices.Contains(blocked(), c.told) }) {
			t.Errorf("%s: told %v, want %s", c.command, blocked(), c.told)
		}
		for _, r := range i.record() {
			if !strings.HasPrefix(r, "dns example.com") && !strings.HasPrefix(r, "dns inner.example.com") && !strings.HasPrefix(r, "packet ") {
				t.Errorf("%s: the internet saw %q", c.command, r)
			}
		}
	}
}

// eventually polls for what another goroutine or the kernel is about to tell.
func eventually(fn func() bool) bool {
	end := time.Now().Add(5 * time.Second)
	for ; time.Now().Before(end); runtime.Gosched() {
		if fn() {
			return true
		}
	}
	return fn()
}

package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"gurtos/core/actionlog"
)

// raw sends bytes over a new loopback connection and reads one answer.
func (b *box) raw(text string) res {
	b.t.Helper()
	c, err := net.Dial("tcp4", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, text); err != nil {
		b.t.Fatal(err)
	}
	method, _, _ := strings.Cut(text, " ")
	a, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		b.t.Fatal(err)
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return res{a.StatusCode, a.Header, string(body)}
}

// What a browser says about the page behind a request, and what comes of it for
// a read and a change on the screen's own connection.
func TestHostAndOrigin(t *testing.T) {
	b := newBox(t)
	own := strings.TrimPrefix(b.url, "http://")
	_, port, err := net.SplitHostPort(own)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		header map[string]string
		status int // of GET /api/box
		page   int // of GET /
	}{
		{"no browser", nil, 200, 200},
		{"own page", map[string]string{"Origin": b.url, "Sec-Fetch-Site": "same-origin"}, 200, 200},
		{"typed address", map[string]string{"Sec-Fetch-Site": "none"}, 200, 200},
		{"localhost", map[string]string{"Host": "localhost:" + port, "Origin": "http://localhost:" + port}, 200, 200},
		{"name of the box", map[string]string{"Host": "gurtos.local"}, 200, 200},
		{"name in capitals with a dot", map[string]string{"Host": "GurtOS.local.:" + port}, 200, 200},
		{"another site", map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, 403, 200},
		{"another site, old browser", map[string]string{"Origin": "http://evil.example"}, 403, 200},
		{"own name by another scheme", map[string]string{"Origin": "ftp://" + own}, 403, 200},
		{"another port of the same host", map[string]string{"Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site"}, 403, 200},
		{"origin of ours said to be cross-site", map[string]string{"Origin": b.url, "Sec-Fetch-Site": "cross-site"}, 403, 200},
		{"rebound name", map[string]string{"Host": "evil.example:" + port, "Origin": "http://evil.example:" + port}, 403, 200},
		{"rebound name, no origin", map[string]string{"Host": "evil.example"}, 403, 200},
		{"our name under another", map[string]string{"Host": "gurtos.local.evil.example"}, 403, 200},
		{"an address that is not ours", map[string]string{"Host": "192.0.2.1"}, 403, 200},
		{"no origin of its own", map[string]string{"Origin": "null"}, 401, 200},
		{"no origin, cross-site", map[string]string{"Origin": "null", "Sec-Fetch-Site": "cross-site"}, 401, 200},
		{"script or image of an app page", map[string]string{"Sec-Fetch-Site": "cross-site"}, 401, 200},
		{"script of another port", map[string]string{"Sec-Fetch-Site": "same-site"}, 401, 200},
		{"unknown word", map[string]string{"Sec-Fetch-Site": "elsewhere"}, 401, 200},
		{"relayed", map[string]string{"X-Forwarded-For": "192.0.2.9"}, 401, 200},
		{"relayed by another header", map[string]string{"X-Forwarded-Proto": "https"}, 401, 200},
		{"relayed, as the RFC says", map[string]string{"Forwarded": "for=192.0.2.9"}, 401, 200},
		{"says that it is the screen", map[string]string{"X-Box-Caller": "screen", "X-Forwarded-For": "192.0.2.9"}, 401, 200},
		{"wrong token on the screen", map[string]string{"Authorization": "Bearer dwrong"}, 401, 200},
		{"window token that nobody gave", map[string]string{"Authorization": "Bearer wabc"}, 401, 200},
		{"token of another kind", map[string]string{"Authorization": "Basic eDp5"}, 401, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := b.with(t)
			if got := b.do(req{as: screen, method: "GET", path: "/api/box", header: c.header}); got.status != c.status {
				t.Errorf("read: %d %s", got.status, got.body)
			}
			if got := b.do(req{as: screen, method: "POST", path: "/api/pause", body: `{"paused":false}`, header: c.header}); got.status != c.status {
				t.Errorf("change: %d %s", got.status, got.body)
			}
			if got := b.do(req{as: screen, method: "GET", path: "/", header: c.header}); got.status != c.page && c.header["Authorization"] == "" {
				t.Errorf("page: %d %s", got.status, got.body)
			}
			// A token that is right gives its right to pages without an origin too.
			if c.status == 401 && c.header["Authorization"] == "" {
				h := map[string]string{"Authorization": "Bearer " + b.token[owner]}
				for k, v := range c.header {
					h[k] = v
				}
				if got := b.do(req{method: "GET", path: "/api/box", header: h}); got.status != 200 {
					t.Errorf("with a token: %d %s", got.status, got.body)
				}
			}
		})
	}
}

func TestTokens(t *testing.T) {
	b := newBox(t)
	q := "?access_token=" + b.token[owner]
	for _, c := range []struct {
		name   string
		r      req
		status int
	}{
		{"header", req{as: owner, method: "GET", path: "/api/box"}, 200},
		{"lower-case scheme", req{method: "GET", path: "/api/box", header: map[string]string{"Authorization": "bearer " + b.token[owner], "Forwarded": "x"}}, 200},
		{"query", req{as: none, method: "GET", path: "/api/box" + q}, 200},
		{"both", req{as: owner, method: "GET", path: "/api/box" + q}, 401},
		{"twice in the query", req{as: none, method: "GET", path: "/api/box" + q + "&access_token=x"}, 401},
		{"empty", req{as: none, method: "GET", path: "/api/box?access_token="}, 401},
		{"on the uplink", req{as: owner, method: "GET", path: "/api/box"}, 200},
	} {
		if got := b.do(c.r); got.status != c.status {
			t.Errorf("%s: %d %s", c.name, got.status, got.body)
		}
	}
	got := b.do(req{as: none, method: "GET", path: "/api/box?access_token=dwrong"})
	if !strings.Contains(got.body, "pair the device again") {
		t.Errorf("%s", got.body)
	}
	for _, token := range b.token {
		if strings.Contains(b.output.String(), token) {
			t.Error("boxd's output holds a token")
		}
	}
}

func TestUplinkIsNeverTheScreen(t *testing.T) {
	b := newBox(t)
	b.url = b.lanURL
	if got := b.do(req{as: screen, method: "GET", path: "/api/box"}); got.status != 401 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := b.do(req{as: owner, method: "GET", path: "/api/box"}); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestOwnSocketIsTheScreen(t *testing.T) {
	b := newBox(t)
	c := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", b.sock)
	}}}
	defer c.CloseIdleConnections()
	a, err := c.Post("http://box/api/pause", "application/json", strings.NewReader(`{"paused":false}`))
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	if a.StatusCode != 200 {
		t.Error(a.Status)
	}
}

// boxd's own requests and another user's never are the screen's. The test's own
// process is the one that serves, so its connections are boxd's own; curl's are
// another process of root.
func TestWhoseConnection(t *testing.T) {
	b := newBox(t, func(s *Server) { s.own = ownSocket })
	curl := func(b *box, uid uint32) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", b.url+"/api/box")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if got := b.do(req{as: screen, method: "GET", path: "/api/box", header: map[string]string{"Connection": "close"}}); got.status != 401 {
		t.Errorf("boxd itself: %d", got.status)
	}
	if got := curl(b, 0); got != "200" {
		t.Errorf("root: %s", got)
	}
	if got := curl(b, 65534); got != "401" {
		t.Errorf("another user: %s", got)
	}
	on := newBox(t, func(s *Server) { s.own, s.opt.RootIsScreen, s.opt.KioskUID = ownSocket, false, 65534 })
	if got := curl(on, 0); got != "401" {
		t.Errorf("root on a box: %s", got)
	}
	if got := curl(on, 65534); got != "200" {
		t.Errorf("the kiosk's user: %s", got)
	}
}

// What knowing the screen costs each loopback connection.
func BenchmarkLookUp(b *testing.B) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	theirs, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer theirs.Close()
	ours, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer ours.Close()
	for b.Loop() {
		if _, err := lookUp(ours, func(uint32) bool { return false }); err != nil {
			b.Fatal(err)
		}
	}
}

// A body that says no length is cut off at the limit all the same.
func TestBodyWithoutLength(t *testing.T) {
	b := newBox(t)
	host := strings.TrimPrefix(b.url, "http://")
	piece := strings.Repeat("x", 0x1000)
	var text strings.Builder
	text.WriteString("PUT /api/vault/KEY HTTP/1.1\r\nHost: " + host + "\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
	for range smallBody/len(piece) + 1 {
		text.WriteString("1000\r\n" + piece + "\r\n")
	}
	text.WriteString("0\r\n\r\n")
	if got := b.raw(text.String()); got.status != 413 || !strings.Contains(got.body, "larger than 64 KB") {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// A log that can't be written is told by health, and by a 503 to who wants work.
func TestBrokenLog(t *testing.T) {
	b := newBox(t)
	b.srv.opt.Broken = func() error { return errors.New("no space left on device") }
	var h Health
	b.into(req{as: none, method: "GET", path: "/api/health"}, &h)
	if h.OK || !strings.Contains(h.Error, "no space left on device") || h.LogDamaged {
		t.Errorf("%+v", h)
	}
	b.srv.opt.Broken = func() error {
		return fmt.Errorf("the action log is damaged: %w", &actionlog.DamageError{First: 7, Last: 7, Kind: "changed"})
	}
	b.into(req{as: none, method: "GET", path: "/api/health"}, &h)
	if h.OK || !strings.Contains(h.Error, "line 7 of log.jsonl is changed") || !h.LogDamaged {
		t.Errorf("%+v", h)
	}
	path := b.srv.routes.paths["/api/pause"]
	broken := *path.by["POST"]
	broken.Do = func(*Server, *call) error { return errors.New("write log.jsonl: no space left") }
	path.by["POST"] = &broken
	got := b.do(req{as: screen, method: "POST", path: "/api/pause", body: "{}"})
	if got.status != 503 || !strings.Contains(got.body, "takes no work") {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// A wrong token is told what it could have been: only one of a window's form that its
// window has ended.
func TestWrongTokensAreTold(t *testing.T) {
	b := newBox(t)
	for token, says := range map[string]string{
		"wrong": "this token is not known to the box", "w": "this token is not known to the box", "dwrong": "this token is not known to the box",
		"w" + strings.Repeat("A", 43): "this window has expired",
	} {
		got := b.do(req{as: none, method: "GET", path: "/api/box", header: map[string]string{"Authorization": "Bearer " + token}})
		if got.status != 401 || !strings.Contains(got.body, says) {
			t.Errorf("%s: %d %s, want %q", token, got.status, got.body, says)
		}
	}
}

// What a full disk is told can be done on this box.
func TestDiskFullSaysWhatToDo(t *testing.T) {
	got := asError(fmt.Errorf("writing: %w", syscall.ENOSPC))
	if got == nil || got.Status != 507 || !strings.Contains(got.Sentence, "box task undo") || !strings.Contains(got.Sentence, "keepDays") {
		t.Errorf("%+v", got)
	}
}

package api

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"gurtos/core/app"
)

// The specification's own words.
const sandboxPolicy = "sandbox allow-scripts allow-forms allow-popups allow-popups-to-escape-sandbox allow-modals allow-downloads allow-top-navigation-by-user-activation"

// Every answer beneath /t/ and /kit/ that a browser could make a document of carries the
// sandbox, whoever asks and whatever comes of it; an app's own answer of a type that runs
// nothing is left alone.
func TestSandboxIsOnEveryAnswer(t *testing.T) {
	b := newBox(t)
	page := "<!doctype html><p>x"
	add := func(path string, h http.HandlerFunc) { b.apps.routes["shop"]["GET "+path] = h }
	for _, kind := range []string{
		"text/html", "TEXT/HTML; charset=utf-8", "text/html;charset=utf-8;x=y", "text/html, application/json", "application/json, text/html",
		"application/xhtml+xml", "image/svg+xml", "text/xml", "application/xml", "application/atom+xml", "application/rss+xml; charset=utf-8",
		"multipart/x-mixed-replace; boundary=x", "message/rfc822", "x", "text/plain text/html", "application/json\ttext/html", "*/*", "",
		"text/html ; charset=\"utf-8\"", "application/json;,text/html", "text/vtt", "text/xsl", "application/mathml+xml", "image/svg+xml;charset=utf-8",
	} {
		add("/type/"+fmt.Sprintf("%x", kind), answers(kind, 200, page))
	}
	for status := range 400 {
		if http.StatusText(status+200) != "" {
			add(fmt.Sprintf("/status/%d", status+200), func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				w.Header().Set("Location", "./x")
				w.WriteHeader(status + 200)
			})
		}
	}
	add("/typeless", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, page) })
	add("/two", func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{"application/json", "text/html"}
		io.WriteString(w, page)
	})
	add("/takes-it-off", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Del("Content-Security-Policy")
		w.Header()["Content-Security-Policy"] = nil
		w.Header()["content-security-policy"] = []string{"default-src *"}
		io.WriteString(w, page)
		w.Header().Del("Content-Security-Policy")
	})
	add("/packed", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Encoding", "gzip")
		io.WriteString(w, page)
	})
	add("/early", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, page)
	})
	paths := []string{
		"/t", "/t/", "/t/none/", "/t/other/", "/t/shop", "/t/shop/nothing", "//t/shop/", "/./t/shop/", "/x/../t/shop/", "/t/shop/../../t/none/x", "/%74/shop/", "/t/%2e%2e/x", "/t/shop/%zz",
		"/kit", "/kit/", "/kit/none", "/kit/page.js", "/kit/gurtos.js", "/kit/gurtos.css", "/kit/../kit/page.js", "/kit/page.js/x",
	}
	made := map[string]bool{} // of the app's own answers
	for key := range b.apps.routes["shop"] {
		if path, ok := strings.CutPrefix(key, "GET /"); ok && !slices.Contains([]string{"json", "pass", "open", "who"}, path) {
			paths = append(paths, "/t/shop/"+path)
			made["/t/shop/"+path] = path != ""
		}
	}
	slices.Sort(paths)
	own := strings.TrimPrefix(b.url, "http://")
	for _, path := range paths {
		for _, head := range []string{
			"", "X-Forwarded-For: 192.0.2.9\r\n", "Host: evil.example\r\n", "Origin: https://evil.example\r\n", "Origin: null\r\n", "Accept: text/html\r\nSec-Fetch-Mode: navigate\r\n",
			"Authorization: Basic eDp5\r\n", "Authorization: Bearer " + b.token[owner] + "\r\n", "Service-Worker: script\r\n",
		} {
			for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS", "TRACE"} {
				if made[path] && (head != "" || method != "GET") {
					continue
				}
				if !strings.HasPrefix(head, "Host:") {
					head = "Host: " + own + "\r\n" + head
				}
				got := b.raw(method + " " + path + " HTTP/1.1\r\n" + head + "Connection: close\r\nContent-Length: 0\r\n\r\n")
				if strings.Contains(path, "%zz") && got.status == 400 {
					continue // net/http's own, of a request that is none
				}
				policies := got.header["Content-Security-Policy"]
				if len(policies) == 0 || policies[0] != sandboxPolicy {
					t.Errorf("%s %s %q: %d with %q", method, path, head, got.status, policies)
				}
				if got.header.Get("Referrer-Policy") != "no-referrer" || got.header.Get("X-Content-Type-Options") != "nosniff" {
					t.Errorf("%s %s: %v", method, path, got.header)
				}
			}
		}
	}
	for _, kind := range []string{
		"application/json", "application/json; charset=utf-8", "Application/JSON;charset=UTF-8", "application/problem+json", "text/plain", "text/plain; charset=utf-8", "text/css",
		"text/javascript", "application/javascript", "text/event-stream", "text/csv", "image/png", "image/webp", "application/pdf", "application/octet-stream", "font/woff2", "video/mp4", "audio/mpeg",
	} {
		b.apps.routes["shop"]["GET /inert"] = answers(kind, 200, "{}")
		got := b.do(req{as: screen, method: "GET", path: "/t/shop/inert"})
		if p := got.header["Content-Security-Policy"]; p != nil || got.header.Get("Content-Type") != kind || got.body != "{}" || got.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %q, %s", kind, p, got.body)
		}
	}
	for _, status := range []int{200, 201, 302, 399, 400, 404, 413, 500, 503} {
		b.apps.routes["shop"]["GET /inert"] = answers("application/json", status, "{}")
		got := b.do(req{as: screen, method: "GET", path: "/t/shop/inert"})
		if p := got.header["Content-Security-Policy"]; (p != nil) != (status >= 400) || got.status != status || got.body != "{}" {
			t.Errorf("%d: %d %q, %s", status, got.status, p, got.body)
		}
	}
	for _, path := range []string{"/", "/api/health", "/tx", "/kitx", "/api/t/"} {
		if p := b.do(req{as: screen, method: "GET", path: path}).header.Get("Content-Security-Policy"); strings.Contains(p, "sandbox") {
			t.Errorf("%s has %q", path, p)
		}
	}
}

// A page that may have the box's own origin has it for its HTML alone, and only by the
// route that the app lists.
func TestOwnOrigin(t *testing.T) {
	b := newBox(t)
	pass := func(h http.HandlerFunc) res {
		t.Helper()
		b.apps.routes["shop"]["GET /pass"] = h
		return b.do(req{as: screen, method: "GET", path: "/t/shop/pass"})
	}
	got := pass(answers("text/html; charset=utf-8", 200, "<!doctype html><title>Pass</title>"))
	if p := got.header["Content-Security-Policy"]; p != nil || got.header.Get("Cache-Control") != "no-store" || !strings.Contains(got.body, "/kit/page.js") {
		t.Errorf("%q %v %s", p, got.header, got.body)
	}
	got = pass(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Security-Policy", "default-src 'self'")
		io.WriteString(w, "<p>")
	})
	if p := got.header["Content-Security-Policy"]; len(p) != 1 || p[0] != "default-src 'self'" {
		t.Errorf("its own policy: %q", p)
	}
	for _, kind := range []string{"image/svg+xml", "application/xhtml+xml", "text/xml", "text/html, text/html", ""} {
		if p := pass(answers(kind, 200, "<p>")).header["Content-Security-Policy"]; len(p) != 1 || p[0] != sandboxPolicy {
			t.Errorf("%q: %q", kind, p)
		}
	}
	for _, r := range []req{{as: none, method: "GET", path: "/t/shop/pass"}, {as: screen, method: "POST", path: "/t/shop/pass"}, {as: screen, method: "GET", path: "/t/shop/pass/"}} {
		if got := b.do(r); got.header.Get("Content-Security-Policy") != sandboxPolicy {
			t.Errorf("%s %s: %d %q", r.method, r.path, got.status, got.header)
		}
	}
}

// Headers by which an app's answer would reach beyond it stay behind.
func TestHeadersOfApps(t *testing.T) {
	b := newBox(t)
	stay := []string{
		"Set-Cookie", "Set-Cookie2", "Clear-Site-Data", "Service-Worker-Allowed", "Strict-Transport-Security", "Public-Key-Pins", "Alt-Svc", "NEL", "Report-To", "Reporting-Endpoints",
		"Accept-CH", "Critical-CH", "Origin-Agent-Cluster", "Set-Login", "Use-As-Dictionary", "Sec-Session-Registration", "Secure-Session-Registration", "Secure-Session-Challenge",
		"Refresh", "Link", "Speculation-Rules", "Referrer-Policy", "X-Content-Type-Options", "WWW-Authenticate", "Authentication-Info", "Proxy-Authenticate",
		"Connection", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "Proxy-Connection",
	}
	b.apps.routes["shop"]["GET /"] = func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		for _, name := range stay {
			h.Set(name, "x=y")
		}
		h.Set("Access-Control-Allow-Origin", "https://evil.example")
		h.Set("Access-Control-Allow-Credentials", "true")
		h.Set("X-Own", "kept")
		h.Set("Cache-Control", "max-age=60")
		h.Set("Content-Type", "text/html")
		h.Add("Content-Security-Policy", "default-src 'self'")
		h.Add("Content-Security-Policy", "img-src *")
		h.Set("Vary", "Accept")
		io.WriteString(w, "<p>")
	}
	got := b.do(req{method: "GET", path: "/t/shop/", header: asWindow(b.opened(screen, "shop"))})
	for _, name := range stay {
		if v := got.header[http.CanonicalHeaderKey(name)]; slices.Contains(v, "x=y") {
			t.Errorf("%s: %q came through", name, v)
		}
	}
	if len(stay) != len(notPassed) {
		t.Errorf("%d headers are tried, and %d stay behind", len(stay), len(notPassed))
	}
	for name, want := range map[string][]string{
		"X-Own": {"kept"}, "Cache-Control": {"max-age=60"}, "Content-Security-Policy": {sandboxPolicy, "default-src 'self'", "img-src *"},
		"Access-Control-Allow-Origin": {"null"}, "Access-Control-Allow-Credentials": nil, "Referrer-Policy": {"no-referrer"}, "Vary": {"Origin", "Accept"},
	} {
		if !slices.Equal(got.header[name], want) {
			t.Errorf("%s: %q, not %q", name, got.header[name], want)
		}
	}
}

// Who may read an answer: a page without an origin those of /t/ and /kit/, and of the rest
// what it sent a token for. No other site's page any.
func TestSharing(t *testing.T) {
	b := newBox(t)
	token := b.opened(screen, "shop")
	for _, c := range []struct {
		name, method, path string
		header             map[string]string
		status             int
		shared             bool
	}{
		{"own route", "GET", "/t/shop/json", asWindow(token), 200, true},
		{"own route by the address", "GET", "/t/shop/json?access_token=" + token, map[string]string{"Origin": "null"}, 200, true},
		{"no token", "GET", "/t/shop/json", map[string]string{"Origin": "null"}, 401, true},
		{"open route", "GET", "/t/shop/open", map[string]string{"Origin": "null"}, 200, true},
		{"kit", "GET", "/kit/gurtos.js", map[string]string{"Origin": "null"}, 200, true},
		{"tasks", "GET", "/api/tasks", asWindow(token), 200, true},
		{"refused", "GET", "/api/vault", asWindow(token), 403, true},
		{"wrong token", "GET", "/api/tasks", asWindow(token + "x"), 401, true},
		{"health, without a token", "GET", "/api/health", map[string]string{"Origin": "null"}, 200, false},
		{"tasks, without a token", "GET", "/api/tasks", map[string]string{"Origin": "null"}, 401, false},
		{"no origin told", "GET", "/t/shop/open", map[string]string{"Sec-Fetch-Site": "cross-site"}, 200, false},
		{"another site", "GET", "/t/shop/open", map[string]string{"Origin": "https://evil.example"}, 403, false},
		{"another site, with the token", "GET", "/t/shop/json", map[string]string{"Origin": "https://evil.example", "Authorization": "Bearer " + token}, 403, false},
		{"another site, the kit", "GET", "/kit/gurtos.js", map[string]string{"Origin": "https://evil.example"}, 200, false},
		{"two origins", "GET", "/t/shop/open", map[string]string{"Origin": "null, null"}, 403, false},
		{"asks first", "OPTIONS", "/t/shop/x", map[string]string{"Origin": "null", "Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "authorization,x-own"}, 204, true},
		{"asks first, tasks", "OPTIONS", "/api/tasks", map[string]string{"Origin": "null", "Access-Control-Request-Method": "GET"}, 204, true},
		{"another site asks first", "OPTIONS", "/t/shop/x", map[string]string{"Origin": "https://evil.example", "Access-Control-Request-Method": "PUT"}, 403, false},
		{"another site asks first, the kit", "OPTIONS", "/kit/page.js", map[string]string{"Origin": "https://evil.example", "Access-Control-Request-Method": "GET"}, 204, false},
	} {
		got := b.do(req{as: screen, method: c.method, path: c.path, header: c.header})
		origin := got.header.Get("Access-Control-Allow-Origin")
		if got.status != c.status || (origin == "null") != c.shared || !c.shared && origin != "" {
			t.Errorf("%s: %d, allowed to %q", c.name, got.status, origin)
		}
		if got.header["Access-Control-Allow-Credentials"] != nil {
			t.Errorf("%s: with credentials", c.name)
		}
		if c.method == "OPTIONS" && c.shared {
			if a := got.header.Get("Access-Control-Allow-Headers"); a != "Authorization, *" {
				t.Errorf("%s: headers %q", c.name, a)
			}
			if m := got.header.Get("Access-Control-Allow-Methods"); !strings.Contains(m, c.header["Access-Control-Request-Method"]) {
				t.Errorf("%s: methods %q", c.name, m)
			}
		}
	}
}

// A browser that has its token from the address keeps it on the way to another route of
// the app, and takes it nowhere else. An app leads nobody to other places of the box:
// where the desktop opens a window, the browser would go there as the desktop.
func TestRedirects(t *testing.T) {
	b := newBox(t)
	token := b.opened(screen, "shop")
	var to string
	b.apps.routes["shop"]["GET /go"] = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusSeeOther)
	}
	own := strings.TrimPrefix(b.url, "http://")
	_, port, _ := strings.Cut(own, ":")
	for _, c := range []struct{ to, want string }{ // "" is refused
		{"./done", "/t/shop/done?access_token=" + token},
		{"done?a=%20b#c", "/t/shop/done?a=%20b&access_token=" + token + "#c"},
		{"/t/shop/", "/t/shop/?access_token=" + token},
		{b.url + "/t/shop/x", "/t/shop/x?access_token=" + token},
		{"./done?access_token=own", "./done?access_token=own"},
		{"https://elsewhere.example/t/shop/", "https://elsewhere.example/t/shop/"},
		{"//elsewhere.example/t/shop/", "//elsewhere.example/t/shop/"},
		{"http://192.0.2.1:" + port + "/t/other/", "http://192.0.2.1:" + port + "/t/other/"},
		{"http://[2001:db8::1]/", "http://[2001:db8::1]/"},
		{"mailto:ada@example.com", ""}, {"javascript:alert(1)", ""},
		{"http://127.1:" + port + "/t/other/", ""}, {"http://2130706433:" + port + "/", ""}, {"http://0x7f.1:" + port + "/", ""}, {"http://127.0.0.1.:" + port + "/", ""},
		{"http://１２７.0.0.1:" + port + "/", ""}, {"http://127%2e0%2e0%2e1:" + port + "/", ""}, {"HTTP://" + own + "/t/other/", ""},
		{"/", ""}, {"/kit/page.js", ""}, {"/t/other/", ""}, {"../other/", ""}, {"/t/shop/../other/", ""}, {"/t/shop/%2e%2e/other/", ""}, {"/t/shopping/", ""}, {"/api/tasks", ""},
		{b.url + "/t/other/", ""}, {"//" + own + "/t/other/", ""}, {"http://x@" + own + "/t/shop/", ""}, {"http:/t/other/", ""}, {"http:other", ""},
		{"%zz", ""}, {"\\t\\other\\", ""}, {"..\\other\\", ""}, {"/t/o\tther/", ""}, {"/t /other/", ""},
	} {
		to = c.to
		for name, r := range map[string]req{
			"address": {as: none, method: "GET", path: "/t/shop/go?access_token=" + token}, "header": {method: "GET", path: "/t/shop/go", header: asWindow(token)}, "connection": {as: screen, method: "GET", path: "/t/shop/go"},
		} {
			got := b.do(r)
			l := got.header.Get("Location")
			switch {
			case c.want == "":
				if got.status != 500 || l != "" || !strings.Contains(got.body, "the app's route leads to") {
					t.Errorf("to %q, right by %s: %d to %q", c.to, name, got.status, l)
				}
			case name == "address" && l != c.want, name != "address" && l != c.to:
				t.Errorf("to %q, right by %s: %q, not %q", c.to, name, l, c.want)
			}
		}
	}
}

// The script stands where a browser runs it first and still knows the document's type,
// however the page comes in.
func TestScriptIsFirst(t *testing.T) {
	const script = `<script src="/kit/page.js?v=1"></script>`
	for _, c := range []struct{ before, after string }{
		{"", ""},
		{"", "<h1>Hello</h1>"},
		{"", "text"},
		{"", "<"},
		{"<!doctype html>", "<html lang=en><head><meta charset=utf-8>"},
		{"<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\" \"x\">", "\n<title>x"},
		{"\n \t<!doctype html>", ""},
		{"<!-- one --><!-- two\n--> <!doctype html>", "<p>"},
		{"<!--><!doctype html>", "<p>"},
		{"<!---><!doctype html>", "<p>"},
		{"<!-- a --!><!doctype html>", "<p>"},
		{"<!-- a > <!doctype x> --><!doctype html>", "<p>"},
		{"<?xml version='1.0'?><!doctype html>", "<p>"},
		{"<!x><!doctype html>", "<p>"},
		{"", "<!-- a comment alone --><p>"},
		{"", "<!-- never ends <!doctype html>"},
		{"", "<!doctype html"},
		{"", "<p><!doctype html>"},
		{"", "<!-"},
		{"", "<!doc"},
		{"\xef\xbb\xbf", "<p>ä"},
		{"\xef\xbb\xbf<!doctype html>", "<p>ä"},
	} {
		whole := c.before + c.after
		for _, step := range []int{1, 2, 3, 7, len(whole) + 1} {
			p := &page{script: script}
			var out []byte
			for rest := []byte(whole); len(rest) > 0; {
				n := min(step, len(rest))
				out = append(out, p.add(slices.Clone(rest[:n]))...)
				rest = rest[n:]
			}
			out = append(out, p.rest()...)
			if want := c.before + script + c.after; string(out) != want {
				t.Errorf("%q in pieces of %d: %q", whole, step, out)
			}
		}
	}
	long := "<!--" + strings.Repeat("x", mostHeld)
	p := &page{script: script}
	if out := string(p.add([]byte(long))); out != script+long {
		t.Error("a page that says nothing for long is held for ever")
	}
}

func TestScriptInWidePages(t *testing.T) {
	wide := func(s string, big bool) string {
		var b strings.Builder
		for _, u := range utf16.Encode([]rune(s)) {
			if big {
				b.WriteString(string([]byte{byte(u >> 8), byte(u)}))
			} else {
				b.WriteString(string([]byte{byte(u), byte(u >> 8)}))
			}
		}
		return b.String()
	}
	for _, c := range []struct {
		name, charset, mark string
		big                 bool
	}{
		{"marked little", "", "\ufeff", false}, {"marked big", "", "\ufeff", true}, {"said", "utf-16", "", false}, {"said little", "utf-16le", "", false}, {"said big", "utf-16be", "", true},
		{"the mark counts", "utf-8", "\ufeff", true},
	} {
		p := &page{script: "<s>", charset: c.charset}
		out := string(p.add([]byte(wide(c.mark+"<!doctype html><p>ä", c.big)))) + string(p.rest())
		if want := wide(c.mark+"<!doctype html><s><p>ä", c.big); out != want {
			t.Errorf("%s: %q", c.name, out)
		}
	}
}

// Only pages get the script, and all of them.
func TestWhichAnswersGetTheScript(t *testing.T) {
	b := newBox(t)
	for _, c := range []struct {
		method, kind string
		status       int
		has          bool
	}{
		{"GET", "text/html", 200, true}, {"GET", "text/html; charset=utf-8", 404, true}, {"POST", "TEXT/HTML", 500, true}, {"GET", "text/html", 206, false},
		{"HEAD", "text/html", 200, false}, {"GET", "application/json", 200, false}, {"GET", "image/svg+xml", 200, false}, {"GET", "application/xhtml+xml", 200, false}, {"GET", "text/plain", 200, false},
	} {
		b.apps.routes["shop"][c.method+" /page"] = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "4")
			answers(c.kind, c.status, "<p>x")(w, nil)
		}
		got := b.do(req{as: screen, method: c.method, path: "/t/shop/page"})
		want := "<p>x"
		if c.has {
			want = b.srv.script + want
		}
		if c.method == "HEAD" {
			want = ""
		}
		if got.status != c.status || got.body != want {
			t.Errorf("%s %s %d: %d %q", c.method, c.kind, c.status, got.status, got.body)
		}
	}
	if s := b.srv.script; !strings.HasPrefix(s, `<script src="/kit/page.js?v=`) || len(s) > 100 {
		t.Errorf("%q would push what a page says of its letters out of its first 1024 bytes", s)
	}
	packed := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "br")
		answers("text/html", 200, "x")(w, nil)
	}
	b.apps.routes["shop"]["GET /page"] = packed
	if got := b.do(req{as: screen, method: "GET", path: "/t/shop/page"}); got.status != 500 || !strings.Contains(got.body, "compressed (br)") || got.header.Get("Content-Encoding") != "" {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// Pieces of a stream arrive as the app sends them.
func TestStreamOfAnApp(t *testing.T) {
	b := newBox(t)
	next := make(chan string)
	b.apps.routes["shop"]["GET /stream"] = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for piece := range next {
			io.WriteString(w, piece)
			http.NewResponseController(w).Flush()
		}
	}
	hr, err := http.NewRequestWithContext(t.Context(), "GET", b.url+"/t/shop/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() { next <- "data: 0\n\n" }()
	a, err := http.DefaultTransport.RoundTrip(hr)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	for i := range 3 {
		want := fmt.Sprintf("data: %d\n\n", i)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(a.Body, got); err != nil || string(got) != want {
			t.Fatalf("%q, %v", got, err)
		}
		if i < 2 {
			next <- fmt.Sprintf("data: %d\n\n", i+1)
		}
	}
	close(next)
}

// A refusal under /t/ is a page for a browser that wants one, with the sentence and, where
// the token was missing, the way back to it; for all others it is JSON.
func TestRefusalAsPage(t *testing.T) {
	b := newBox(t)
	browser := map[string]string{"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "cross-site", "Accept": "text/html"}
	b.apps.info["odd"] = b.apps.info["other"]
	got := b.do(req{as: none, method: "GET", path: "/t/shop/", header: browser})
	if got.status != 401 || !strings.HasPrefix(got.header.Get("Content-Type"), "text/html") || !strings.Contains(got.body, `data-missing="token"`) || got.header.Get("Content-Security-Policy") != sandboxPolicy {
		t.Errorf("%d %s", got.status, got.body)
	}
	got = b.do(req{as: owner, method: "GET", path: "/t/shop/%3Cscript%3Ealert(1)%3C%2Fscript%3E", header: browser})
	if got.status != 404 || strings.Contains(got.body, "<script>alert") || !strings.Contains(got.body, "&lt;script&gt;alert(1)") || strings.Contains(got.body, "data-missing") {
		t.Errorf("%d %s", got.status, got.body)
	}
	// What the box refuses in an app's place, such as what a route threw, too.
	b.apps.serve = func(w http.ResponseWriter, _ *http.Request) {
		w.(app.Refuser).Refuse(503, "shop: it <ended>. It starts again in 9 seconds")
	}
	window := b.opened(owner, "shop")
	got = b.do(req{as: none, method: "GET", path: "/t/shop/?access_token=" + window, header: browser})
	if got.status != 503 || !strings.HasPrefix(got.header.Get("Content-Type"), "text/html") || !strings.Contains(got.body, "shop: it &lt;ended&gt;. It starts again") || got.header.Get("Content-Security-Policy") != sandboxPolicy {
		t.Errorf("%d %s", got.status, got.body)
	}
	got = b.do(req{as: none, method: "GET", path: "/t/shop/?access_token=" + window})
	if got.status != 503 || got.header.Get("Content-Type") != "application/json" || !strings.Contains(got.body, `{"error":"shop: it`) || got.header.Get("Content-Security-Policy") != sandboxPolicy {
		t.Errorf("%d %s", got.status, got.body)
	}
	b.apps.serve = nil
	for _, r := range []req{
		{as: none, method: "GET", path: "/t/shop/", header: map[string]string{"Accept": "*/*"}}, {as: none, method: "POST", path: "/t/shop/who", header: browser},
		{as: none, method: "GET", path: "/api/tasks", header: browser},
	} {
		if got := b.do(r); got.status != 401 || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %d %s", r.method, r.path, got.status, got.body)
		}
	}
}

func TestKit(t *testing.T) {
	b := newBox(t)
	got := b.do(req{as: none, method: "GET", path: "/kit/page.js"})
	if got.status != 200 || got.header.Get("Content-Type") != "text/javascript; charset=utf-8" || got.header.Get("Cache-Control") != "no-cache" {
		t.Errorf("%d %v", got.status, got.header)
	}
	if again := b.do(req{as: none, method: "GET", path: "/kit/page.js", header: map[string]string{"If-None-Match": got.header.Get("ETag")}}); again.status != 304 || again.body != "" {
		t.Errorf("%d %q", again.status, again.body)
	}
	_, rest, _ := strings.Cut(b.srv.script, `src="`)
	address, _, _ := strings.Cut(rest, `"`)
	if kept := b.do(req{as: none, method: "GET", path: address}); !strings.Contains(kept.header.Get("Cache-Control"), "immutable") || kept.body != got.body {
		t.Errorf("%s: %v", address, kept.header)
	}
	for _, name := range []string{"page.js", "gurtos.js", "gurtos.css"} {
		if got := b.do(req{as: none, method: "HEAD", path: "/kit/" + name}); got.status != 200 || got.body != "" {
			t.Errorf("%s: %d", name, got.status)
		}
	}
}

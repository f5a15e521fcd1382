package api

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"gurtos/core/app"
)

// sandboxed is what keeps an app's page out of the box's own origin. It is a header and
// not the frame's attribute alone, since a window that such a page opens escapes the
// frame's sandbox but not its own.
const sandboxed = "sandbox allow-scripts allow-forms allow-popups allow-popups-to-escape-sandbox allow-modals allow-downloads allow-top-navigation-by-user-activation"

// foreign says whether an address's answers are made by an app or for its pages: all of
// them get the sandbox, whatever comes of the request. A path that is not clean counts
// as what it would be, and as what it is.
func foreign(p string) bool {
	for _, at := range []string{p, path.Clean("/" + p)} {
		for _, prefix := range []string{"/t", "/kit"} {
			if at == prefix || strings.HasPrefix(at, prefix+"/") {
				return true
			}
		}
	}
	return false
}

// inert are the types of which a browser makes no document that runs anything; the
// answer of an app that says exactly one of them, and is no error, is passed on as it is.
// A type that is missing, unknown or spelled in another way is not among them.
var inert = regexp.MustCompile(`^(?i:application/(json|[a-z0-9.-]+\+json|javascript|octet-stream|pdf|wasm|zip|gzip|x-ndjson|x-www-form-urlencoded)|` +
	`text/(plain|css|csv|javascript|event-stream|markdown|calendar)|` +
	`image/(png|jpeg|gif|webp|avif|bmp|x-icon|vnd\.microsoft\.icon)|` +
	`audio/[a-z0-9.-]+|video/[a-z0-9.-]+|font/[a-z0-9.-]+)(?i: *; *charset="?[a-z0-9_-]+"?)?$`)

// htmlType is a page that gets the script.
var htmlType = regexp.MustCompile(`^(?i:text/html)(?i: *; *charset="?([a-z0-9_-]+)"?)?$`)

// notPassed are headers of an app's answer that would reach beyond it: into the box's
// origin, which every app's address shares as a browser sees it, or into this
// connection. Those that begin with Access-Control- are the box's to say too.
var notPassed = []string{
	"Set-Cookie", "Set-Cookie2", "Clear-Site-Data", "Service-Worker-Allowed", "Strict-Transport-Security", "Public-Key-Pins",
	"Alt-Svc", "Nel", "Report-To", "Reporting-Endpoints", "Accept-Ch", "Critical-Ch", "Origin-Agent-Cluster", "Set-Login", "Use-As-Dictionary",
	"Sec-Session-Registration", "Secure-Session-Registration", "Secure-Session-Challenge",
	"Refresh", "Link", "Speculation-Rules", // these make a browser load or go to an address of the box
	"Referrer-Policy", "X-Content-Type-Options", "Www-Authenticate", "Authentication-Info",
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Proxy-Connection",
}

// frame is where an app's answer is written: it lets through what an app may say, and
// puts the script into its pages.
type frame struct {
	s    *Server
	c    *call
	head http.Header // as the app wants it
	sent bool
	into *page // an HTML page on its way, nil for anything else
	drop bool  // the answer was refused, and the box has said so
}

func (f *frame) Header() http.Header { return f.head }

func (f *frame) WriteHeader(status int) {
	if f.sent || status < 200 { // what an early hint names would be loaded for the page
		return
	}
	f.sent = true
	types := f.head["Content-Type"]
	kind := ""
	if len(types) == 1 {
		kind = strings.TrimSpace(types[0])
	}
	html := htmlType.FindStringSubmatch(kind)
	to, err := f.location()
	if err != nil {
		f.refuse(err)
		return
	}
	if packed := f.head.Get("Content-Encoding"); html != nil && packed != "" && packed != "identity" {
		f.refuse(fmt.Errorf("the app's page came compressed (%s), and the box can't put its script into such a page: send it as it is, without Content-Encoding", shown(packed)))
		return
	}
	h := f.c.w.Header()
	f.pass(h)
	if to != "" {
		h.Set("Location", to)
	}
	if kind == "" {
		h["Content-Type"] = types // a missing one keeps net/http from guessing
	}
	switch {
	case html != nil && f.c.appRoute.OwnOrigin:
		h.Set("Cache-Control", "no-store") // such a page must not outlive the app's word for it
		f.free(h)
	case inert.MatchString(kind) && status < 400: // an error is never what a page needs to be without it
		f.free(h)
	}
	if html != nil && f.s.script != "" && status != http.StatusNoContent && status != http.StatusNotModified && status != http.StatusPartialContent {
		f.into = &page{script: f.s.script, charset: strings.ToLower(html[1])}
		h.Del("Content-Length")
	}
	f.c.w.WriteHeader(status)
}

var _ app.Refuser = (*frame)(nil)

// Refuse answers in the app's place, as the box does everywhere: a browser that opened a
// page gets one.
func (f *frame) Refuse(status int, sentence string) {
	f.sent, f.drop = true, true
	f.s.fail(f.c, &Error{Status: status, Sentence: sentence})
}

// refuse does so for an answer that can't be passed on.
func (f *frame) refuse(why error) { f.Refuse(http.StatusInternalServerError, why.Error()) }

// pass copies what an app may say of its answer.
func (f *frame) pass(h http.Header) {
	for name, values := range f.head {
		switch {
		case slices.Contains(notPassed, name), strings.HasPrefix(name, "Access-Control-"), name == "Location":
		case name == "Vary":
			h[name] = append(h[name], values...)
		case name == "Content-Security-Policy":
			h[name] = append([]string{sandboxed}, values...) // a browser holds a page to all of them
		default:
			h[name] = values
		}
	}
}

// free takes the box's sandbox off an answer, and leaves the app's own policies.
func (f *frame) free(h http.Header) {
	h.Del("Content-Security-Policy")
	if own := f.head["Content-Security-Policy"]; own != nil {
		h["Content-Security-Policy"] = own
	}
}

// plainHost says that a browser takes a host for no other than it reads: 127.1 and its
// like are addresses to it, and letters of elsewhere or behind % become ours.
func plainHost(name string) bool {
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	last := name[strings.LastIndexByte(strings.TrimSuffix(name, "."), '.')+1:]
	return hostLetters.MatchString(name) && last != "" && !('0' <= last[0] && last[0] <= '9')
}

var hostLetters = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// location is where the answer leads, "" for nowhere. A browser that has its token from
// the address keeps it on its way to another route of the app. The rest of the box is no
// place for an app to lead to: the desktop's own request would be led there, with all of
// the desktop's right.
func (f *frame) location() (string, error) {
	to := f.head.Get("Location")
	if to == "" {
		return "", nil
	}
	ref, err := url.Parse(to)
	if err != nil || strings.ContainsAny(to, "\\\t ") { // which a browser reads in a way of its own
		return "", fmt.Errorf("the app's route leads to %s, which is no address", shown(to))
	}
	u := f.c.r.URL.ResolveReference(ref)
	scheme := u.Scheme
	if scheme == "" {
		scheme = "http"
	}
	switch {
	case u.Host != "" && !plainHost(u.Hostname()):
		return "", fmt.Errorf("the app's route leads to %s, which is no host's usual spelling", shown(to))
	case u.Host != "" && !sameHost(scheme+"://"+u.Host, f.c.r.Host):
		return to, nil
	case u.User != nil, u.Opaque != "", !strings.HasPrefix(path.Clean(u.Path)+"/", "/t/"+f.c.app.Name+"/"):
		return "", fmt.Errorf("the app's route leads to %s: it may lead to other routes of the app, or away from the box", shown(to))
	case f.c.inQuery == "", u.Query().Has("access_token"):
		return to, nil
	}
	return withToken(u, f.c.inQuery), nil
}

func (f *frame) Write(b []byte) (int, error) {
	f.WriteHeader(http.StatusOK)
	if f.drop {
		return len(b), nil
	}
	out := b
	if f.into != nil {
		out = f.into.add(b)
	}
	if len(out) == 0 && len(b) > 0 {
		return len(b), nil // it waits for more
	}
	if _, err := f.c.w.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}

// FlushError sends what is there, but for the beginning of a page of which it isn't known
// yet where the script goes.
func (f *frame) FlushError() error {
	f.WriteHeader(http.StatusOK)
	return f.c.w.flush()
}

func (f *frame) Flush() { f.FlushError() }

// end sends what was waited with.
func (f *frame) end() {
	f.WriteHeader(http.StatusOK)
	if f.into != nil && !f.drop {
		if rest := f.into.rest(); len(rest) > 0 {
			f.c.w.Write(rest) // a failed write is the client's loss
		}
	}
}

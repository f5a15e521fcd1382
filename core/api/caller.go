package api

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/core/device"
	windows "gurtos/core/window"
)

// who is a set of kinds of callers.
type who uint8

// The kinds of callers.
const (
	screen who = 1 << iota // the box's own screen, or root on its socket
	owner                  // a device paired as owner
	member                 // another paired device
	window                 // an app's page, with a narrowed right of its opener
	none                   // nobody known

	all = screen | owner | member | window | none
)

// caller is who makes a request.
type caller struct {
	kind   who
	device device.Device   // of owner and member, and of a window that one opened
	gone   <-chan struct{} // closed when the device is removed; nil for others

	app    string    // whose window it is
	opener who       // who opened the window: screen, owner or member
	until  time.Time // when the window ends
}

// Refusals that more than one place has.
var (
	bearer     = http.Header{"WWW-Authenticate": {"Bearer"}}
	errNoToken = &Error{
		Status:   http.StatusUnauthorized,
		Sentence: "this needs the token of a paired device. Pair one with the code that `box pair` shows on the box",
		header:   bearer,
	}
	errWindow = &Error{Status: http.StatusForbidden, Sentence: "an app's window may use only its own routes"}
)

// self is the kind by which the caller is known: of a window, its opener's.
func (c caller) self() who {
	if c.kind == window {
		return c.opener
	}
	return c.kind
}

// byConnection says that the right comes from the connection and not from a token.
func (c caller) byConnection() bool { return c.kind == screen }

// name is how the log calls the caller.
func (c caller) name() string {
	switch c.self() {
	case screen:
		return "box screen"
	case owner, member:
		return c.device.Name
	}
	return "nobody"
}

// header is the caller as apps are told in x-box-caller.
func (c caller) header() string {
	switch c.self() {
	case screen:
		return "screen"
	case owner:
		return "owner"
	case member:
		return "device:" + c.device.ID
	}
	return "none"
}

// link is what is known of a connection from the moment it was accepted.
type link struct {
	conn net.Conn
	unix bool // the box's own socket
	lan  bool // from an uplink: never the screen
	peer peer // at the other end, if its user may be the screen
	ok   bool // peer was found
}

type linkKey struct{}

// connected is the server's ConnContext.
func (s *Server) connected(ctx context.Context, conn net.Conn) context.Context {
	l := &link{conn: conn}
	switch c := conn.(type) {
	case *lanConn:
		l.lan = true
	case *net.UnixConn:
		l.unix = rootPeer(c)
		l.lan = !l.unix
	default:
		p, err := lookUp(conn, s.own)
		l.peer, l.ok = p, err == nil && s.screenUser(p.uid)
	}
	return context.WithValue(ctx, linkKey{}, l)
}

// rootPeer says whether root opened the other end of the box's socket.
func rootPeer(c *net.UnixConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	root := false
	err = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		root = err == nil && cred.Uid == 0
	})
	return err == nil && root
}

func (s *Server) screenUser(uid uint32) bool {
	return s.opt.KioskUID > 0 && uid == uint32(s.opt.KioskUID) || s.opt.RootIsScreen && uid == 0
}

// isScreen says whether the connection may speak for the screen; again is set
// before a change, when the kernel is asked anew.
func (s *Server) isScreen(l *link, again bool) bool {
	switch {
	case l == nil || l.lan:
		return false
	case l.unix:
		return true
	case !l.ok:
		return false
	case !again:
		return true
	}
	p, err := lookUp(l.conn, s.own)
	return err == nil && p == l.peer
}

// identify finds out who calls. A token that is given decides alone, so that a
// wrong one is refused even where the connection would do.
func (s *Server) identify(c *call, from origin) (caller, error) {
	r := c.r
	token, given, err := tokenOf(c)
	if given {
		c.share() // so that an app's page can read a refusal too
	}
	if err != nil {
		return caller{}, err
	}
	if given && windows.Formed(token) {
		return s.identifyWindow(token)
	}
	if given {
		d, gone, err := s.opt.Devices.Check(token)
		if errors.Is(err, device.ErrToken) {
			return caller{}, &Error{Status: http.StatusUnauthorized, Sentence: err.Error()}
		}
		if err != nil {
			return caller{}, err
		}
		kind := member
		if d.Role == device.Owner {
			kind = owner
		}
		return caller{kind: kind, device: d, gone: gone}, nil
	}
	l, _ := r.Context().Value(linkKey{}).(*link)
	if from == home && !forwarded(r) && s.isScreen(l, changes(r)) {
		return caller{kind: screen}, nil
	}
	return caller{kind: none}, nil
}

// changes says whether a request may change something.
func changes(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions
}

// identifyWindow finds the window of a token. While its app is off, it has no right.
func (s *Server) identifyWindow(token string) (caller, error) {
	win, err := s.windows.Check(token)
	if err == nil {
		if a, ok := s.opt.Apps.Find(win.App); !ok || !a.On {
			err = windows.ErrExpired
		}
	}
	if err != nil {
		return caller{}, &Error{Status: http.StatusUnauthorized, Sentence: err.Error(), header: bearer}
	}
	return caller{kind: window, device: win.By.device, gone: win.By.gone, app: win.App, opener: win.By.kind, until: win.Expires}, nil
}

// tokenOf takes the token out of a request, so that nothing behind it can log it or hand
// it on. What else stands in the query stays as it was written.
func tokenOf(c *call) (token string, given bool, err error) {
	r := c.r
	values := r.Header.Values("Authorization")
	r.Header.Del("Authorization")
	var inQuery, rest []string
	for pair := range strings.SplitSeq(r.URL.RawQuery, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if name, err := url.QueryUnescape(name); err != nil || name != "access_token" {
			rest = append(rest, pair)
			continue
		}
		value, _ = url.QueryUnescape(value) // "" of what is not well formed, which is no token
		inQuery = append(inQuery, value)
	}
	if len(inQuery) > 0 {
		r.URL.RawQuery = strings.Join(rest, "&")
		r.RequestURI = r.URL.RequestURI()
	}
	switch {
	case len(values)+len(inQuery) == 0:
		return "", false, nil
	case len(values)+len(inQuery) > 1:
		return "", true, &Error{Status: http.StatusUnauthorized, Sentence: "more than one token came with the request"}
	case len(inQuery) == 1:
		c.inQuery = inQuery[0]
		return inQuery[0], true, nil
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", true, &Error{Status: http.StatusUnauthorized, Sentence: "the Authorization header must be: Bearer <token>"}
	}
	return strings.TrimSpace(token), true, nil
}

// forwarded says that a proxy relayed the request: the connection is then the
// proxy's and not the caller's.
func forwarded(r *http.Request) bool {
	for name := range r.Header {
		if name == "Forwarded" || strings.HasPrefix(name, "X-Forwarded-") {
			return true
		}
	}
	return false
}

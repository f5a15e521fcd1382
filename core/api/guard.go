package api

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"
)

// origin says where the page that made a request came from.
type origin int

const (
	home    origin = iota // the box's own page, or no page at all
	nowhere               // a page without an origin, such as an app's: no right from its connection
)

// guard refuses what another site's page has a browser send.
func (s *Server) guard(r *http.Request) (origin, error) {
	l, _ := r.Context().Value(linkKey{}).(*link)
	if l == nil || !l.unix {
		if err := s.checkHost(r.Host, l); err != nil {
			return nowhere, err
		}
	}
	origins := r.Header.Values("Origin")
	site := r.Header.Get("Sec-Fetch-Site")
	switch {
	case len(origins) > 1:
		return nowhere, refuse("the request has more than one Origin header")
	case len(origins) == 1 && origins[0] == "null":
		return nowhere, nil
	case len(origins) == 1:
		if !sameHost(origins[0], r.Host) || site == "cross-site" || site == "same-site" {
			return nowhere, refuse("the request comes from a page of another site, %s", shown(origins[0]))
		}
		return home, nil
	case site == "cross-site" || site == "same-site":
		return nowhere, nil
	case site == "" || site == "same-origin" || site == "none":
		return home, nil
	default:
		return nowhere, nil
	}
}

func refuse(format string, a ...any) error {
	return &Error{Status: http.StatusForbidden, Sentence: fmt.Sprintf(format, a...)}
}

// sameHost says whether an Origin is that of the page the request itself is for.
func sameHost(origin, host string) bool {
	scheme, rest, ok := strings.Cut(origin, "://")
	if !ok {
		return false
	}
	port := map[string]string{"http": "80", "https": "443"}[scheme]
	if port == "" {
		return false
	}
	on, op := splitHost(rest)
	hn, hp := splitHost(host)
	return on != "" && strings.EqualFold(on, hn) && (op == hp || op == "" && hp == port || hp == "" && op == port)
}

// splitHost gives name and port of a Host header; the name of an IPv6 address
// loses its brackets.
func splitHost(host string) (name, port string) {
	if n, p, err := net.SplitHostPort(host); err == nil {
		return n, p
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), ""
}

// checkHost holds the Host header to the names and addresses of the box. Another
// name here means that somebody's own name was pointed at the box (DNS
// rebinding), and the page behind it would count as the box's own.
func (s *Server) checkHost(host string, l *link) error {
	name, _ := splitHost(host)
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return nil
	}
	if a, err := netip.ParseAddr(name); err == nil {
		a = a.Unmap().WithZone("")
		if a.IsLoopback() || s.addrs.has(a) {
			return nil
		}
		return refuse("%s is not an address of this box", a)
	}
	for _, own := range s.names() {
		own = strings.ToLower(own)
		if name == own || name == own+".local" || name == own+".home.arpa" || name == own+".lan" {
			return nil
		}
	}
	return refuse("%q is not a name of this box. Open it by its address, or as %s.local", shown(name), strings.ToLower(s.opt.Settings.Values().BoxName))
}

func (s *Server) names() []string {
	names := []string{s.opt.Settings.Values().BoxName}
	if h, err := os.Hostname(); err == nil && h != "" {
		names = append(names, h)
	}
	return names
}

// addrs is the box's own addresses, asked of the kernel at most once a second.
type addrs struct {
	mu   sync.Mutex
	at   time.Time           // guarded by mu
	have map[netip.Addr]bool // guarded by mu
}

func (a *addrs) has(want netip.Addr) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.have[want] {
		return true
	}
	if time.Since(a.at) < time.Second {
		return false
	}
	a.at, a.have = time.Now(), map[netip.Addr]bool{}
	for _, ip := range ownAddrs() {
		a.have[ip] = true
	}
	return a.have[want]
}

func ownAddrs() []netip.Addr {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var out []netip.Addr
	for _, n := range list {
		if p, ok := n.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(p.IP); ok {
				out = append(out, ip.Unmap())
			}
		}
	}
	return out
}

// shown is a stranger's text, short and printable enough for a sentence.
func shown(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if r := []rune(s); len(r) > 80 {
		return string(r[:80]) + "…"
	}
	return s
}

package api

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"rsc.io/qr"

	"gurtos/core/device"
	"gurtos/core/strict"
)

// PairCodeFor says as what a device is to be paired.
type PairCodeFor struct {
	Role *string `json:"role" doc:"owner or device; owner when it is missing."`
}

// PairCode is a code that is out.
type PairCode struct {
	Code      string `json:"code" doc:"8 digits."`
	URL       string `json:"url" doc:"Where the new device is to go; the code is in it."`
	QR        string `json:"qr" doc:"The same address as a QR code, an SVG image."`
	ExpiresAt string `json:"expiresAt" doc:"When the code ends by itself."`
}

// PairWith is what a new device sends.
type PairWith struct {
	Code *string `json:"code" doc:"The 8 digits that the box shows."`
	Name *string `json:"name" doc:"A name for the device, at most 60 characters."`
}

// Paired is what the new device gets, once.
type Paired struct {
	Token  string        `json:"token" doc:"The device's token, to be sent as Authorization: Bearer <token>. The box keeps only its hash."`
	Device device.Device `json:"device" doc:"The device as the box knows it."`
}

func (s *Server) pairCode(c *call) error {
	role := string(device.Owner)
	body, err := c.all()
	if err != nil {
		return err
	}
	if len(strings.TrimSpace(string(body))) > 0 {
		var f PairCodeFor
		if err := strict.Decode(body, &f); err != nil {
			return err
		}
		if f.Role != nil {
			role = *f.Role
		}
	}
	code, err := s.opt.Devices.Code(device.Role(role))
	if err != nil {
		return err
	}
	url := s.address(c) + "/#pair=" + code.Code
	img, err := svg(url)
	if err != nil {
		return err
	}
	if err := s.opt.Tasks.Note(c.r.Context(), NotePairCode, map[string]any{"role": role, "by": c.caller.name()}, ""); err != nil {
		return err
	}
	return c.json(http.StatusCreated, PairCode{code.Code, url, img, code.ExpiresAt.UTC().Format(timeForm)})
}

func (s *Server) pair(c *call) error {
	var p PairWith
	if err := c.decode(&p); err != nil {
		return err
	}
	switch {
	case p.Code == nil:
		return bad("code: the 8 digits that the box shows are needed")
	case p.Name == nil:
		return bad("name: a name for the device is needed")
	}
	code := strings.NewReplacer(" ", "", "-", "").Replace(*p.Code)
	d, token, err := s.opt.Devices.Pair(code, *p.Name, remote(c.r))
	if err != nil {
		return err
	}
	if err := s.note(NotePaired, map[string]any{"device": d.ID, "name": d.Name, "role": d.Role}); err != nil {
		// Nobody is told the token. Should this fail too, the next start removes it.
		_, rerr := s.opt.Devices.Remove(d.ID)
		return errors.Join(err, rerr)
	}
	return c.json(http.StatusCreated, Paired{token, d})
}

// remote is the address that tries are counted by: the connection's own, since
// a forwarded one is whatever the caller says; of IPv6 the network, since one
// machine has all addresses of it.
func remote(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.String()
		}
	}
	return a.String()
}

func (s *Server) devices(c *call) error {
	return c.json(http.StatusOK, s.opt.Devices.List())
}

func (s *Server) removeDevice(c *call) error {
	if err := c.nothing(); err != nil {
		return err
	}
	id := c.r.PathValue("id")
	if c.caller.kind == member && id != c.caller.device.ID {
		return refuse("%s is not paired as the owner and may remove only itself", c.caller.name())
	}
	d, err := s.opt.Devices.Remove(id)
	if err != nil {
		return err
	}
	if err := s.note(NoteDeviceRemoved, map[string]any{"device": d.ID, "name": d.Name, "by": c.caller.name()}); err != nil {
		return err
	}
	return c.json(http.StatusOK, OK{true})
}

// address is where others find the box: as the caller found it, unless
// that was a place that only the box itself can reach.
func (s *Server) address(c *call) string {
	name, _ := splitHost(c.r.Host)
	l, _ := c.r.Context().Value(linkKey{}).(*link)
	a, err := netip.ParseAddr(name)
	local := err == nil && a.IsLoopback() || strings.EqualFold(name, "localhost") || l != nil && l.unix
	if !local || forwarded(c.r) { // a relay's own address is as good as any
		return "http://" + c.r.Host
	}
	if s.opt.LANPort != 0 {
		if ip, ok := lanAddr(ownAddrs()); ok {
			return "http://" + hostPort(ip.String(), s.opt.LANPort)
		}
	}
	return "http://" + hostPort("127.0.0.1", s.opt.Port)
}

func hostPort(host string, port int) string {
	if port == 80 {
		if strings.Contains(host, ":") {
			return "[" + host + "]"
		}
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// lanAddr picks the address that phones reach best: private IPv4 before other
// IPv4 before IPv6.
func lanAddr(all []netip.Addr) (netip.Addr, bool) {
	rank := func(a netip.Addr) int {
		switch {
		case a.Is4() && a.IsPrivate():
			return 0
		case a.Is4():
			return 1
		case a.IsPrivate():
			return 2
		}
		return 3
	}
	all = slices.DeleteFunc(slices.Clone(all), func(a netip.Addr) bool { return !a.IsGlobalUnicast() })
	slices.SortStableFunc(all, func(a, b netip.Addr) int { return rank(a) - rank(b) })
	if len(all) == 0 {
		return netip.Addr{}, false
	}
	return all[0], true
}

// svg draws a text as a QR code, one path, with the quiet zone of four.
func svg(text string) (string, error) {
	code, err := qr.Encode(text, qr.M)
	if err != nil {
		return "", fmt.Errorf("drawing the QR code: %w", err)
	}
	var b strings.Builder
	side := code.Size + 8
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="QR code to pair a device" shape-rendering="crispEdges"><path fill="#fff" d="M0 0h%dv%dH0z"/><path d="`, side, side, side, side)
	for y := range code.Size {
		for x := 0; x < code.Size; x++ {
			start := x
			for x < code.Size && code.Black(x, y) {
				x++
			}
			if x > start {
				fmt.Fprintf(&b, "M%d %dh%dv1h-%dz", start+4, y+4, x-start, x-start)
			}
		}
	}
	b.WriteString(`"/></svg>`)
	return b.String(), nil
}

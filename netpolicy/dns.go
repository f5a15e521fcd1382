package netpolicy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"gurtos/netpolicy/rules"
)

// answerTTL is the life of an answer in seconds. It stands for the namespace's
// whole life, so a client that asks again only costs time.
const answerTTL = 300

// negativeTTL is how long a refused or missing name may be remembered: short,
// since a rule can be added while a program runs.
const negativeTTL = 5

// nameServer answers a namespace's questions: allowed names get their synthetic
// address, others NXDOMAIN, and no question leaves the box for those.
type nameServer struct {
	ctx     context.Context // ends with the namespace
	asked   chan struct{}   // holds a place for each question
	busy    chan struct{}   // and for each look-up outside
	names   *names
	allowed func(name string) bool
	exists  func(ctx context.Context, name string) error // resolves outside; errNoName when there is none
	refused func(name string)
	failed  func(name string, err error)
	log     *slog.Logger
}

// maxQuestions bounds the questions of one namespace that wait for an answer, and
// maxNameConns its connections to the name server.
const (
	maxQuestions = 1024
	maxNameConns = 64
)

// ServeDNS answers one question.
func (s *nameServer) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	var m *dns.Msg
	select {
	case s.asked <- struct{}{}:
		m = s.answer(q)
		<-s.asked
	default: // whoever asks so much at once may ask again
		m = new(dns.Msg)
		m.SetRcode(q, dns.RcodeServerFailure)
	}
	if opt := q.IsEdns0(); opt != nil {
		m.SetEdns0(1232, false)
		if opt.Version() != 0 {
			m.Rcode = dns.RcodeBadVers
			m.Answer, m.Ns = nil, nil
		}
	}
	if err := w.WriteMsg(m); err != nil {
		s.log.Debug("answer a name question", "err", err)
	}
}

func (s *nameServer) answer(q *dns.Msg) *dns.Msg {
	m := new(dns.Msg)
	m.SetReply(q)
	m.RecursionAvailable = true
	if q.Opcode != dns.OpcodeQuery || len(q.Question) != 1 {
		m.Rcode = dns.RcodeNotImplemented
		return m
	}
	ask := q.Question[0]
	if ask.Qclass != dns.ClassINET && ask.Qclass != dns.ClassANY {
		m.Rcode = dns.RcodeRefused
		return m
	}
	if a, ok := own(ask.Name); ok {
		s.put(m, ask, a...)
		return m
	}
	if strings.HasSuffix(strings.ToLower(ask.Name), ".arpa.") {
		s.reverse(m, ask)
		return m
	}
	name, err := rules.Normalize(ask.Name)
	if err != nil || !s.allowed(name) {
		// Only the name as asked is told: it is what the program tried to reach.
		s.refused(strings.TrimSuffix(strings.ToLower(ask.Name), "."))
		return deny(m, ask, dns.RcodeNameError)
	}
	if err := s.outside(name); err != nil {
		s.failed(name, err)
		return deny(m, ask, dns.RcodeServerFailure)
	}
	v4, v6, err := s.names.addrs(name)
	if err != nil {
		if !errors.Is(err, errManyNames) {
			s.log.Error("keep a name", "err", err)
		}
		s.failed(name, err)
		return deny(m, ask, dns.RcodeServerFailure)
	}
	s.put(m, ask, v4, v6)
	return m
}

// maxLookups bounds the look-ups outside that one namespace has going.
const maxLookups = 64

// outside asks whether the name exists.
func (s *nameServer) outside(name string) error {
	ctx, cancel := context.WithTimeout(s.ctx, resolveTimeout)
	defer cancel()
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
		return s.exists(ctx, name)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// put adds the addresses that fit the question; other types have an empty answer,
// so that no hint of another service (HTTPS, SVCB) or a text leads elsewhere.
func (s *nameServer) put(m *dns.Msg, ask dns.Question, addrs ...netip.Addr) {
	for _, a := range addrs {
		h := dns.RR_Header{Name: ask.Name, Class: dns.ClassINET, Ttl: answerTTL}
		switch {
		case a.Is4() && (ask.Qtype == dns.TypeA || ask.Qtype == dns.TypeANY):
			h.Rrtype = dns.TypeA
			m.Answer = append(m.Answer, &dns.A{Hdr: h, A: a.AsSlice()})
		case a.Is6() && (ask.Qtype == dns.TypeAAAA || ask.Qtype == dns.TypeANY):
			h.Rrtype = dns.TypeAAAA
			m.Answer = append(m.Answer, &dns.AAAA{Hdr: h, AAAA: a.AsSlice()})
		}
	}
	if len(m.Answer) == 0 {
		m.Ns = []dns.RR{soa(ask.Name)}
	}
}

// reverse answers for the addresses that it gave out and for the loopback.
func (s *nameServer) reverse(m *dns.Msg, ask dns.Question) {
	name := ""
	if a, ok := arpa(ask.Name); ok {
		if a.IsLoopback() {
			name = "localhost"
		} else if n, known := s.names.name(a); known {
			name = n
		}
	}
	if name == "" {
		deny(m, ask, dns.RcodeNameError)
		return
	}
	if ask.Qtype == dns.TypePTR || ask.Qtype == dns.TypeANY {
		m.Answer = []dns.RR{&dns.PTR{Hdr: dns.RR_Header{Name: ask.Name, Rrtype: dns.TypePTR, Class: dns.ClassINET, Ttl: answerTTL}, Ptr: name + "."}}
	} else {
		m.Ns = []dns.RR{soa(ask.Name)}
	}
}

// HostName is what a sandbox calls itself. Programs look that up, git for one whenever it
// is not told who commits.
const HostName = "box"

// own are the names of the namespace itself (RFC 6761, section 6.3).
func own(name string) ([]netip.Addr, bool) {
	low := strings.ToLower(name)
	if low == "localhost." || strings.HasSuffix(low, ".localhost.") || low == HostName+"." {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, true
	}
	return nil, false
}

// deny ends a question without an address, with the SOA that lets a client
// remember it for a short time (RFC 2308).
func deny(m *dns.Msg, ask dns.Question, rcode int) *dns.Msg {
	m.Rcode = rcode
	if rcode == dns.RcodeNameError {
		m.Ns = []dns.RR{soa(ask.Name)}
	}
	return m
}

func soa(zone string) dns.RR {
	return &dns.SOA{
		Hdr: dns.RR_Header{Name: zone, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: negativeTTL},
		Ns:  "box.", Mbox: "box.", Serial: 1, Refresh: 3600, Retry: 600, Expire: 86400, Minttl: negativeTTL,
	}
}

// arpa reads the address out of a reverse name.
func arpa(name string) (netip.Addr, bool) {
	low := strings.ToLower(name)
	if s, ok := strings.CutSuffix(low, ".in-addr.arpa."); ok {
		p := strings.Split(s, ".")
		if len(p) != 4 {
			return netip.Addr{}, false
		}
		a, err := netip.ParseAddr(p[3] + "." + p[2] + "." + p[1] + "." + p[0])
		return a, err == nil
	}
	if s, ok := strings.CutSuffix(low, ".ip6.arpa."); ok && len(s) == 63 {
		var b strings.Builder
		for i := 62; i >= 0; i -= 2 {
			b.WriteByte(s[i])
			if i%8 == 0 && i > 0 {
				b.WriteByte(':')
			}
		}
		a, err := netip.ParseAddr(b.String())
		return a, err == nil
	}
	return netip.Addr{}, false
}

// few is a listener that has a bounded number of connections open; more are closed.
type few struct {
	net.Listener
	places chan struct{}
}

func (l few) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.places <- struct{}{}:
			return &placed{c, sync.OnceFunc(func() { <-l.places })}, nil
		default:
			reset(c.(*net.TCPConn))
		}
	}
}

// placed is a connection that has a place.
type placed struct {
	net.Conn
	leave func()
}

func (p *placed) Close() error {
	defer p.leave()
	return p.Conn.Close()
}

// resolveTimeout bounds a look-up outside; glibc gives up after 5 s.
const resolveTimeout = 4 * time.Second

package netpolicy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"

	"github.com/miekg/dns"

	"gurtos/netpolicy/rules"
)

// MaxConns is how many connections of one namespace may be open at once; more
// are closed (specification 6, Limits).
const MaxConns = 256

// Policy is what one namespace may reach and whom it tells.
type Policy struct {
	Hosts []string // rules as rules.Parse reads them
	// More are hosts that are let through besides, such as those that the program itself
	// needs. They stay when the rules change, and none opens a private network.
	More []string
	// AnyPublic lets through any public host besides Hosts; one on a private network
	// still needs its exact host:port there. It is an app's leave, never a task's.
	AnyPublic bool
	Names     string // file that keeps the synthetic addresses; "" keeps them in memory

	// Reached is told, once each, of the host:port pairs that a connection was made to,
	// up to maxStats of them. It must not block. It may be nil.
	Reached func(hostport string)

	// Blocked is told of a refused try, at most once a minute for each
	// host:port; count is how many tries the call stands for.
	Blocked func(hostport string, count int)
	// Limited is told, at most once an hour for each limit, that the program came to it,
	// and whom the connection went to, "" where that is not known. It must not block, and
	// may be nil.
	Limited func(l Limit, host string)
	// Failed is told when an allowed name could not be resolved. It may be nil.
	Failed func(name string, err error)

	// UploadLimit is how many bytes may be sent to one host before Upload is
	// asked; 0 means no limit.
	UploadLimit int64
	// Upload is asked once for each host whose limit is reached; the bytes wait
	// until it answers. It may be nil when UploadLimit is 0.
	Upload func(ctx context.Context, host string) bool

	Swaps []Swap // keys that are put in towards the hosts that they name
}

// discardLog takes what net/http says of a peer's mistakes: those are the peer's.
var discardLog = log.New(io.Discard, "", 0)

// HostStat is what went to and from one host.
type HostStat struct {
	Host     string `json:"host"`     // host:port
	Sent     int64  `json:"sent"`     // bytes
	Received int64  `json:"received"` // bytes
	Conns    int64  `json:"conns"`
}

// Net makes namespaces. It holds a few ready ones, so that nobody waits for one.
type Net struct {
	log    *slog.Logger
	dial   *dialer
	by     queueing
	weaker []string

	ready chan *bare
	stop  context.CancelFunc
	done  chan struct{} // closed when the maker has ended
}

// Open checks that this machine can make a namespace, and starts to hold pool
// ready ones.
func Open(log *slog.Logger, pool int) (*Net, error) { return openBy(log, pool, byQueue) }

func openBy(log *slog.Logger, pool int, by queueing) (*Net, error) {
	first, err := newBare(by)
	if err != nil {
		return nil, fmt.Errorf("a task's network can't be made on this machine: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	n := &Net{log: log, dial: newDialer(), by: by, ready: make(chan *bare, max(pool, 1)), stop: stop, done: make(chan struct{})}
	if first.queue == nil {
		n.weaker = []string{noQueue}
	}
	n.ready <- first
	go n.make(ctx)
	return n, nil
}

// make keeps the pool full until ctx ends.
func (n *Net) make(ctx context.Context) {
	defer close(n.done)
	for ctx.Err() == nil {
		b, err := newBare(n.by)
		if err != nil {
			n.log.Error("make a network namespace ahead", "err", err)
			return // Attach makes its own from now on and reports the error
		}
		select {
		case n.ready <- b:
		case <-ctx.Done():
			b.close()
		}
	}
}

// Weaker gives sentences about what this machine's kernel can't do for a task's network.
func (n *Net) Weaker() []string { return n.weaker }

// Ready is how many namespaces wait in the pool.
func (n *Net) Ready() int { return len(n.ready) }

// Close gives the pool back. Attached spaces stay until they are closed.
func (n *Net) Close() error {
	n.stop()
	var errs []error
	for {
		select {
		case b := <-n.ready:
			errs = append(errs, b.close())
			continue
		case <-n.done:
		}
		break
	}
	for {
		select {
		case b := <-n.ready:
			errs = append(errs, b.close())
			continue
		default:
		}
		return errors.Join(errs...)
	}
}

// Space is one namespace in use.
type Space struct {
	n      *Net
	bare   *bare
	names  *names
	tell   *teller
	limits limiter
	p      Policy
	set    atomic.Pointer[rules.Set]
	dns    []*dns.Server

	ctx  context.Context // ends with the space
	end  context.CancelFunc
	wait sync.WaitGroup // accept loops, name servers, connections

	mu      sync.Mutex
	conns   map[*conn]struct{}
	stats   map[string]*stat      // by host:port
	uploads map[string]*allowance // by what a rule names

	knocks map[pair]*knock // connections that begin

	swapping chan struct{} // holds a place for each request that is judged or passed on with a key
	holding  chan struct{} // and for each of them the start of whose body is held
}

// Namespace is one that waits for a program and its policy.
type Namespace struct {
	n *Net
	b *bare
}

// Namespace gives one from the pool, or makes one when the pool is empty. Nothing
// in it is answered before Attach. It is the caller's to close.
func (n *Net) Namespace() (*Namespace, error) {
	select {
	case b := <-n.ready:
		return &Namespace{n, b}, nil
	default:
	}
	b, err := newBare(n.by)
	if err != nil {
		return nil, err
	}
	return &Namespace{n, b}, nil
}

// File is the namespace, for whoever starts a program in it.
func (ns *Namespace) File() *os.File { return ns.b.ns }

// Close gives the namespace back. One that has a Space is closed by either.
func (ns *Namespace) Close() error { return ns.b.close() }

// Attach gives the namespace its policy and starts to serve it.
func (ns *Namespace) Attach(p Policy) (*Space, error) {
	set, err := p.parse(p.Hosts, p.AnyPublic)
	if err != nil {
		return nil, err
	}
	names, err := openNames(p.Names)
	if err != nil {
		return nil, err
	}
	s := &Space{n: ns.n, bare: ns.b, names: names, tell: &teller{tell: p.Blocked}, limits: limiter{tell: p.Limited}, p: p, conns: map[*conn]struct{}{}, stats: map[string]*stat{}, uploads: map[string]*allowance{}, knocks: map[pair]*knock{}, swapping: make(chan struct{}, maxSwapping), holding: make(chan struct{}, maxHolding)}
	names.open = s.connected
	s.tell.named = func(host string) bool { return s.set.Load().Names(host) }
	s.set.Store(&set)
	s.ctx, s.end = context.WithCancel(context.Background())
	s.serve()
	return s, nil
}

// serve starts what answers inside the namespace.
func (s *Space) serve() {
	h := &nameServer{
		ctx: s.ctx, asked: make(chan struct{}, maxQuestions), busy: make(chan struct{}, maxLookups), names: s.names, log: s.n.log,
		allowed: func(name string) bool { return s.set.Load().Name(name) },
		exists:  s.n.dial.exists,
		refused: func(name string) { s.tell.refused(name + ":53") },
		failed: func(name string, err error) {
			if s.p.Failed != nil {
				s.p.Failed(name, err)
			}
		},
	}
	for _, pc := range s.bare.nameUD {
		s.serveNames(&dns.Server{PacketConn: pc, Handler: h})
	}
	places := make(chan struct{}, maxNameConns)
	for _, ln := range s.bare.nameTC {
		s.serveNames(&dns.Server{Listener: few{ln, places}, Handler: h, MaxTCPQueries: 128})
	}
	for _, ln := range s.bare.relay {
		s.accept(ln, s.relayed)
	}
	for _, ln := range s.bare.proxy {
		s.accept(ln, s.proxied)
	}
	if s.bare.queue != nil {
		s.wait.Go(func() { readQueue(s.bare.ctx, s.bare.queue, s.unread, s.comes) })
	}
	s.wait.Go(func() {
		readLog(s.bare.ctx, s.bare.nflog, s.unread, s.dropped)
	})
}

// unread tells that a netlink socket of the namespace could not be read.
func (s *Space) unread(err error) { s.n.log.Error("read what a namespace's kernel tells", "err", err) }

func (s *Space) serveNames(srv *dns.Server) {
	s.dns = append(s.dns, srv)
	s.wait.Go(func() {
		if err := srv.ActivateAndServe(); err != nil && s.ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
			s.n.log.Error("serve names in a namespace", "err", err)
		}
	})
}

// accept serves each connection of ln until the space ends.
func (s *Space) accept(ln net.Listener, serve func(*conn)) {
	s.wait.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				if s.ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
					s.n.log.Error("accept in a namespace", "err", err)
				}
				return
			}
			k, ok := s.admit(c.(*net.TCPConn))
			if !ok {
				reset(c.(*net.TCPConn))
				continue
			}
			s.wait.Go(func() {
				defer s.leave(k)
				serve(k)
			})
		}
	})
}

// admit counts a connection in, unless the space is full or ended. One that was
// redirected comes with what was made for it outside.
func (s *Space) admit(c *net.TCPConn) (*conn, bool) {
	k := &conn{down: c}
	remote := c.RemoteAddr().(*net.TCPAddr).AddrPort()
	from := netip.AddrPortFrom(remote.Addr().Unmap().WithZone(""), remote.Port())
	if dst, err := originalDst(c); err == nil {
		k.dst = dst
	}
	if !s.enter(k, from) {
		s.full(k.dst)
		return nil, false
	}
	return k, true
}

// enter says whether there is room for a connection, and takes it.
func (s *Space) enter(k *conn, from netip.AddrPort) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	k.made = s.claim(pair{from, k.dst})
	if s.ctx.Err() != nil || len(s.conns)+len(s.knocks) >= MaxConns {
		if k.made != nil {
			k.made.up.Close()
		}
		return false
	}
	s.conns[k] = struct{}{}
	return true
}

// connected are the names that connections lead to.
func (s *Space) connected() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]bool{}
	for k := range s.conns {
		k.mu.Lock()
		if k.target != nil {
			all[k.target.name] = true
		}
		k.mu.Unlock()
	}
	return all
}

func (s *Space) leave(k *conn) {
	k.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, k)
}

// Env is the part of a program's environment that tells it of the proxy, which is
// the same in every namespace. Programs that ignore it come through just as well.
func Env() []string {
	proxy := fmt.Sprintf("http://127.0.0.1:%d", proxyPort)
	const direct = "localhost,127.0.0.1,::1"
	return []string{
		"HTTP_PROXY=" + proxy, "HTTPS_PROXY=" + proxy, "ALL_PROXY=" + proxy, "NO_PROXY=" + direct,
		"http_proxy=" + proxy, "https_proxy=" + proxy, "all_proxy=" + proxy, "no_proxy=" + direct,
	}
}

// SetHosts changes the rules to those of hosts alone; open connections that they no
// longer allow close at once.
func (s *Space) SetHosts(hosts []string) error { return s.SetRules(hosts, false) }

// SetRules is SetHosts with a say on Policy.AnyPublic.
func (s *Space) SetRules(hosts []string, anyPublic bool) error {
	set, err := s.p.parse(hosts, anyPublic)
	if err != nil {
		return err
	}
	s.set.Store(&set)
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.conns {
		if !k.allowed(&set) {
			k.close()
		}
	}
	return nil
}

func (p *Policy) parse(hosts []string, anyPublic bool) (set rules.Set, err error) {
	if anyPublic {
		set, err = rules.ParseOpen(hosts)
	} else {
		set, err = rules.ParseList(hosts)
	}
	if err == nil {
		err = set.Add(p.More...)
	}
	return set, err
}

// Stats lists the hosts reached, in no order.
func (s *Space) Stats() []HostStat {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]HostStat, 0, len(s.stats))
	for h, st := range s.stats {
		out = append(out, HostStat{Host: h, Sent: st.sent.Load(), Received: st.received.Load(), Conns: st.conns.Load()})
	}
	return out
}

// Close ends all connections and gives the namespace back. It waits for all that
// runs on the space's behalf.
func (s *Space) Close() error {
	s.end()
	err := s.bare.close()
	for _, d := range s.dns {
		d.Shutdown() //nolint:errcheck // its sockets are closed already
	}
	s.mu.Lock()
	for k := range s.conns {
		k.close()
	}
	s.mu.Unlock()
	s.wait.Wait()
	s.dropKnocks()
	s.tell.close()
	return err
}

// spell writes a destination as the program meant it: a synthetic address by its name.
func (s *Space) spell(dst netip.AddrPort) string {
	if name, ok := s.names.name(dst.Addr().Unmap()); ok {
		return net.JoinHostPort(name, fmt.Sprint(dst.Port()))
	}
	return netip.AddrPortFrom(dst.Addr().Unmap(), dst.Port()).String()
}

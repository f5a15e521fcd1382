package mutate

func init() { Guards = append(Guards, network...) }

// network are the guards of a task's network: its fence, its rules, what is read of the bytes that pass, the key swap.
var network = []Guard{
	{"network: nothing but TCP, names and the loopback leaves a program", "netpolicy/fence.go", `drop := nftables.ChainPolicyDrop`, `drop := nftables.ChainPolicyAccept`, "./netpolicy", "TestNothingGetsOut/0_hosts/(UDP|QUIC|multicast|broadcast)"},
	{"network: names over UDP end in the box", "netpolicy/fence.go", `	{"nat", "names over UDP", concat(l4(unix.IPPROTO_UDP), dport(53), redirect(namePort))},
`, "", "./netpolicy", "TestNothingGetsOut/0_hosts/another_resolver"},
	{"network: names over TCP end in the box", "netpolicy/fence.go", `	{"nat", "names over TCP", concat(l4(unix.IPPROTO_TCP), dport(53), redirect(namePort))},
`, "", "./netpolicy", "TestNothingGetsOut/0_hosts/another_resolver"},
	{"network: the loopback v4 is the program's own", "netpolicy/fence.go", `	{"nat", "loopback v4 is the sandbox's own", concat(to4([4]byte{127}, 8), accept())},
`, "", "./netpolicy", "TestOwnLoopback"},
	{"network: the loopback v6 is the program's own", "netpolicy/fence.go", `	{"nat", "loopback v6 is the sandbox's own", concat(to6loopback(), accept())},
`, "", "./netpolicy", "TestOwnLoopback"},
	{"network: all other TCP ends in the box", "netpolicy/fence.go", `	{"nat", "all other TCP to the relay", concat(l4(unix.IPPROTO_TCP), redirect(relayPort))},
`, "", "./netpolicy", "TestReaches"},
	{"network: answers come through", "netpolicy/fence.go", `	{"out", "answers", concat(established(), accept())},
`, "", "./netpolicy", "TestReaches"},
	{"network: the loopback v4 is open", "netpolicy/fence.go", `	{"out", "loopback v4", concat(to4([4]byte{127}, 8), accept())},
`, "", "./netpolicy", "TestOwnLoopback"},
	{"network: the loopback v6 is open", "netpolicy/fence.go", `	{"out", "loopback v6", concat(to6loopback(), accept())},
`, "", "./netpolicy", "TestOwnLoopback"},
	{"network: what was refused is told", "netpolicy/fence.go", `concat(within(logRate), told(""))`, `within(logRate)`, "./netpolicy", "TestNothingGetsOut/0_hosts/QUIC"},
	{"network: a name without a rule is not answered", "netpolicy/dns.go", `if err != nil || !s.allowed(name) {`, `if err != nil {`, "./netpolicy", "TestNothingGetsOut/0_hosts/another_resolver"},
	{"network: a target without a rule is not dialled", "netpolicy/relay.go", `	if !ok {
		return r, errNoRule
	}`, `	_ = ok`, "./netpolicy", "TestNothingGetsOut/0_hosts/literal"},
	{"network: a name leads to no private network", "netpolicy/dial.go", `case c == rules.Private && !exact:`, `case c == rules.Private && !exact && false:`, "./netpolicy", "TestNothingGetsOut/9_hosts/a_name_that_leads"},
	{"network: a name leads to no loopback or metadata", "netpolicy/dial.go", `case c != rules.Public && c != rules.Private:`, `case c != rules.Public && c != rules.Private && false:`, "./netpolicy", "TestNothingGetsOut/9_hosts/a_name_that_leads"},
	{"network: what the kernel tells ends with the namespace", "netpolicy/space.go", `	b.end()
`, ``, "./netpolicy", "TestNamespaceEndsFirst"},
	{"network: the box is itself in each form of its address", "netpolicy/dial.go", `	own, err := d.own(dialled)
`, `	own, err := d.own(a)
`, "./netpolicy", "TestOwnInEachForm"},
	{"network: nothing leads to the box itself", "netpolicy/dial.go", `	if own {`, `	if own && false {`, "./netpolicy", "TestNothingGetsOut/9_hosts/(a_name|an_exact_rule)"},
	{"network: a Host is the name of its address", "netpolicy/http1.go", `if len(hosts) == 1 && !t.is(hosts[0]) {`, `if false {`, "./netpolicy", "TestNothingGetsOut/9_hosts/another_Host"},
	{"network: a request has one Host", "netpolicy/http1.go", `if len(hosts) > 1 || len(hosts) == 0 && version == "HTTP/1.1" {`, `if false {`, "./netpolicy", "TestNothingGetsOut/9_hosts/(two_Hosts|no_Host)"},
	{"network: an absolute URI names the same host", "netpolicy/http1.go", `if !ok || !t.is(auth) {`, `if !ok || auth == "" {`, "./netpolicy", "TestNothingGetsOut/9_hosts/absolute_form"},
	{"network: no request onwards", "netpolicy/http1.go", `if method == "CONNECT" {`, `if false {`, "./netpolicy", "TestNothingGetsOut/9_hosts/CONNECT_"},
	{"network: a length or chunks, not both", "netpolicy/http1.go", `case len(te) > 0 && len(cl) > 0:`, `case false:`, "./netpolicy", "TestNothingGetsOut/9_hosts/a_length_and_chunks"},
	{"network: one length", "netpolicy/http1.go", `case len(cl) == 1 && cl[0] != ""`, `case len(cl) >= 1 && cl[0] != ""`, "./netpolicy", "TestNothingGetsOut/9_hosts/two_lengths"},
	{"network: no odd transfer coding", "netpolicy/http1.go", `case len(te) == 1 && strings.EqualFold(te[0], "chunked") && h.version() == "HTTP/1.1":`, `case len(te) >= 1:`, "./netpolicy", "TestNothingGetsOut/9_hosts/(an_odd_transfer|two_transfer|chunks_in)"},
	{"network: no folded fields", "netpolicy/http1.go", `if !ok || !isToken([]byte(name)) {`, `if !ok {`, "./netpolicy", "TestNothingGetsOut/9_hosts/(a_folded|a_Host_with)"},
	{"network: no stray line ends", "netpolicy/http1.go", `if i += at; (c == '\n') != (i > 0 && p.buf[i-1] == '\r') {`, `if i += at; c == 0 && i < 0 {`, "./netpolicy", "TestNothingGetsOut/9_hosts/line_ends_without_CR"},
	{"network: white space in front hides no request", "netpolicy/sniff.go", `bytes.TrimLeft(b, "\r\n\t\v\f ")`, `b`, "./netpolicy", "TestNothingGetsOut/9_hosts/(empty_lines|many_empty|a_space)"},
	{"network: only an answered upgrade ends HTTP", "netpolicy/http1.go", `switch proto, err := a.upgraded(asked); {`, `switch proto, err := "x", error(nil); {`, "./netpolicy", "TestNothingGetsOut/9_hosts/an_upgrade_that"},
	{"network: an HTTP/2 authority is the name", "netpolicy/http2.go", `strings.EqualFold(h.Name, "host")) && !c.t.is(h.Value):`, `strings.EqualFold(h.Name, "host")) && false:`, "./netpolicy", "TestNothingGetsOut/9_hosts/HTTP/2"},
	{"network: an HTTP/2 path is a path", "netpolicy/http2.go", `case h.Name == ":path" && h.Value != "*" && !strings.HasPrefix(h.Value, "/"):`, `case false:`, "./netpolicy", "TestNothingGetsOut/9_hosts/HTTP/2_with_a_whole"},
	{"network: HTTP/2 fields are not cut", "netpolicy/http2.go", `		if c.open {
			return`, `		if false {
			return`, "./netpolicy", "TestNothingGetsOut/9_hosts/HTTP/2_with_another_frame"},
	{"network: HTTP/2 begins with its settings", "netpolicy/http2.go", `http2.FrameType(h[3]) != http2.FrameSettings || h[0] != 0 || [4]byte(h[5:9]) != [4]byte{}`, `len(h) == 0`, "./netpolicy", "TestNothingGetsOut/9_hosts/HTTP/1_behind"},
	{"network: an SNI is the name of its address", "netpolicy/sniff.go", `if err != nil || name != f.t.name {`, `if err != nil || name == "" {`, "./netpolicy", "TestNothingGetsOut/9_hosts/(another_SNI|an_SNI|encrypted)"},
	{"network: a proxy's client speaks HTTP/1", "netpolicy/proxy.go", `if err == nil && h.first[2] != "HTTP/1.1" && h.first[2] != "HTTP/1.0" {`, `if false {`, "./netpolicy", "TestNothingGetsOut/9_hosts/a_proxied_request_without"},
	{"network: open connections end with their rule", "netpolicy/policy.go", `if !k.allowed(&set) {`, `if !k.allowed(&set) && false {`, "./netpolicy", "TestRuleTurnedOff"},
	{"network: an open connection into a private network ends with its exact rule", "netpolicy/relay.go", `(!k.private || rule.Exact())`, `(!k.private || rule.Exact() || true)`, "./netpolicy", "TestAnyPublic"},
	{"network: any public host is no private address", "netpolicy/rules/set.go", `if s.public && a.Port() != 0 && Classify(a.Addr()) == Public {`, `if s.public && a.Port() != 0 {`, "./netpolicy/rules", "TestOpen"},
	{"network: any public host is not the machine itself", "netpolicy/rules/set.go", `!isLocal(name) && !metadataNames[name]`, `true`, "./netpolicy/rules", "TestOpen"},
	{"network: any public host is an app's leave alone", "netpolicy/policy.go", `	if anyPublic {
		set, err`, `	if true {
		set, err`, "./netpolicy", "TestNothingGetsOut/0_hosts/(literal|another_resolver)"},
	{"network: 256 connections", "netpolicy/knock.go", `len(s.conns)+len(s.knocks) >= MaxConns`, `len(s.conns)+len(s.knocks) > MaxConns`, "./netpolicy", "TestLimit$"},
	{"network: 256 connections to the proxy", "netpolicy/policy.go", `len(s.conns)+len(s.knocks) >= MaxConns`, `len(s.conns)+len(s.knocks) > MaxConns`, "./netpolicy", "TestLimitOfTheProxy"},
	{"network: the upload question", "netpolicy/flow.go", `if !f.al.yes {`, `if false {`, "./netpolicy", "TestUpload"},
	{"network: what is sent counts against the upload limit", "netpolicy/flow.go", `may := min(n, limit-gone)`, `may := min(n, 2*limit-gone)`, "./netpolicy", "TestUpload"},
	{"network: a reset stays a reset", "netpolicy/flow.go", `	if err == nil {
		err = peeked
	}
	return err
`, `	return err
`, "./netpolicy", "TestProtocols"},
	{"network: nobody waits for an answer that can't come", "netpolicy/flow.go", `	f.answers.lost() // whatever`, `	// whatever`, "./netpolicy", "TestUpgradeUnanswered"},
	{"network: an address stands for its name over a restart", "netpolicy/names.go", `	n.list = f.Names
`, "", "./netpolicy", "TestNamesLast"},
	{"key swap: no placeholder in an address", "netpolicy/judge.go", `if strings.Contains(where, p) {`, `if false {`, "./netpolicy", "TestSwapRefuses"},
	{"key swap: no placeholder in a body", "netpolicy/judge.go", `if bytes.Contains(start, p) {`, `if false {`, "./netpolicy", "TestSwapRefuses"},
	{"key swap: one header only", "netpolicy/judge.go", `if !strings.EqualFold(name, x.sw.Header) || strings.Count(v, p) != 1 {`, `if false {`, "./netpolicy", "TestSwapRefuses"},
	{"key swap: the header is the placeholder alone", "netpolicy/judge.go", `if *found[0] != want || len(r.Header.Values(x.sw.Header)) != 1 {`, `if false {`, "./netpolicy", "TestSwapWhole"},
	{"key swap: the header is passed on", "netpolicy/judge.go", `if strings.EqualFold(strings.TrimSpace(name), x.sw.Header) {`, `if strings.EqualFold(strings.TrimSpace(name), "x") {`, "./netpolicy", "TestSwapWhole"},
	{"key swap: the Host is the name", "netpolicy/judge.go", `case !x.t.is(r.Host):`, `case false:`, "./netpolicy", "TestSwapRefuses"},
	{"key swap: fields come back clean", "netpolicy/cleaned.go", `	cleanFields(r.Header, with)
`, "", "./netpolicy", "TestSwap$"},
	{"key swap: trailers come back clean", "netpolicy/cleaned.go", `func() { cleanFields(r.Trailer, with) }`, `func() {}`, "./netpolicy", "TestSwap$"},
	{"key swap: a body comes back clean", "netpolicy/cleaned.go", `	c.w = with(&c.out)`, `	c.w = struct {
		io.Writer
		io.Closer
	}{&c.out, r}
	_ = with`, "./netpolicy", "TestSwap$"},
	{"key swap: what is packed is not passed on", "netpolicy/cleaned.go", `return fmt.Errorf("the answer is packed as %q, which can't be cleaned", enc)`, `break`, "./netpolicy", "TestSwapPacked"},
	{"key swap: only the declared requests", "netpolicy/judge.go", `case sw.Requests != nil && !matches(sw.Requests, r):`, `case false:`, "./netpolicy", "TestSwapLists"},
	{"key swap: a path has one reading", "netpolicy/swap.go", `if strings.ContainsAny(path, "%\\;") || strings.Contains(path, "//") || strings.Contains(path, "/.") {`, `if false {`, "./netpolicy", "TestSwapLists"},
	{"key swap: a model waits for its leave", "netpolicy/judge.go", `	if sw.Allow != nil && model {`, `	if false {`, "./netpolicy", "TestSwapAllow"},
	{"key swap: what is packed is not passed on unseen", "netpolicy/judge.go", `		if enc != "" && !strings.EqualFold(enc, "identity") {`, `		if false {`, "./netpolicy", "TestSwapRefuses"},
	{"key swap: an answer is cleaned of the key that went out", "netpolicy/judge.go", `carried{clean, len(places) > 0, b}`, `carried{func(w io.Writer) io.WriteCloser { _, clean, _ = sw.Key(); return clean(w) }, len(places) > 0, b}`, "./netpolicy", "TestSwapKeyChanges"},
	{"key swap: metered before its end is read", "netpolicy/cleaned.go", `			if c.meter.Ended() {`, `			if c.meter.Ended() && false {`, "./netpolicy", "TestSwapMetersFirst"},
	{"model key: the next call waits for the budget", "core/task/modelkey.go", `	if err == nil && !yes {`, `	if err == nil && !yes && false {`, "./test/model", "TestBudget"},
	{"model key: no model call while agents are paused", "core/task/modelkey.go", `	return m.q.Going(ctx)`, `	return nil`, "./test/model", "TestPaused"},
	{"model key: a worker's report adds only what the box did not see", "core/task/modelkey.go", `	return u.Told.Add(told).Sub(u.Metered).Sub(u.Booked)`, `	return u.Told.Add(told).Sub(u.Booked)`, "./test/model", "TestKeyAndCost"},
	{"model key: what a stopped task's model used is booked", "core/task/modelkey.go", `	return t.commit(ctx, func(f *fold) ([]actionlog.Event, error) {
		_, err := f.entry(id)
		return []actionlog.Event{ev}, err
	})`, `	_, err = t.line(ctx, id, ev)
	return err`, "./test/model", "TestStopped"},
	{"model key: only tasks of the worker trust the box's authority", "core/task/run.go", `	if w.Key != nil {
		spec.Env`, `	spec.Trust = q.opt.Authority.PEM()
	if w.Key != nil {
		spec.Env`, "./test/model", "TestKeyAndCost"},
	{"network: nothing hides behind another connection's head", "netpolicy/sniff.go", `	case shown && bytes.HasPrefix(up, []byte("PROXY ")):
		return forwarded, true
`, "", "./netpolicy", "TestTricks/another_connection"},
	{"network: nothing hides behind another connection's binary head", "netpolicy/sniff.go", `return forwarded, n == len(proxyHead2)`, `return opaque, n == len(proxyHead2)`, "./netpolicy", "TestTricks/another_connection"},
	{"network: no hello hides behind a warning", "netpolicy/sniff.go", `if b[1] == 3 && b[2] <= 4 {`, `if b[1] == 3 && b[2] == 9 {`, "./netpolicy", "TestTricks/a_warning"},
	{"network: TLS that an upgrade began is judged", "netpolicy/http1.go", `			return f.upload() // RFC 2817`, `			return f.rest() // RFC 2817`, "./netpolicy", "TestTricks/TLS_by"},
	{"network: HTTP/2 that an upgrade began is judged", "netpolicy/http1.go", `		case strings.EqualFold(proto, "h2c"):
			return f.frames()
`, "", "./netpolicy", "TestTricks/HTTP/2_by"},
	{"network: a trailer has no Host", "netpolicy/http1.go", ` || inFront[strings.ToLower(name)]) {`, `) {`, "./netpolicy", "TestTricks/a_trailer"},
	{"network: no host of a worker's opens a private network", "netpolicy/rules/rule.go", `r.port != 0 && !r.wildcard && !r.added`, `r.port != 0 && !r.wildcard`, "./netpolicy", "TestMore"},
	{"network: what is refused gets no connection", "netpolicy/knock.go", `	if _, err := t.verdict(s.set.Load()); err != nil {
		s.tell.refused(t.String())
		s.answer(id, nfAccept, markReset)
		return
	}
`, "", "./netpolicy", "TestSwapRefuses"},
	{"network: one connection outside for a pair of ends", "netpolicy/knock.go", `	if k := s.knocks[at]; k != nil {`, `	if k := s.knocks[at]; k != nil && k.up == nil {`, "./netpolicy", "TestGivesUpAgain"},
	{"network: the error of a host that is down", "netpolicy/knock.go", `		s.answer(k.id, nfAccept, markOf(err))`, `		s.answer(k.id, nfAccept, markReset)`, "./netpolicy", "TestDown"},
	{"network: a connection waits for the one outside", "netpolicy/fence.go", `concat(l4(unix.IPPROTO_TCP), first())}, // and`, `concat(l4(unix.IPPROTO_TCP), first(), flags(tcpRST, tcpRST))}, // and`, "./netpolicy", "TestDown"},
	{"network: the error of a connection that was turned back comes through", "netpolicy/fence.go", `	{"out", "connections that were turned back", concat(l4(unix.IPPROTO_TCP), flags(tcpRST, tcpRST), accept())},
`, "", "./netpolicy", "TestRefusedAtConnect"},
	{"network: the errors of ICMP come through", "netpolicy/fence.go", `	{"out", "errors of connections that were turned back", concat(l4(unix.IPPROTO_ICMP), icmpType(3), accept())},
`, "", "./netpolicy", "TestDown"},
	{"network: the errors of ICMPv6 come through", "netpolicy/fence.go", `	{"out", "errors of connections that were turned back, v6", concat(l4(unix.IPPROTO_ICMPV6), icmpType(1), accept())},
`, "", "./netpolicy", "TestDown"},
	{"key swap: nothing comes ahead of an answer", "netpolicy/cleaned.go", `		t.Got1xxResponse = nil // httputil`, `		_ = t // httputil`, "./netpolicy", "TestSwap$"},
	{"network: a loop of connections is held back", "netpolicy/fence.go", `	{"pace", "connections", concat(l4(unix.IPPROTO_TCP), first(), above(beginRate))},
`, "", "./netpolicy", "TestPace/an_address"},
	{"network: a loop of connections to the proxy is held back", "netpolicy/fence.go", `	{"pace", "connections to the proxy", concat(l4(unix.IPPROTO_TCP), first(), dport(proxyPort), above(beginRate))},
`, "", "./netpolicy", "TestPace/the_proxy"},
	{"network: a loop of connections to the relay is held back", "netpolicy/fence.go", `	{"pace", "connections to the relay", concat(l4(unix.IPPROTO_TCP), first(), dport(relayPort), above(beginRate))},
`, "", "./netpolicy", "TestPace/the_relay"},
	{"network: a loop of questions is held back", "netpolicy/fence.go", `	{"pace", "names over UDP", concat(l4(unix.IPPROTO_UDP), dport(53), above(beginRate))},
`, "", "./netpolicy", "TestPace/names"},
	{"network: a loop of questions to the server's own port is held back", "netpolicy/fence.go", `	{"pace", "names over UDP, at the server's own port", concat(l4(unix.IPPROTO_UDP), dport(namePort), above(beginRate))},
`, "", "./netpolicy", "TestPace/the_name"},
	{"network: what is held back is told", "netpolicy/fence.go", `concat(within(1), told(heldBack))`, `within(1)`, "./netpolicy", "TestPace/names"},
	{"network: what is held back is no refused try", "netpolicy/fence.go", `told(heldBack))},`, `told(""))},`, "./netpolicy", "TestPace/an_allowed_host"},
	{"network: what is held back and no rule lets through is a refused try", "netpolicy/limits.go", `	if _, err := t.verdict(s.set.Load()); err != nil {
			s.tell.refused(t.String())
			return
		}
`, ``, "./netpolicy", "TestPace/an_address"},
	{"network: a connection without room is told as a limit", "netpolicy/knock.go", `		s.full(to)
`, ``, "./netpolicy", "TestLimit$"},
	{"network: a connection to the proxy without room is told as a limit", "netpolicy/policy.go", `		s.full(k.dst)
`, ``, "./netpolicy", "TestLimitOfTheProxy"},
	{"network: a program that has all it may have locks nobody out", "netpolicy/policy.go", `	if !s.enter(k, from) {
`, `	room := s.enter(k, from)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !room {
`, "./netpolicy", "TestFullHoldsNobodyUp"},
	{"network: a limit is told once an hour", "netpolicy/limits.go", `!at.IsZero() && time.Since(at) < limitEvery`, `!at.IsZero() && time.Since(at) < 0`, "./netpolicy", "TestLimiter"},
	{"network: a host that a rule names has lines of its own", "netpolicy/teller.go", `	if t.named != nil && t.named(host) {
		return share{host, true}, toldOfNamed
	}
`, ``, "./netpolicy", "TestTellerKeepsRoom"},
	{"network: one domain uses up no other's lines", "netpolicy/teller.go", `	if !r.left(q) || !of.named`, `	if of.named && !r.left(q) || !of.named`, "./netpolicy", "TestTellerKeepsRoom"},
	{"network: a host that a rule names is known to have lines of its own", "netpolicy/policy.go", `	s.tell.named = func(host string) bool { return s.set.Load().Names(host) }
`, ``, "./netpolicy", "TestNamedHosts"},
	{"network: addresses become free in the same order over a restart", "netpolicy/names.go", `			n.freed = append(n.freed, i)
			known[i] = true
`, `			known[i] = false
`, "./netpolicy", "TestManyNames"},
	{"network: what is told of a host counts the worker's own", "core/task/network.go", `		p.More = key.rules()
`, `		_ = key.rules()
`, "./test/model", "TestReachIsWhatIsTold"},
	{"network: what is told of a host counts what the owner turned off", "core/task/network.go", `netpolicy.Policy{Hosts: t.hostsOf(k), Names`, `netpolicy.Policy{Hosts: k.Hosts, Names`, "./test/reach", "TestHostTurnedOff"},
	{"network: a task's owner reads of a limit", "core/task/network.go", `p.Blocked, p.Limited, p.Failed = w.blocked, w.limited, w.noName`, `p.Blocked, p.Failed = w.blocked, w.noName`, "./test/model", "TestLimitIsTold"},
	{"network: what is told of a private address is what the dialler says", "netpolicy/explain.go", `d.check(a, rule.Exact())`, `d.check(a, true)`, "./netpolicy", "TestExplain"},
	{"network: what is told of an address that stands for a name is the name's", "netpolicy/explain.go", `		t.name, _ = known.name(t.addr)
`, `		_ = known
`, "./netpolicy", "TestExplainIsTheVerdict"},
	{"network: a kernel without a queue is told of", "netpolicy/policy.go", `		n.weaker = []string{noQueue}
`, ``, "./netpolicy", "TestWithoutQueue"},
	{"network: without a queue the fence stands", "netpolicy/fence.go", `	if queue == nil {
		return nil, load(nil)
	}
`, `	if queue == nil {
		return nil, nil
	}
`, "./netpolicy", "TestWithoutQueue"},
	{"network: a host that says nothing is given up", "netpolicy/dial.go", `net.Dialer{Timeout: d.half, `, `net.Dialer{`, "./netpolicy", "TestHalfOpen/a_host"},
	{"network: half a hello is given up", "netpolicy/sniff.go", `	f.k.down.SetReadDeadline(time.Now().Add(f.s.n.dial.half)) //nolint:errcheck // a closed connection says so next
`, ``, "./netpolicy", "TestHalfOpen/half_a_hello"},
	{"network: half a request to the proxy is given up", "netpolicy/proxy.go", `	k.down.SetReadDeadline(time.Now().Add(s.n.dial.half)) //nolint:errcheck // a closed connection says so next
`, ``, "./netpolicy", "TestHalfOpen/half_a_request"},
	{"network: a request without a version is refused", "netpolicy/sniff.go", `case shown && isBareLine(line):`, `case shown && isBareLine(line) && false:`, "./netpolicy", "TestNothingGetsOut/9_hosts/no_version$"},
	{"network: CR alone shows no other protocol", "netpolicy/sniff.go", `	return opaque, ended
`, `	return opaque, shown
`, "./netpolicy", "TestPiecesShowNoLess"},
	{"network: CR alone ends a line too", "netpolicy/sniff.go", `	shown := ended || cr >= 0 && cr < len(line)-1
`, `	shown := ended || cr >= len(line)
`, "./netpolicy", "TestNothingGetsOut/9_hosts/CR_alone,_and_never"},
	{"network: a program's own traffic fills no table", "netpolicy/fence.go", `concat([]expr.Any{&expr.Notrack{}}, accept())`, `accept()`, "./netpolicy", "TestOwnTraffic"},
	{"network: connections to the name server are few", "netpolicy/dns.go", `			reset(c.(*net.TCPConn))`, `			return c, nil`, "./netpolicy", "TestFew"},
	{"network: no name that a connection leads to is forgotten", "netpolicy/names.go", `!k.used.After(at) && !open[s]`, `!k.used.After(at) && (!open[s] || true)`, "./netpolicy", "TestManyNames"},
	{"network: no name of late is forgotten", "netpolicy/names.go", `	n.byName[n.list[i]].used = time.Now()
`, "", "./netpolicy", "TestManyNames"},
	{"network: an address goes to no second name", "netpolicy/names.go", `	if at < allNames {`, `	if at < allNames && len(freed) == 0 {`, "./netpolicy", "TestManyNames"},
	{"network: refused tries beyond a thousand are told together", "netpolicy/teller.go", `		t.more++
`, "", "./netpolicy", "TestTeller"},
	{"network: ever new refused tries flood no log", "netpolicy/teller.go", ` || !of.named && !t.all.left(toldInAll) {`, ` {`, "./netpolicy", "TestTeller"},
	{"network: what IANA gave out for no host is not public", "netpolicy/rules/addr.go", `netip.MustParsePrefix("::/0"), Reserved}`, `netip.MustParsePrefix("::/0"), Public}`, "./netpolicy/rules", "TestClassify"},
	{"model bill: a stream whose program hung up is read to its end", "netpolicy/cleaned.go", `	if c.meter != nil && c.err == nil {`, `	if c.meter != nil && c.meter.Whole() && c.err == nil {`, "./netpolicy", "TestSwapReadsOn"},
	{"model bill: a call without an answer is booked", "netpolicy/swapper.go", `			defer b.settle()
`, ``, "./netpolicy", "TestSwapEnds"},
	{"model bill: what was not sent is free", "netpolicy/bill.go", `b.refused || began.IsZero() ||`, `b.refused ||`, "./netpolicy", "TestSwapFree"},
	{"model bill: what was refused is free", "netpolicy/bill.go", `b.told || b.refused ||`, `b.told ||`, "./netpolicy", "TestSwapFree"},
	{"model bill: an error in a stream is free", "netpolicy/bill.go", ` || b.meter != nil && b.meter.Failed() {`, ` {`, "./netpolicy", "TestSwapFree"},
	{"model bill: unseen thinking is not free", "netpolicy/bill.go", `	if b.meter.Hidden() {`, `	if false {`, "./netpolicy", "TestBill"},
	{"model bill: no more than was asked for", "netpolicy/bill.go", `	u.Output = min(u.Output, b.most())`, `	u.Output = min(u.Output, meter.MostWritten)`, "./netpolicy", "TestBill"},
	{"model bill: a question whose body never ends is booked", "netpolicy/bill.go", `(last || b.asked.End > 0 && b.out >= b.asked.End)`, `last`, "./netpolicy", "TestSwapStalls"},
	{"model bill: an answer to what was not all asked is booked", "netpolicy/bill.go", `		began = b.begun // it was answered before it was all asked
`, `		began = b.sent
`, "./netpolicy", "TestBill"},
	{"model bill: what may be used is told before it is asked", "netpolicy/judge.go", `		if err := b.came(nil, false); err != nil {`, `		if err := error(nil); err != nil {`, "./netpolicy", "TestSwapBegins"},
	{"model bill: of a long request, too", "netpolicy/judge.go", `		if w.err = w.bill.came(b[:n], err == io.EOF); w.err != nil {`, `		if w.err = w.bill.came(nil, false); w.err != nil {`, "./netpolicy", "TestSwapBegins"},
	{"model bill: what is over asks nothing any more", "netpolicy/bill.go", `	if b.over {
		return errOver
	}
`, ``, "./netpolicy", "TestBillIsOver"},
	{"model bill: no bound above what a model writes", "netpolicy/meter/asked.go", `int64(min(f, MostWritten))`, `int64(f)`, "./netpolicy/meter", "TestAsked$"},
	{"model bill: what could not be kept is not booked later", "core/task/modelcalls.go", `		c.wire.q.forgetCall(c.name, false) // it`, `		// it`, "./core/task", "TestCallThatCannotBeKept"},
	{"model bill: half a question may become any", "netpolicy/meter/asked.go", `	if a.End == 0 {
		u.Model`, `	if a.End == 0 && a.depth == 0 {
		u.Model`, "./netpolicy/meter", "TestAtMost"},
	{"model bill: a picture's base64 is no text", "netpolicy/meter/picture.go", `		return s.data.picture(), s.data.size, true`, `		return s.data.picture(), 0, true`, "./netpolicy/meter", "TestPictures"},
	{"model bill: what a tool is called with is text", "netpolicy/meter/asked.go", `		default:
			f.side = true`, `		default:
			f.side = false`, "./netpolicy/meter", "TestPictures"},
	{"model bill: a call keeps room for what it may cost itself", "core/task/modelcalls.go", `	c.out[call] = most
	return nil, nil`, `	c.out[call] = budget.Whole(180)
	return nil, nil`, "./core/task", "TestModelCallsTakeTurns"},
	{"model bill: calls that are out count", "core/task/modelcalls.go", `		sum = sum.Add(cents)`, `		sum = sum.Add(cents).Sub(cents)`, "./core/task", "TestModelCallsTakeTurns"},
	{"model bill: a call that was out at a kill is booked", "core/task/queue.go", `	if err := t.bookKept(ctx); err != nil {`, `	if err := error(nil); err != nil {`, "./test/model", "^TestRestart$"},
	{"model bill: and only once", "core/task/keptcalls.go", `		if !booked[name] {`, `		if !booked[name] || true {`, "./test/model", "^TestRestart$"},
	{"model bill: a call that was free is gone for good", "core/task/keptcalls.go", `	if booked {
		remove`, `	if booked || !booked {
		remove`, "./core/task", "TestKeptCallsOutliveAPowerCut"},
	{"model bill: what was not booked stays for the next start", "core/task/modelcalls.go", `	if c.kept && !c.lost {`, `	if c.kept {`, "./core/task", "TestCallsThatAreOver"},
	{"model bill: all that is read may go into the cache", "core/budget/prices.go", `{{Input: read, Output: written}, {CacheWrite: read, Output: written}}`, `{{Input: read, Output: written}}`, "./core/budget", "TestAtMost"},
	{"model bill: a block that may be hidden", "netpolicy/meter/meter.go", `		m.hidden = m.hidden || v.Block.Type != "text" && v.Block.Type != "tool_use"
`, "", "./netpolicy/meter", "TestHidden"},
	{"model bill: of two bounds the higher", "netpolicy/meter/asked.go", `max(a.Most, int64(min(f, MostWritten)))`, `int64(min(f, MostWritten))`, "./netpolicy/meter", "TestAsked"},
	{"model bill: an estimate is called one", "core/task/modelkey.go", `	if u.Estimate {`, `	if u.Estimate && false {`, "./test/model", "TestGivenUp"},
	{"model key: a stream that is broken off is not free", "netpolicy/meter/meter.go", `	if m.found && !m.counted {`, `	if m.found && !m.counted && false {`, "./netpolicy/meter", "TestStream"},
}

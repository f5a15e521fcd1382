package mutate

func init() { Guards = append(Guards, doors...) }

// doors are the guards of who may come in and what may get out: callers, hosts and origins, limits of requests, pairing, the vault.
var doors = []Guard{
	{"api: a route asks the rights table", "core/api/api.go", `	case who&kind != 0:`, `	case who != 0:`, "./core/api", "TestRights"},
	{"api: an uplink is never the screen", "core/api/caller.go", `	case *lanConn:
		l.lan = true`, `	case *lanConn:
		p, err := lookUp(c.Conn, s.own)
		l.peer, l.ok = p, err == nil && s.screenUser(p.uid)`, "./core/api", "TestUplinkIsNeverTheScreen"},
	{"api: a relayed request is not the screen's", "core/api/caller.go", `from == home && !forwarded(r) && s.isScreen`, `from == home && s.isScreen`, "./core/api", "TestHostAndOrigin"},
	{"api: a page without an origin has no right from its connection", "core/api/caller.go", `	if from == home && !forwarded`, `	if !forwarded`, "./core/api", "TestHostAndOrigin"},
	{"api: boxd's own connections are not the screen's", "core/api/peer.go", `p.uid == uint32(os.Geteuid()) && own(p.inode)`, `false && own(p.inode)`, "./core/api", "TestWhoseConnection"},
	{"api: another user's connection is not the screen's", "core/api/caller.go", `err == nil && s.screenUser(p.uid)`, `err == nil`, "./core/api", "TestWhoseConnection"},
	{"api: root on a box is not the screen", "core/api/caller.go", `s.opt.RootIsScreen && uid == 0`, `uid == 0`, "./core/api", "TestWhoseConnection"},
	{"api: another site's page is refused", "core/api/guard.go", `!sameHost(origins[0], r.Host) || site`, `site`, "./core/api", "TestHostAndOrigin"},
	{"api: a foreign host name is refused", "core/api/guard.go", `if name == own || name == own+".local"`, `if name != "" || name == own+".local"`, "./core/api", "TestHostAndOrigin"},
	{"api: a foreign address is refused", "core/api/guard.go", `a.IsLoopback() || s.addrs.has(a)`, `a.IsValid()`, "./core/api", "TestHostAndOrigin"},
	{"api: a wrong token is refused on the screen too", "core/api/caller.go", `		if errors.Is(err, device.ErrToken) {
			return`, `		if errors.Is(err, device.ErrToken) {
			return caller{kind: screen}, nil
		}
		if err != nil {
			return`, "./core/api", "TestHostAndOrigin"},
	{"api: two tokens are one too many", "core/api/caller.go", `len(values)+len(inQuery) > 1`, `len(values)+len(inQuery) > 9`, "./core/api", "TestTokens"},
	{"api: an object with a value is no key itself", "core/api/vault.go", `	if meant || kind ==`, `	if meant && v.Value != nil || kind ==`, "./core/api", "TestEveryRoute"},
	{"api: who answers can be read", "core/api/tasks.go", `		if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {`, `		if strings.ContainsFunc(name, func(r rune) bool { return r == 0 && !unicode.IsPrint(r) }) {`, "./core/api", "TestEveryRoute"},
	{"api: an unknown parameter is refused", "core/api/api.go", `	if err := c.known(); err != nil {`, `	if err := error(nil); err != nil {`, "./core/api", "TestUnknownParameters"},
	{"files: a name that is put in is text", "sandbox/layers/writer.go", `	if !utf8.ValidString(name) {`, `	if !utf8.ValidString(name) && name == "" {`, "./core/api", "TestEveryRoute"},
	{"api: a device removes only itself", "core/api/pairing.go", `c.caller.kind == member && id != c.caller.device.ID`, `c.caller.kind == member && id == ""`, "./core/api", "TestEveryRoute"},
	{"api: a device answers with its own name", "core/api/tasks.go", `if c.caller.kind == screen && name != "" {`, `if name != "" {`, "./core/api", "TestEveryRoute"},
	{"api: a device follows tasks and approvals only", "core/api/log.go", `	if c.caller.kind == member {`, `	if c.caller.kind == none {`, "./core/api", "TestEventsOfADevice"},
	{"api: a removed device's stream ends", "core/api/log.go", `		case <-c.caller.gone:
			return false
`, "", "./core/api", "TestEventsOfADevice"},
	{"api: a stream goes on behind Last-Event-ID", "core/api/log.go", `c.r.Header.Get("Last-Event-ID"); last != ""`, `c.r.Header.Get("Last-Event-ID"); last == "none"`, "./core/api", "TestEvents"},
	{"api: a feed is bounded", "core/api/log.go", `		if len(f.buf) < chunk {`, `		if len(f.buf) < 1<<40 {`, "./core/api", "TestFeedIsBounded"},
	{"api: a body has a limit", "core/api/api.go", `	if c.r.ContentLength > most {`, `	if c.r.ContentLength > most<<30 {`, "./core/api", "TestEveryRoute"},
	{"api: a body that lies about its length has a limit", "core/api/serve.go", `	if int64(n) <= l.left {`, `	if n >= 0 {`, "./core/api", "TestBodyWithoutLength"},
	{"api: a dripping body is let go", "core/api/stream.go", `	b.rc.SetReadDeadline(b.began.Add(grace`, `	b.rc.SetReadDeadline(time.Now().Add(grace`, "./core/api", "TestSlowClients"},
	{"api: a client that reads nothing is let go", "core/api/stream.go", `	w.rc.SetWriteDeadline(time.Now().Add(grace))`, `	w.rc.SetWriteDeadline(time.Time{})`, "./core/api", "TestSlowClients"},
	{"api: a mistake in a key's body tells none of it", "core/api/vault.go", `		return "", bad(noValue)`, `		return "", bad("%s: %s", noValue, body)`, "./core/api", "TestPlantedVaultValue"},
	{"pairing: a code pairs once", "core/device/code.go", `			hit = o
			continue`, `			hit = o`, "./core/device", "TestCodes"},
	{"pairing: a code ends", "core/device/code.go", `		if !now.Before(o.ExpiresAt) {`, `		if false {`, "./core/device", "TestCodes"},
	{"pairing: wrong tries end a code", "core/device/code.go", `if o.wrong++; o.wrong < WrongMost {`, `if o.wrong++; o.wrong < 100*WrongMost {`, "./core/device", "TestCodes"},
	{"pairing: an address's tries are limited", "core/device/code.go", `.take(now, addrTries); !ok`, `.take(now, 1000*addrTries); !ok`, "./core/device", "TestTriesAreLimited"},
	{"pairing: all tries are limited", "core/device/code.go", `c.all.take(now, allTries); !ok`, `c.all.take(now, 1000*allTries); !ok`, "./core/device", "TestTriesAreLimited"},
	{"pairing: the box keeps no token", "core/device/device.go", `		Token:  hex.EncodeToString(sum[:]),`, `		Token:  hex.EncodeToString(sum[:]) + token,`, "./core/device", "TestPairCheckRemove"},
	{"pairing: no device has a name of the box's own", "core/device/device.go", `	case slices.Contains(reserved, strings.ToLower(name)) ||`, `	case false && slices.Contains(reserved, name) ||`, "./core/device", "TestNamesAreToldApart"},
	{"vault: no other may read it", "core/vault/vault.go", `	case mode&0o077 != 0:`, `	case mode&0o007 != 0:`, "./core/vault", "TestFilesThatAreRefused"},
	{"vault: it is root's", "core/vault/vault.go", `	case st.Uid != 0:`, `	case st.Uid == 1:`, "./core/vault", "TestFilesThatAreRefused"},
	{"vault: its folder is root's", "core/vault/vault.go", `dir.Uid != 0 || dir.Mode&0o022 != 0`, `dir.Uid != 0`, "./core/vault", "TestFilesThatAreRefused"},
	{"vault: a link is no vault", "core/vault/vault.go", `	if err := unix.Lstat(path, &st); err != nil {`, `	if err := unix.Stat(path, &st); err != nil {`, "./core/vault", "TestFilesThatAreRefused"},
	{"vault: it stays root's alone when a key is set", "core/vault/vault.go", `durable.Replace(v.disk, v.path, b.Bytes(), 0o600)`, `durable.Replace(v.disk, v.path, b.Bytes(), 0o644)`, "./core/vault", "TestSetGetDelete"},
	{"vault: a short value is refused", "core/vault/vault.go", `	case utf8.RuneCountInString(value) < MinValue:`, `	case len(value) < MinValue:`, "./core/vault", "TestValuesThatAreRefused"},
	{"vault: a value has one line", "core/vault/vault.go", `	case !printable(value):
		return &Invalid`, `	case !utf8.ValidString(value):
		return &Invalid`, "./core/vault", "TestValuesThatAreRefused"},
	{"leak: base64 at each offset", "core/leak/leak.go", `	for offset := range 3 {`, `	for offset := range 2 {`, "./core/leak", "TestEverySpellingIsFound"},
	{"leak: hex in capitals", "core/leak/leak.go", `!strings.EqualFold(text[i:i+have], n.text[:have])`, `text[i:i+have] != n.text[:have]`, "./core/leak", "TestEverySpellingIsFound"},
	{"leak: a short value only where it stands alone", "core/leak/leak.go", `		if wordBefore(text[:i]) {`, `		if false {`, "./core/leak", "TestOrdinaryTextIsLeftAlone"},
	{"leak: a key that holds another goes first", "core/leak/leak.go", `cmp.Compare(b.whole, a.whole)`, `cmp.Compare(a.whole, b.whole)`, "./core/leak", "TestLongestFirst"},
	{"strict: a field twice is refused", "core/strict/strict.go", `		if seen[name] {`, `		if seen[name] && depth < 0 {`, "./core/strict", "TestDecodeRefusals"},
	{"strict: nesting ends", "core/strict/strict.go", `opens && depth >= MaxDepth {`, `opens && depth > MaxDepth {`, "./core/strict", "TestDecodeRefusals"},
	{"strict: names are exact", "core/strict/strict.go", `			if ft, ok = known[name]; !ok {`, `			if ft, ok = known[strings.ToLower(name)]; !ok {`, "./core/strict", "TestDecodeRefusals"},
	{"settings: all or none", "core/settings/settings.go", `		if err := apply(&next, n, to[n]); err != nil {`, `		if err := apply(&s.values, n, to[n]); err != nil {`, "./core/settings", "TestChange"},
	{"settings: a newer file is left alone", "core/settings/settings.go", `	if f.Version > version {`, `	if f.Version > version+1 {`, "./core/settings", "TestFilesThatAreRefused"},
	{"files: a setting that a crash kept out of the log", "core/api/mend.go", `	if set := settingsUnlike(known.Settings, s.opt.Settings.Values()); len(set) > 0 {`, `	if set := settingsUnlike(known.Settings, s.opt.Settings.Values()); len(set) > 99 {`, "./core/api", "TestNoChangeWithoutALine"},
	{"files: a key that a crash kept out of the log", "core/api/mend.go", `ok && at == k.SetAt {`, `ok && at != "" {`, "./core/api", "TestNoChangeWithoutALine"},
	{"files: a key's removal that a crash kept out of the log", "core/api/mend.go", `		if !have[name] {`, `		if have[name] {`, "./core/api", "TestNoChangeWithoutALine"},
	{"files: a device whose pairing has no line is removed", "core/api/mend.go", `		if _, err := s.opt.Devices.Remove(d.ID); err != nil && !errors.Is(err, device.ErrMissing) {`, `		if err := error(nil); err != nil && !errors.Is(err, device.ErrMissing) {`, "./core/api", "TestNoChangeWithoutALine"},
	{"files: a pairing without a line is none", "core/api/pairing.go", `		_, rerr := s.opt.Devices.Remove(d.ID)`, `		rerr := error(nil)`, "./core/api", "TestPairingWithoutALineIsNone"},
	{"files: a workspace made by hand has a line", "core/api/mend.go", `		if !known.Spaces[w.Name] {`, `		if known.Spaces[w.Name] {`, "./core/api", "TestChangesByHandHaveALine"},
	{"vault: another value has another time", "core/vault/vault.go", `	if at == before {`, `	if at < before {`, "./core/vault", "TestAnotherValueHasAnotherTime"},
	{"vault: a time belongs to its value", "core/vault/vault.go", `!ok || told && sum != sumOf(value) {`, `!ok || told && sum == "" {`, "./core/vault", "TestAnotherValueHasAnotherTime"},
	{"workspaces: a link is none", "core/workspace/workspace.go", `unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS`, `0`, "./core/workspace", "TestLinksAreNoWorkspaces"},
}

package mutate

func init() { Guards = append(Guards, pages...) }

// pages are the guards around apps' pages: their windows, what their requests reach, and what their answers may do to a browser.
var pages = []Guard{
	{"window: it lasts 12 hours", "core/window/window.go", `return !w.now().Before(win.Expires)`, `return false`, "./core/window", "TestLife"},
	{"window: it ends with its device", "core/window/window.go", `	case <-w.gone(win.By):
		return true`, `	case <-w.gone(win.By):
		return false`, "./core/window", "TestEndsWithItsDevice"},
	{"window: there are at most a thousand", "core/window/window.go", `for w.order.Len() >= Most {`, `for w.order.Len() >= 2*Most {`, "./core/window", "TestOldestGoes"},
	{"window: one that has ended takes no live one's place", "core/window/window.go", `	w.sweep()
	for`, `	for`, "./core/window", "TestOldestGoes"},
	{"window: it has no right while its app is off", "core/api/caller.go", `!ok || !a.On {`, `!ok || a.Name == "" {`, "./core/api", "TestWindowEnds"},
	{"window: its right is never more than its opener's", "core/api/api.go", `who&window != 0 && who&c.caller.opener == 0:`, `who == 0:`, "./core/api", "TestWindowIsNarrower"},
	{"window: it reaches its own app alone", "core/api/serve.go", `if c.caller.kind == window && c.caller.app != name {`, `if false && c.caller.app != name {`, "./core/api", "TestWindowRights"},
	{"window: it calls no webhook", "core/api/routes.go", `Path: "/hook/{app}/{name}", Who: paired,`, `Path: "/hook/{app}/{name}", Who: paired | window,`, "./core/api", "TestWindowRights"},
	{"window: it answers its own app's requests alone", "core/api/tasks.go", `	if t.App == c.caller.app {`, `	if t.App != "" {`, "./core/api", "TestWindowAnswers"},
	{"window: a request of no app is not its", "core/api/tasks.go", `	if t.App == c.caller.app {`, `	if t.App == c.caller.app || t.App == "" {`, "./core/api", "TestWindowAnswers"},
	{"window: it can't say whose answer it is", "core/api/tasks.go", `if c.caller.kind == screen && name != "" {`, `if c.caller.self() == screen && name != "" {`, "./core/api", "TestWindowAnswers"},
	{"window: a running call ends with it", "core/api/serve.go", `		case <-c.caller.gone:
		case <-s.ending:`, `		case <-s.ending:`, "./core/api", "TestCallEndsWithTheDevice"},
	{"window: a browser with more than its right gets one", "core/api/serve.go", `|| !navigates(c.r) || c.caller.kind&(window|none) != 0 {`, `|| !navigates(c.r) || c.caller.kind != 0 {`, "./core/api", "TestExchange"},
	{"routes: one that isn't open needs a token", "core/api/serve.go", `if !found || !route.Open {`, `if !found {`, "./core/api", "TestAppCallers"},
	{"routes: the owner can close the open ones", "core/api/serve.go", `	if rights.Allowed(permission.Strangers) {`, `	if rights.DiskCap() > 0 {`, "./core/api", "TestStrangers"},
	{"routes: strangers don't fill the log", "core/api/serve.go", `ok && now.Sub(last) < refusalEvery {`, `ok && now.Sub(last) < 0 {`, "./core/api", "TestStrangers"},
	{"routes: a stranger's body is smaller", "core/api/api.go", `if c.caller.kind == none && c.route.Strangers != 0 {`, `if false && c.route.Strangers != 0 {`, "./core/api", "TestAppBodies"},
	{"routes: an app doesn't see a token in the address", "core/api/caller.go", `		r.URL.RawQuery = strings.Join(rest, "&")
`, ``, "./core/api", "TestRequestAsTheAppSeesIt"},
	{"routes: an app sees no cookie", "core/api/serve.go", `		"Cookie", "Proxy-Authorization",`, `		"Proxy-Authorization",`, "./core/api", "TestRequestAsTheAppSeesIt"},
	{"routes: an app sees no token by another header", "core/api/serve.go", `		h.Del("Referer")
`, ``, "./core/api", "TestRequestAsTheAppSeesIt"},
	{"routes: a caller can't say who it is", "core/api/serve.go", `		if strings.HasPrefix(name, "X-Box-") {`, `		if name == "X-Box-Caller" {`, "./core/api", "TestRequestAsTheAppSeesIt"},
	{"routes: no page has a service worker", "core/api/serve.go", `	case c.r.Header.Get("Service-Worker") != "":`, `	case c.r.Header.Get("Service-Worker") == "none":`, "./core/api", "TestNoServiceWorker"},
	{"pages: whatever the box says under /t/ and /kit/ is sandboxed", "core/api/api.go", `		c.w.Header().Set("Content-Security-Policy", sandboxed)
`, ``, "./core/api", "TestSandboxIsOnEveryAnswer"},
	{"pages: a path that isn't clean is sandboxed too", "core/api/frame.go", `[]string{p, path.Clean("/" + p)}`, `[]string{p, path.Clean("/" + p)[:1]}`, "./core/api", "TestSandboxIsOnEveryAnswer"},
	{"pages: a type is inert as a whole", "core/api/frame.go", `charset="?[a-z0-9_-]+"?)?$`, `charset="?[a-z0-9_-]+"?)?`, "./core/api", "TestSandboxIsOnEveryAnswer"},
	{"pages: an error is never without the sandbox", "core/api/frame.go", ` && status < 400:`, `:`, "./core/api", "TestSandboxIsOnEveryAnswer"},
	{"pages: none is sent on by a header", "core/api/frame.go", `	"Refresh", "Link", "Speculation-Rules",`, `	"Link", "Speculation-Rules",`, "./core/api", "TestHeadersOfApps"},
	{"pages: two types are no type", "core/api/frame.go", `	if len(types) == 1 {`, `	if len(types) > 0 {`, "./core/api", "TestSandboxIsOnEveryAnswer"},
	{"pages: the box's policy stands beside the app's", "core/api/frame.go", `append([]string{sandboxed}, values...)`, `values`, "./core/api", "TestHeadersOfApps"},
	{"pages: only a listed route has the box's origin", "core/api/frame.go", `case html != nil && f.c.appRoute.OwnOrigin:`, `case html != nil:`, "./core/api", "TestSandboxIsOnEveryAnswer"},
	{"pages: only HTML has the box's origin", "core/api/frame.go", `case html != nil && f.c.appRoute.OwnOrigin:`, `case f.c.appRoute.OwnOrigin:`, "./core/api", "TestOwnOrigin"},
	{"pages: no header reaches beyond the answer", "core/api/frame.go", `case slices.Contains(notPassed, name), `, `case slices.Contains(notPassed[:0], name), `, "./core/api", "TestHeadersOfApps"},
	{"pages: an app doesn't say who may read", "core/api/frame.go", `strings.HasPrefix(name, "Access-Control-"), name`, `name == "Access-Control", name`, "./core/api", "TestHeadersOfApps"},
	{"pages: an app leads nobody through the box", "core/api/frame.go", `!strings.HasPrefix(path.Clean(u.Path)+"/", "/t/"+f.c.app.Name+"/"):`, `u.Path == "":`, "./core/api", "TestRedirects"},
	{"pages: an app leads nobody to another app", "core/api/frame.go", `"/t/"+f.c.app.Name+"/")`, `"/t/")`, "./core/api", "TestRedirects"},
	{"pages: a redirect takes the token to no other host", "core/api/frame.go", `case u.Host != "" && !sameHost(`, `case u.Host == "none" && !sameHost(`, "./core/api", "TestRedirects"},
	{"pages: another spelling of the box is no other host", "core/api/frame.go", `case u.Host != "" && !plainHost(u.Hostname()):`, `case u.Host == "none" && !plainHost(u.Hostname()):`, "./core/api", "TestRedirects"},
	{"pages: dots of a path count however they are written", "core/api/frame.go", `strings.HasPrefix(path.Clean(u.Path)+"/",`, `strings.HasPrefix(u.Path+"/",`, "./core/api", "TestRedirects"},
	{"pages: an address that a browser reads otherwise is none", "core/api/frame.go", `if err != nil || strings.ContainsAny(to, `, `if err != nil || to == "" && strings.ContainsAny(to, `, "./core/api", "TestRedirects"},
	{"pages: the script comes behind the document type", "core/api/inject.go", `			return i + end + 1, true`, `			return i, true`, "./core/api", "TestScriptIsFirst"},
	{"pages: only those without an origin read the answers", "core/api/cors.go", `return len(o) == 1 && o[0] == "null"`, `return len(o) == 1`, "./core/api", "TestSharing"},
	{"pages: the API is read with a token alone", "core/api/caller.go", `	if given {
		c.share()`, `	if given || r != nil {
		c.share()`, "./core/api", "TestSharing"},
}

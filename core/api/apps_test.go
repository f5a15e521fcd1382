package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gurtos/core/app"
	"gurtos/core/approval"
	"gurtos/core/permission"
	"gurtos/core/task"
)

// theApps are apps whose routes are handlers of this process, for what this package
// does around an app. test/pages has real ones.
type theApps struct {
	mu   sync.Mutex
	on   map[string]bool // guarded by mu
	hits int             // guarded by mu; requests that reached an app
	url  string          // guarded by mu; what the last of them asked for

	info    map[string]app.Info
	folders map[string]app.Info                    // that came since
	routes  map[string]map[string]http.HandlerFunc // by app and key
	marks   map[string]app.Route                   // of the routes that are open or have the box's origin, by app and key
	hooks   map[string]func(headers map[string]string, body json.RawMessage) (json.RawMessage, error)
	serve   http.HandlerFunc // instead of the routes
}

func (a *theApps) List() (out []app.Info) {
	for _, name := range []string{"other", "shop"} {
		i, _ := a.Find(name)
		out = append(out, i)
	}
	return out
}

func (a *theApps) Find(name string) (app.Info, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i, ok := a.info[name]
	i.On = a.on[name]
	return i, ok
}

func (a *theApps) Switch(_ context.Context, name string, on bool, _ string) error {
	if on && a.info[name].Error != "" {
		return &app.Refusal{Status: 400, Sentence: a.info[name].Error}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.info[name]; !ok {
		if found, new := a.folders[name]; new && on {
			a.info[name] = found
		} else {
			return &app.Refusal{Status: 404, Sentence: "there is no app " + name}
		}
	}
	a.on[name] = on
	return nil
}

func (a *theApps) Printed(_ context.Context, name string, _ bool, write func([]byte) error) error {
	return write([]byte(name + " prints\n"))
}

func (a *theApps) Heed(context.Context, string) error { return nil }

func (a *theApps) Route(name, method, path string) (app.Route, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := method + " " + path
	if !a.on[name] || a.routes[name][key] == nil {
		return app.Route{}, false
	}
	r := a.marks[name+" "+key]
	r.Key = key
	return r, true
}

func (a *theApps) Serve(w http.ResponseWriter, r *http.Request, name string, route app.Route) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // as the registry does: nobody is there to hear it
	}
	a.mu.Lock()
	a.hits++
	a.url = r.Method + " http://" + r.Host + r.URL.RequestURI()
	handle := a.routes[name][route.Key]
	a.mu.Unlock()
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	if a.serve != nil {
		handle = a.serve
	}
	handle(w, r)
}

func (a *theApps) Hook(_ context.Context, name, hook string, headers map[string]string, body json.RawMessage) (json.RawMessage, error) {
	h := a.hooks[name+" "+hook]
	if h == nil {
		return nil, &app.Refusal{Status: 404, Sentence: "shop has no webhook " + hook}
	}
	return h(headers, body)
}

// answers is a route that says the same each time.
func answers(kind string, status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		io.WriteString(w, text)
	}
}

// twoApps are shop, which has something of everything, and other.
func twoApps() *theApps {
	a := &theApps{
		on: map[string]bool{"shop": true},
		info: map[string]app.Info{
			"shop": {
				Name: "shop", Title: "Shop", Description: "Sells.", Tools: []string{"shop.buy"}, Secrets: []app.Secret{{Name: "SHOP_KEY", Set: true}},
				Apps: []app.Page{{Name: "shop", Title: "Shop", Href: "/"}}, Hosts: []string{"shop.example.com"}, OpenRoutes: []string{"GET /open"},
			},
			"other":  {Name: "other", Title: "Other"},
			"broken": {Name: "broken", Error: "track.ts throws while it loads"},
		},
		routes: map[string]map[string]http.HandlerFunc{
			"other": {"GET /": answers("text/html", 200, "<p>other</p>")},
			"shop": {
				"GET /":      answers("text/html", 200, "<!doctype html><title>Shop</title>"),
				"GET /none":  answers("text/html", 404, "<p>none"),
				"GET /json":  answers("application/json", 200, `{}`),
				"GET /pass":  answers("text/html", 200, "<!doctype html><title>Pass</title>"),
				"GET /open":  answers("application/json", 200, `"open"`),
				"POST /open": answers("application/json", 200, `"open"`),
				"GET /who": func(w http.ResponseWriter, r *http.Request) {
					json.NewEncoder(w).Encode(r.Header)
				},
				"POST /who": func(w http.ResponseWriter, r *http.Request) {
					fmt.Fprintf(w, "%q", r.Header["X-Box-Caller"])
				},
				"PUT /x": answers("text/plain", 200, "put"), "PATCH /x": answers("text/plain", 200, "patched"), "DELETE /x": answers("text/plain", 200, "deleted"),
			},
		},
		marks: map[string]app.Route{"shop GET /open": {Open: true}, "shop POST /open": {Open: true}, "shop GET /pass": {OwnOrigin: true}},
	}
	a.hooks = map[string]func(map[string]string, json.RawMessage) (json.RawMessage, error){
		"shop push": func(h map[string]string, body json.RawMessage) (json.RawMessage, error) {
			return json.Marshal(map[string]any{"caller": h["x-box-caller"], "body": body})
		},
		"shop quiet": func(map[string]string, json.RawMessage) (json.RawMessage, error) { return nil, nil },
		"shop throws": func(map[string]string, json.RawMessage) (json.RawMessage, error) {
			return nil, &app.Refusal{Status: 500, Sentence: "it threw"}
		},
	}
	return a
}

// opened opens a window on an app and gives its token.
func (b *box) opened(as who, name string) string {
	b.t.Helper()
	var w WindowToken
	b.into(req{as: as, method: "POST", path: "/api/apps/" + name + "/window"}, &w)
	return w.Token
}

// asWindow is the header of a page's own request.
func asWindow(token string) map[string]string {
	return map[string]string{"Authorization": "Bearer " + token, "Origin": "null", "Sec-Fetch-Site": "cross-site"}
}

func TestAppsList(t *testing.T) {
	b := newBox(t)
	var on, all []App
	b.into(req{as: member, method: "GET", path: "/api/apps"}, &on)
	if len(on) != 1 || on[0].Name != "shop" || !on[0].On || on[0].Apps[0] != (Icon{"shop", "Shop", "/"}) || on[0].Secrets[0].Name != "SHOP_KEY" {
		t.Errorf("%+v", on)
	}
	b.into(req{as: owner, method: "GET", path: "/api/apps?all=1"}, &all)
	if len(all) != 2 || all[0].On || !all[1].On {
		t.Errorf("%+v", all)
	}
	var other App
	b.into(req{as: owner, method: "PUT", path: "/api/apps/other", body: `{"on":true}`}, &other)
	if other.Name != "other" || !other.On {
		t.Errorf("%+v", other)
	}
	if got := b.do(req{as: screen, method: "GET", path: "/t/other/"}); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
	b.into(req{as: owner, method: "PUT", path: "/api/apps/other", body: `{"on":false}`}, &other)
	if got := b.do(req{as: screen, method: "GET", path: "/t/other/"}); got.status != 404 || !strings.Contains(got.body, "is off") {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// What a window's token reaches is this list, whoever opened it, and nothing else of the
// table.
func TestWindowRights(t *testing.T) {
	b := newBox(t)
	may := map[string]bool{
		"GET /": true, "GET /api/health": true, "GET /api/openapi.json": true, "GET /kit/{file}": true, "POST /api/pair": true, // anybody's
		"GET /api/tasks": true, "GET /api/tasks/{id}": true, "GET /api/approvals": true, "POST /api/approvals/{id}": true,
		"GET /t/{app}/{path...}": true, "POST /t/{app}/{path...}": true, "PUT /t/{app}/{path...}": true, "PATCH /t/{app}/{path...}": true, "DELETE /t/{app}/{path...}": true,
	}
	for _, as := range []who{screen, owner, member} {
		head := asWindow(b.opened(as, "shop"))
		for i := range Routes {
			r := &Routes[i]
			path := strings.NewReplacer("{id}", "x", "{name}", "x", "{app}", "shop", "{path...}", "x", "{file}", "page.js").Replace(r.Path)
			got := b.do(req{method: r.Method, path: path, header: head})
			switch refused := got.status == 401 || got.status == 403; {
			case may[r.name()] && refused:
				t.Errorf("%s in a window of %v: %d %s", r.name(), callers(as), got.status, got.body)
			case !may[r.name()] && (got.status != 403 || !strings.Contains(got.body, "an app's window may use only its own routes")):
				t.Errorf("%s in a window of %v: %d %s", r.name(), callers(as), got.status, got.body)
			}
			if got.header.Get("Access-Control-Allow-Origin") != "null" {
				t.Errorf("%s: the page can't read the answer", r.name())
			}
		}
		for _, path := range []string{"/t/other/", "/t/none/", "/t/broken/"} {
			if got := b.do(req{method: "GET", path: path, header: head}); got.status != 403 {
				t.Errorf("%s in shop's window: %d %s", path, got.status, got.body)
			}
		}
	}
}

func TestWindowCallsAsItsOpener(t *testing.T) {
	b := newBox(t)
	for as, want := range map[who]string{screen: "screen", owner: "owner", member: "device:" + b.id[member]} {
		for _, r := range []req{
			{method: "POST", path: "/t/shop/who", header: asWindow(b.opened(as, "shop"))},
			{as: as, method: "POST", path: "/t/shop/who"},
		} {
			r.header = with(r.header, "X-Box-Caller", "owner", "X-Box-Person", "p1")
			if got := b.do(r); got.body != fmt.Sprintf("[%q]", want) {
				t.Errorf("%v: %s", callers(as), got.body)
			}
		}
	}
}

// with is a header with more in it.
func with(h map[string]string, pairs ...string) map[string]string {
	out := map[string]string{}
	for k, v := range h {
		out[k] = v
	}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

// A window ends with the device that opened it, and has no right while its app is off.
func TestWindowEnds(t *testing.T) {
	b := newBox(t)
	const over = "this window has expired: close it and open the app again"
	ofMember, ofScreen := b.opened(member, "shop"), b.opened(screen, "shop")
	try := func(token, path string, status int) {
		t.Helper()
		got := b.do(req{method: "GET", path: path, header: asWindow(token)})
		if got.status != status || status == 401 && !strings.Contains(got.body, over) {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	try(ofMember, "/api/tasks", 200)
	if got := b.do(req{as: owner, method: "DELETE", path: "/api/devices/" + b.id[member]}); got.status != 200 {
		t.Fatal(got.body)
	}
	for _, path := range []string{"/api/tasks", "/t/shop/", "/api/health"} {
		try(ofMember, path, 401)
		try("w"+strings.Repeat("A", 43), path, 401)
		try(ofScreen, path, 200)
	}
	b.into(req{as: screen, method: "PUT", path: "/api/apps/shop", body: `{"on":false}`}, new(App))
	try(ofScreen, "/api/tasks", 401)
	try(ofScreen, "/t/shop/", 401)
	b.into(req{as: screen, method: "PUT", path: "/api/apps/shop", body: `{"on":true}`}, new(App))
	try(ofScreen, "/api/tasks", 200)
}

// A route's call ends with the right of the caller, however long it would go on.
func TestCallEndsWithTheDevice(t *testing.T) {
	b := newBox(t)
	ended := make(chan struct{})
	b.apps.routes["shop"]["GET /long"] = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(ended)
	}
	hr, err := http.NewRequestWithContext(t.Context(), "GET", b.url+"/t/shop/long?access_token="+b.opened(member, "shop"), nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := http.DefaultTransport.RoundTrip(hr)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b.do(req{as: owner, method: "DELETE", path: "/api/devices/" + b.id[member]})
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the call goes on without its device")
	}
}

// A device that is removed before the app has answered is told so.
func TestDeviceGoesBeforeTheAnswer(t *testing.T) {
	b := newBox(t)
	came := make(chan struct{})
	b.apps.serve = func(_ http.ResponseWriter, r *http.Request) {
		close(came)
		<-r.Context().Done()
	}
	r := req{method: "GET", path: "/t/shop/json", header: asWindow(b.opened(member, "shop"))}
	answer := make(chan res)
	go func() {
		got, err := b.try(r)
		if err != nil {
			t.Error(err)
		}
		answer <- got
	}()
	<-came
	b.do(req{as: owner, method: "DELETE", path: "/api/devices/" + b.id[member]})
	if got := <-answer; got.status != 401 || !strings.Contains(got.body, "this window has expired") {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// A window has at most its opener's right, whatever the table says of windows.
func TestWindowIsNarrower(t *testing.T) {
	b := newBox(t)
	path := b.srv.routes.paths["/api/tasks"]
	narrow := *path.by["GET"]
	narrow.Who = owners | window
	path.by["GET"] = &narrow
	for as, want := range map[who]int{screen: 200, owner: 200, member: 403} {
		if got := b.do(req{method: "GET", path: "/api/tasks", header: asWindow(b.opened(as, "shop"))}); got.status != want {
			t.Errorf("in a window of %v: %d %s", callers(as), got.status, got.body)
		}
	}
}

// A service worker would stand between the box and its pages.
func TestNoServiceWorker(t *testing.T) {
	b := newBox(t)
	for _, path := range []string{"/t/shop/json", "/t/shop/pass"} {
		got := b.do(req{as: screen, method: "GET", path: path, header: map[string]string{"Service-Worker": "script"}})
		if got.status != 403 || !strings.Contains(got.body, "no service worker") {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}

// A page answers the requests of tasks that its app started; of others it learns which
// task the shell is to open.
func TestWindowAnswers(t *testing.T) {
	b := newBox(t)
	ask := func(app, key string) approval.Approval {
		t.Helper()
		made, err := b.tasks.Create(t.Context(), []byte(`{"title":"A task","worker":"fake","prompt":"sleep 1h"}`), task.Caller{App: app})
		if err != nil {
			t.Fatal(err)
		}
		b.until("running", func() bool {
			now, err := b.tasks.Get(t.Context(), made.ID)
			return err == nil && now.State == task.Running
		})
		a, err := b.tasks.Ask(t.Context(), approval.Approval{ID: made.ID + ".task." + key, Task: made.ID, Question: "May I?"})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for as, by := range map[who]string{screen: "box screen", member: "device phone"} {
		head := asWindow(b.opened(as, "shop"))
		own, others, none := ask("shop", "own"), ask("other", "others"), ask("", "none")
		for _, a := range []approval.Approval{others, none} {
			got := b.do(req{method: "POST", path: "/api/approvals/" + a.ID, body: `{"approved":true}`, header: head})
			if got.status != 403 || !strings.Contains(got.body, `"needs":"shell"`) || !strings.Contains(got.body, `"task":"`+a.Task+`"`) {
				t.Errorf("%d %s", got.status, got.body)
			}
			if now, err := b.tasks.Approval(t.Context(), a.ID); err != nil || now.State != approval.Pending {
				t.Errorf("%+v, %v", now, err)
			}
		}
		if got := b.do(req{method: "POST", path: "/api/approvals/none", body: `{"approved":true}`, header: head}); got.status != 404 {
			t.Errorf("%d %s", got.status, got.body)
		}
		// The page can't choose whose answer it is.
		var a approval.Approval
		b.into(req{method: "POST", path: "/api/approvals/" + own.ID, body: `{"approved":true,"by":"Ada's phone"}`, header: head}, &a)
		if a.State != approval.Approved || a.By != by {
			t.Errorf("%+v", a)
		}
	}
}

// Who may call which of an app's routes and webhooks.
func TestAppCallers(t *testing.T) {
	b := newBox(t)
	for _, c := range []struct {
		method, path string
		status       map[who]int
	}{
		{"GET", "/t/shop/json", map[who]int{screen: 200, owner: 200, member: 200, window: 200, none: 401}},
		{"GET", "/t/shop/open", map[who]int{screen: 200, owner: 200, member: 200, window: 200, none: 200}},
		{"HEAD", "/t/shop/open", map[who]int{screen: 200, owner: 200, member: 200, window: 200, none: 200}},
		{"POST", "/t/shop/open", map[who]int{screen: 200, owner: 200, member: 200, window: 200, none: 200}},
		{"POST", "/t/shop/who", map[who]int{screen: 200, owner: 200, member: 200, window: 200, none: 401}},
		{"DELETE", "/t/shop/open", map[who]int{screen: 405, owner: 405, member: 405, window: 405, none: 401}},
		{"GET", "/t/shop/nothing", map[who]int{screen: 404, owner: 404, member: 404, window: 404, none: 401}},
		{"GET", "/t/shop/json/", map[who]int{screen: 404, owner: 404, member: 404, window: 404, none: 401}},
		{"GET", "/t/other/", map[who]int{screen: 404, owner: 404, member: 404, window: 403, none: 401}},
		{"GET", "/t/none/", map[who]int{screen: 404, owner: 404, member: 404, window: 403, none: 401}},
		{"POST", "/hook/shop/push", map[who]int{screen: 200, owner: 200, member: 200, window: 403, none: 401}},
		{"POST", "/hook/shop/nothing", map[who]int{screen: 404, owner: 404, member: 404, window: 403, none: 401}},
		{"POST", "/hook/other/push", map[who]int{screen: 404, owner: 404, member: 404, window: 403, none: 401}},
		{"OPTIONS", "/t/shop/json", map[who]int{screen: 204, owner: 204, member: 204, window: 204, none: 204}},
		{"OPTIONS", "/hook/shop/push", map[who]int{screen: 204, owner: 204, member: 204, window: 204, none: 204}},
	} {
		for as, want := range c.status {
			r := req{as: as, method: c.method, path: c.path}
			if as == window {
				r.header = asWindow(b.opened(owner, "shop"))
			}
			if got := b.do(r); got.status != want {
				t.Errorf("%s %s as %v: %d %s, want %d", c.method, c.path, callers(as), got.status, got.body, want)
			}
		}
	}
	// A page without an origin has nothing from the screen's connection.
	for _, head := range []map[string]string{{"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}} {
		if got := b.do(req{as: screen, method: "GET", path: "/t/shop/json", header: head}); got.status != 401 {
			t.Errorf("%v: %d %s", head, got.status, got.body)
		}
		if got := b.do(req{as: screen, method: "GET", path: "/t/shop/open", header: head}); got.status != 200 {
			t.Errorf("%v: %d %s", head, got.status, got.body)
		}
	}
}

// Where the owner lets an app answer no strangers, its open routes need a token again.
func TestStrangers(t *testing.T) {
	b := newBox(t)
	set := func(allowed string) {
		t.Helper()
		if got := b.do(req{as: owner, method: "PUT", path: "/api/permissions/shop", body: `{"strangers":` + allowed + `}`}); got.status != 200 {
			t.Fatal(got.body)
		}
	}
	open := req{as: none, method: "GET", path: "/t/shop/open"}
	set("false")
	for range 3 {
		got := b.do(open)
		if got.status != 401 || !strings.Contains(got.body, permission.Refusal("Shop", permission.Strangers)) {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	if got := b.do(req{as: member, method: "GET", path: "/t/shop/open"}); got.status != 200 {
		t.Errorf("with a token: %d %s", got.status, got.body)
	}
	if n := strings.Count(b.wholeLog(), `"permission refused"`); n != 1 {
		t.Errorf("the log tells of it %d times", n)
	}
	set("true")
	if got := b.do(open); got.status != 200 {
		t.Errorf("allowed again: %d %s", got.status, got.body)
	}
}

func (b *box) wholeLog() string {
	b.t.Helper()
	return b.do(req{as: screen, method: "GET", path: "/api/log"}).body
}

// What an app sees of a request: who calls and what was asked, and none of the box's
// tokens or the browser's cookies.
func TestRequestAsTheAppSeesIt(t *testing.T) {
	b := newBox(t)
	token := b.opened(owner, "shop")
	for _, c := range []struct{ path, sees string }{
		{"/t/shop/who", "/t/shop/who"},
		{"/t/shop/who?access_token=" + token, "/t/shop/who"},
		{"/t/shop/who?b=2&access_token=" + token + "&a=%20+x&a", "/t/shop/who?b=2&a=%20+x&a"},
		{"/t/shop/who?%61ccess_token=" + token, "/t/shop/who"},
		{"/t/shop/who?x=%zz&access_token=" + token, "/t/shop/who?x=%zz"},
	} {
		head := map[string]string{"Cookie": "a=b", "Referer": b.url + "/t/shop/?access_token=" + token, "X-Own": "kept", "Accept-Encoding": "gzip", "X-Box-Person": "x"}
		if !strings.Contains(c.path, token) {
			head["Authorization"] = "Bearer " + token
		}
		got := b.do(req{as: none, method: "GET", path: c.path, header: head})
		if got.status != 200 {
			t.Fatalf("%s: %d %s", c.path, got.status, got.body)
		}
		var seen http.Header
		if err := json.Unmarshal([]byte(got.body), &seen); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"Authorization", "Cookie", "Referer", "Accept-Encoding", "X-Box-Person"} {
			if seen[name] != nil {
				t.Errorf("%s: the app sees %s: %q", c.path, name, seen[name])
			}
		}
		if !slices.Equal(seen["X-Box-Caller"], []string{"owner"}) || seen.Get("X-Own") != "kept" {
			t.Errorf("%s: %v", c.path, seen)
		}
		if want := "GET http://" + strings.TrimPrefix(b.url, "http://") + c.sees; b.apps.last() != want {
			t.Errorf("the app is asked for %q, not %q", b.apps.last(), want)
		}
	}
	for _, said := range []string{b.output.String(), b.wholeLog()} {
		if strings.Contains(said, token) {
			t.Error("a window's token is in a log")
		}
	}
	var seen struct{ Caller string }
	b.into(req{as: member, method: "POST", path: "/hook/shop/push", body: `{"a":1}`, header: map[string]string{"X-Box-Caller": "owner"}}, &seen)
	if seen.Caller != "device:"+b.id[member] {
		t.Errorf("a webhook is called by %q", seen.Caller)
	}
}

func (a *theApps) last() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.url
}

// Bodies that are too large never reach an app, and whoever sends one can still send it
// to its end and read why.
func TestAppBodies(t *testing.T) {
	b := newBox(t)
	for _, c := range []struct {
		name   string
		as     who
		path   string
		bytes  int
		status int
	}{
		{"at the limit", member, "/t/shop/who", appBody, 200},
		{"over it", member, "/t/shop/who", appBody + 1, 413},
		{"far over it", screen, "/t/shop/who", 4 * appBody, 413},
		{"a stranger's, at the limit", none, "/t/shop/open", strangerBody, 200},
		{"a stranger's, over it", none, "/t/shop/open", strangerBody + 1, 413},
		{"a stranger's that has no business here", none, "/t/shop/who", 100, 401},
		{"a paired device's to an open route", member, "/t/shop/open", strangerBody + 1, 200},
		{"to a webhook", owner, "/hook/shop/push", appBody + 1, 413},
	} {
		for _, chunked := range []bool{false, true} {
			hr, err := http.NewRequestWithContext(t.Context(), "POST", b.url+c.path, strings.NewReader(strings.Repeat("x", c.bytes)))
			if err != nil {
				t.Fatal(err)
			}
			if chunked {
				hr.ContentLength, hr.Body = -1, io.NopCloser(hr.Body)
			}
			switch c.as {
			case none:
				hr.Header.Set("Forwarded", "for=192.0.2.9")
			case screen:
			default:
				hr.Header.Set("Authorization", "Bearer "+b.token[c.as])
			}
			before := b.apps.count()
			a, err := http.DefaultTransport.RoundTrip(hr)
			if err != nil {
				t.Errorf("%s, chunked %v: %v", c.name, chunked, err)
				continue
			}
			text, err := io.ReadAll(a.Body)
			a.Body.Close()
			if err != nil || a.StatusCode != c.status {
				t.Errorf("%s, chunked %v: %d %s, %v", c.name, chunked, a.StatusCode, text, err)
			}
			if c.status == 413 && !strings.Contains(string(text), "the body is larger than") {
				t.Errorf("%s, chunked %v: %s", c.name, chunked, text)
			}
			if reached := b.apps.count() != before; reached != (c.status == 200) {
				t.Errorf("%s, chunked %v: it reached the app: %v", c.name, chunked, reached)
			}
		}
	}
}

func (a *theApps) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.hits
}

// A browser that opens a page with more than a window's right is sent on with a window's
// token in the address, which is all that the page can read there.
func TestExchange(t *testing.T) {
	b := newBox(t)
	open := func(as who, path string, head ...string) res {
		return b.do(req{as: as, method: "GET", path: path, header: with(map[string]string{"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "none", "Accept": "text/html"}, head...)})
	}
	for name, got := range map[string]res{
		"the screen":             open(screen, "/t/shop/?a=%20b"),
		"an owner's token":       open(none, "/t/shop/?a=%20b&access_token="+b.token[owner]),
		"over plain HTTP":        b.do(req{as: none, method: "GET", path: "/t/shop/?access_token=" + b.token[member] + "&a=%20b", header: map[string]string{"Accept": "text/html,*/*"}}),
		"a page of its own kind": open(none, "/t/shop/pass?a=%20b&access_token="+b.token[owner]),
	} {
		to := got.header.Get("Location")
		path, token, _ := strings.Cut(to, "?a=%20b&access_token=")
		if got.status != 303 || !strings.HasPrefix(path, "/t/shop/") || !strings.HasPrefix(token, "w") {
			t.Errorf("%s: %d to %q", name, got.status, to)
			continue
		}
		if got := open(none, to); got.status != 200 {
			t.Errorf("%s: then %d %s", name, got.status, got.body)
		}
	}
	for name, got := range map[string]res{
		"a script's request": b.do(req{as: screen, method: "GET", path: "/t/shop/"}),
		"a page's request":   open(owner, "/t/shop/", "Sec-Fetch-Mode", "cors"),
		"a window":           open(none, "/t/shop/?access_token="+b.opened(screen, "shop")),
		"an open route":      open(none, "/t/shop/open"),
	} {
		if got.status != 200 {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	for path, want := range map[string]int{"/t/shop/nothing": 404, "/t/none/": 404} {
		if got := open(screen, path); got.status != want {
			t.Errorf("%s: %d", path, got.status)
		}
	}
}

// A folder that came while boxd runs is found as it is turned on.
func TestNewAppIsTurnedOn(t *testing.T) {
	b := newBox(t)
	b.apps.folders = map[string]app.Info{"late": {Name: "late", Title: "Late"}}
	for _, c := range []struct {
		name, body string
		status     int
	}{{"late", `{"on":false}`, 404}, {"nope", `{"on":true}`, 404}, {"late", `{"on":true}`, 200}, {"late", `{"on":false}`, 200}} {
		if got := b.do(req{as: owner, method: "PUT", path: "/api/apps/" + c.name, body: c.body}); got.status != c.status {
			t.Errorf("%s %s: %d %s", c.name, c.body, got.status, got.body)
		}
	}
}

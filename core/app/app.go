package app

import (
	"context"
	"encoding/json"
	"net/http"

	"gurtos/core/app/declare"
	"gurtos/core/tool"
)

// ModelApp is the one app that is on when a box starts for the first time.
const ModelApp = "anthropic"

// Info is what may be shown of an app.
type Info struct {
	Name          string
	Title         string // for people
	Description   string // one or two sentences, at most 240 characters
	On            bool
	Reading       bool   // it is being read, after a start of the box that it was new to: nothing else is known yet
	Error         string // why it can't be used, or what its process last ended with; "" for neither
	RestartNeeded bool   // it was turned off, and a trigger of it runs until the box starts anew
	Test          bool   // it says that it uses test money, test data or a sandbox
	Tools         []string
	Secrets       []Secret // all that it, its tools and its jobs declare
	Apps          []Page
	Hosts         []string // that its tools declare
	Reached       []string // that it has reached since the box started, as host:port
	OpenRoutes    []string // keys of routes
	Spends        bool     // a tool of it has a price
}

// Secret is a vault key that an app declares.
type Secret struct {
	Name     string
	Set      bool // the vault has it
	Optional bool
}

// Page is an entry of the portal's app grid.
type Page = declare.Page

// Route is one that an app has.
type Route struct {
	Key       string // METHOD /path, as the app wrote it
	Open      bool   // needs no token
	OwnOrigin bool   // its page is not sandboxed
}

// Refusal is an error with a status for HTTP, in a sentence.
type Refusal struct {
	Status   int
	Sentence string
}

func (e *Refusal) Error() string { return e.Sentence }

// Refuser is a ResponseWriter that says in its own way, such as to a browser by a page,
// what Serve refuses.
type Refuser interface {
	Refuse(status int, sentence string)
}

var _ tool.Set = (*Registry)(nil)

// Open reads the apps and returns once all are known. No app runs until Start. An app
// that can't be read is in the list with its error and never an error of Open.
func Open(ctx context.Context, o Options) (*Registry, error) { return open(ctx, o) }

// List is every app by name, those that can't be used too.
func (r *Registry) List() []Info {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []Info{}
	for _, name := range r.order {
		out = append(out, r.info(r.apps[name]))
	}
	return out
}

// Find is one app.
func (r *Registry) Find(name string) (Info, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.apps[name]
	if !ok {
		return Info{}, false
	}
	return r.info(a), true
}

// Switch turns an app on or off, and has that in the log. Turning on one that is on
// reads it anew when its files changed. The error is a *Refusal where the app is to
// blame, and then it is as it was.
func (r *Registry) Switch(ctx context.Context, name string, on bool, by string) error {
	return r.turn(ctx, name, on, by)
}

// Route finds the route of an app that is on. The method and path have to be the same
// as the app wrote them.
func (r *Registry) Route(app, method, path string) (Route, bool) { return r.route(app, method, path) }

// Serve answers a request by an app's route. The caller's headers are set already, the
// path is still the whole one. A route that throws is answered with 500, a body that is
// too large with 413, and what the app sends is passed on as it comes.
func (r *Registry) Serve(w http.ResponseWriter, req *http.Request, app string, route Route) {
	r.serve(w, req, app, route)
}

// Hook hands a webhook's body and headers (names in lower case) to the app. A *Refusal
// with 404 says that the app has no such webhook now.
func (r *Registry) Hook(ctx context.Context, app, name string, headers map[string]string, body json.RawMessage) (json.RawMessage, error) {
	return r.hook(ctx, app, name, headers, body)
}

// Context is what the apps have to add to a Droid task's prompt before it starts: all
// of them together at most 8,000 characters.
func (r *Registry) Context(ctx context.Context, spec json.RawMessage) string {
	return r.taskContext(ctx, spec)
}

// Lookup finds a tool of an app that is on.
func (r *Registry) Lookup(name string) (tool.Tool, bool) { return r.tool(name) }

// Has says whether there is such a tool.
func (r *Registry) Has(name string) bool {
	_, ok := r.tool(name)
	return ok
}

// Title is what people call an app; its name where there is none.
func (r *Registry) Title(app string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a, ok := r.apps[app]; ok && a.build != nil {
		return a.build.made.Title()
	}
	return app
}

// Output is the last of what an app printed, without the vault's values.
func (r *Registry) Output(app string) string { return r.output(app) }

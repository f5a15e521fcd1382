package app

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"

	"gurtos/core/tool"
)

// Registry is every app of the box. Close it before the sandboxes' Host and the log.
type Registry struct {
	opt Options

	mu    sync.Mutex
	apps  map[string]*app // by name
	order []string        // names of apps
}

// app is one app.
type app struct {
	made *manifest
}

// manifest is what an app declares.
type manifest struct{ name string }

func (m *manifest) title() string { return m.name }

var errNotYet = &Refusal{http.StatusServiceUnavailable, "this build of the box runs no apps yet"}

func open(_ context.Context, o Options) (*Registry, error) {
	return &Registry{opt: o, apps: map[string]*app{}}, nil
}

// Start starts the apps that have triggers or log readers; the API answers by then.
func (r *Registry) Start() {}

// Close ends every app and waits for them.
func (r *Registry) Close() error { return nil }

func (r *Registry) info(*app) Info { return Info{} }

func (r *Registry) turn(context.Context, string, bool, string) error { return errNotYet }

func (r *Registry) route(string, string, string) (Route, bool) { return Route{}, false }

func (r *Registry) serve(w http.ResponseWriter, _ *http.Request, _ string, _ Route) {
	http.Error(w, errNotYet.Sentence, errNotYet.Status)
}

func (r *Registry) hook(context.Context, string, string, map[string]string, json.RawMessage) (json.RawMessage, error) {
	return nil, errNotYet
}

func (r *Registry) taskContext(context.Context, json.RawMessage) string { return "" }

func (r *Registry) tool(string) (tool.Tool, bool) { return tool.Tool{}, false }

func (r *Registry) output(string) string { return "" }

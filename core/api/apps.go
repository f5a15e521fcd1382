package api

import (
	"context"
	"encoding/json"
	"net/http"

	"gurtos/core/app"
)

// Apps is what the API asks of core/app.
type Apps interface {
	List() []app.Info
	Find(name string) (app.Info, bool)
	Switch(ctx context.Context, name string, on bool, by string) error
	Heed(ctx context.Context, name string) error
	Route(name, method, path string) (app.Route, bool)
	Serve(w http.ResponseWriter, req *http.Request, name string, route app.Route)
	Printed(ctx context.Context, name string, follow bool, write func([]byte) error) error
	Hook(ctx context.Context, name, hook string, headers map[string]string, body json.RawMessage) (json.RawMessage, error)
}

var _ Apps = (*app.Registry)(nil)

// App is an app of the box.
type App struct {
	Name          string   `json:"name" doc:"The app's name."`
	Title         string   `json:"title" doc:"Its title for people."`
	Description   string   `json:"description" doc:"What it does."`
	On            bool     `json:"on" doc:"Whether it is on."`
	Error         string   `json:"error,omitempty" doc:"Why it can't be used, or what its process last ended with."`
	RestartNeeded bool     `json:"restartNeeded" doc:"Whether a part of it runs on until boxd starts anew."`
	Test          bool     `json:"test" doc:"Whether it works with test money or test data."`
	Tools         []string `json:"tools" doc:"The tools that it brings."`
	Secrets       []Secret `json:"secrets" doc:"The vault's keys that it may read."`
	Apps          []Icon   `json:"apps" doc:"Its pages in the portal's app grid."`
	Hosts         []string `json:"hosts" doc:"The hosts that it declares."`
	OpenRoutes    []string `json:"openRoutes" doc:"Its routes that need no token."`
}

// Secret is a key of the vault that an app declares.
type Secret struct {
	Name     string `json:"name" doc:"The key's name."`
	Set      bool   `json:"set" doc:"Whether the vault has it."`
	Optional bool   `json:"optional" doc:"Whether the app works without it."`
}

// Icon is an entry of the portal's app grid.
type Icon struct {
	Name  string `json:"name" doc:"Tells it from the app's other icons."`
	Title string `json:"title" doc:"What stands under it."`
	Href  string `json:"href" doc:"Where its page is, beneath /t/<app>."`
}

// Switch turns an app on or off.
type Switch struct {
	On *bool `json:"on" doc:"Whether the app is to be on."`
}

// WindowToken is the narrowed right of an app's page.
type WindowToken struct {
	Token     string `json:"token" doc:"Begins with w."`
	ExpiresAt string `json:"expiresAt" doc:"12 hours later."`
}

func (s *Server) apps(c *call) error {
	q, err := c.query()
	if err != nil {
		return err
	}
	if q.Has("all") && q.Get("all") != "1" {
		return bad("all: 1 is needed, or nothing")
	}
	if q.Has("all") && c.caller.kind == member {
		return refuse("%s is not paired as the owner and sees only the apps that are on", c.caller.name())
	}
	out := []App{}
	for _, a := range s.opt.Apps.List() {
		if a.On || q.Has("all") {
			out = append(out, appOf(a))
		}
	}
	return c.json(http.StatusOK, out)
}

func (s *Server) switchApp(c *call) error {
	var b Switch
	if err := c.decode(&b); err != nil {
		return err
	}
	if b.On == nil {
		return bad("on: true or false is needed")
	}
	name := c.r.PathValue("app")
	// Not looked up before: turning on finds a folder that is new.
	if err := s.opt.Apps.Switch(c.r.Context(), name, *b.On, c.caller.name()); err != nil {
		return err
	}
	a, ok := s.opt.Apps.Find(name)
	if !ok {
		return notFound("there is no app named %s any more", shown(name))
	}
	return c.json(http.StatusOK, appOf(a))
}

func (s *Server) openWindow(c *call) error {
	if err := c.nothing(); err != nil {
		return err
	}
	a, err := s.appOn(c.r.PathValue("app"))
	if err != nil {
		return err
	}
	token, w := s.windows.Open(a.Name, c.caller)
	return c.json(http.StatusOK, WindowToken{token, w.Expires.UTC().Format(timeForm)})
}

// appOn finds an app that is on; one that isn't, and one that isn't there, is a 404.
func (s *Server) appOn(name string) (app.Info, error) {
	a, ok := s.opt.Apps.Find(name)
	switch {
	case !ok:
		return a, notFound("there is no app named %s", shown(name))
	case !a.On:
		return a, notFound("the app %s is off: turn it on in App Center", a.Name)
	}
	return a, nil
}

func appOf(a app.Info) App {
	out := App{
		Name: a.Name, Title: a.Title, Description: a.Description, On: a.On, Error: a.Error, RestartNeeded: a.RestartNeeded, Test: a.Test,
		Tools: list(a.Tools), Secrets: []Secret{}, Apps: []Icon{}, Hosts: list(a.Hosts), OpenRoutes: list(a.OpenRoutes),
	}
	for _, s := range a.Secrets {
		out.Secrets = append(out.Secrets, Secret{s.Name, s.Set, s.Optional})
	}
	for _, p := range a.Apps {
		out.Apps = append(out.Apps, Icon{p.Name, p.Title, p.Href})
	}
	return out
}

// appOutput sends what an app prints.
func (s *Server) appOutput(c *call) error {
	q, err := c.query()
	if err != nil {
		return err
	}
	if q.Has("follow") && q.Get("follow") != "1" {
		return bad("follow: 1 is needed, or nothing")
	}
	name := c.r.PathValue("app")
	if _, ok := s.opt.Apps.Find(name); !ok {
		return notFound("there is no app named %s", shown(name))
	}
	h := c.w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if c.r.Method == http.MethodHead {
		return nil
	}
	if err := c.w.flush(); err != nil {
		return err
	}
	return s.opt.Apps.Printed(c.r.Context(), name, q.Has("follow"), func(text []byte) error {
		if _, err := c.w.Write(text); err != nil {
			return err
		}
		return c.w.flush()
	})
}

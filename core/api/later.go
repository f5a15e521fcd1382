package api

import (
	"net/http"
	"slices"
	"strings"

	"gurtos/core/budget"
	"gurtos/core/permission"
)

// App is an app of the box.
type App struct {
	Name          string   `json:"name" doc:"The app's name."`
	Title         string   `json:"title" doc:"Its title for people."`
	Description   string   `json:"description" doc:"What it does."`
	On            bool     `json:"on" doc:"Whether it is on."`
	Error         string   `json:"error,omitempty" doc:"Why it could not be loaded."`
	RestartNeeded bool     `json:"restartNeeded" doc:"Whether a part of it runs on until boxd starts anew."`
	Test          bool     `json:"test" doc:"Whether it works with test money or test data."`
	Tools         []string `json:"tools" doc:"The tools that it brings."`
	Secrets       []Secret `json:"secrets" doc:"The vault's keys that it may read."`
	Apps          []string `json:"apps" doc:"The apps that it uses."`
	Hosts         []string `json:"hosts" doc:"The hosts that it declares."`
	OpenRoutes    []string `json:"openRoutes" doc:"Its routes that need no token."`
}

// Secret is a key of the vault that an app declares.
type Secret struct {
	Name     string `json:"name" doc:"The key's name."`
	Set      bool   `json:"set" doc:"Whether the vault has it."`
	Optional bool   `json:"optional" doc:"Whether the app works without it."`
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

// Update is the system's slots.
type Update struct {
	Slots    []string `json:"slots" doc:"The system slots and their versions."`
	Fallback string   `json:"fallback,omitempty" doc:"Why the box went back to the other slot last."`
}

// apps is empty while no app can be on.
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
	return c.json(http.StatusOK, []App{})
}

// noApp answers for every app: none is on in this build.
func (s *Server) noApp(c *call) error {
	return notFound("no app named %s is on: this build has no app host yet", shown(c.r.PathValue("app")))
}

func (s *Server) notYet(c *call) error {
	return &Error{Status: http.StatusNotImplemented, Sentence: "this build does not bring " + c.route.Later + " yet"}
}

// Permissions is what an app may do.
type Permissions struct {
	App               string        `json:"app" doc:"The app's name."`
	Items             []Permission  `json:"items" doc:"What the owner decided on."`
	DailyLimitCents   *budget.Cents `json:"dailyLimitCents" doc:"The most that its tools may spend on a UTC day without an OK; null for no limit."`
	DiskCapBytes      int64         `json:"diskCapBytes" doc:"The most that one of its tasks may write."`
	DeclaredHostsOnly bool          `json:"declaredHostsOnly" doc:"Whether its tasks reach only the hosts that it declares."`
}

// Permission is one item.
type Permission struct {
	Item     string  `json:"item" doc:"key:<NAME>, money, strangers, shell, folders or host:<host>."`
	Allowed  bool    `json:"allowed" doc:"Whether it is allowed."`
	LastUsed *string `json:"lastUsed" doc:"When the app used it last; null where that is not known."`
}

// PermissionsChange is items by name, and the limits by theirs.
type PermissionsChange map[string]any

func (s *Server) permissions(c *call) error {
	all, err := s.opt.Tasks.AllRights(c.r.Context())
	if err != nil {
		return err
	}
	out := []Permissions{}
	for app, r := range all {
		out = append(out, permissionsOf(app, r))
	}
	slices.SortFunc(out, func(a, b Permissions) int { return strings.Compare(a.App, b.App) })
	return c.json(http.StatusOK, out)
}

func (s *Server) setPermissions(c *call) error {
	body, err := c.all()
	if err != nil {
		return err
	}
	app := c.r.PathValue("app")
	r, err := s.opt.Tasks.SetRights(c.r.Context(), app, body, c.caller.name())
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, permissionsOf(app, r))
}

func permissionsOf(app string, r permission.Rights) Permissions {
	p := Permissions{app, []Permission{}, r.DailyLimitCents, r.DiskCap(), r.DeclaredHostsOnly}
	for item, off := range r.Off {
		p.Items = append(p.Items, Permission{Item: item, Allowed: !off})
	}
	slices.SortFunc(p.Items, func(a, b Permission) int { return strings.Compare(a.Item, b.Item) })
	return p
}

package api

import (
	"net/http"
	"slices"
	"strings"

	"gurtos/core/budget"
	"gurtos/core/permission"
)

// Update is the system's slots.
type Update struct {
	Slots    []string `json:"slots" doc:"The system slots and their versions."`
	Fallback string   `json:"fallback,omitempty" doc:"Why the box went back to the other slot last."`
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

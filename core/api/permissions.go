package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"gurtos/core/app"
	"gurtos/core/budget"
	"gurtos/core/permission"
	"gurtos/core/task"
)

// Permissions is what an app may do.
type Permissions struct {
	App               string        `json:"app" doc:"The app's name."`
	Items             []Permission  `json:"items" doc:"What the owner can turn off: what the app declares, what it used, and what is off."`
	DailyLimitCents   *budget.Cents `json:"dailyLimitCents" doc:"The most that its tools may spend on a UTC day without an OK; null for no limit."`
	DiskCapBytes      int64         `json:"diskCapBytes" doc:"The most that one of its tasks may write."`
	DeclaredHostsOnly bool          `json:"declaredHostsOnly" doc:"Whether the app itself reaches only the hosts that it declares."`
}

// Permission is one item.
type Permission struct {
	Item     string  `json:"item" doc:"key:<NAME>, money, strangers, shell, folders or host:<host>."`
	Allowed  bool    `json:"allowed" doc:"Whether it is allowed."`
	LastUsed *string `json:"lastUsed" doc:"When the app used it last, to the hour; null where it never did."`
}

// PermissionsChange is items by name, and the limits by theirs.
type PermissionsChange map[string]any

func (s *Server) permissions(c *call) error {
	rights, err := s.opt.Tasks.AllRights(c.r.Context())
	if err != nil {
		return err
	}
	uses, err := s.opt.Tasks.Uses(c.r.Context())
	if err != nil {
		return err
	}
	all := map[string]permission.Declared{}
	for name := range rights {
		all[name] = permission.Declared{App: name}
	}
	for name := range uses {
		all[name] = permission.Declared{App: name}
	}
	for _, a := range s.opt.Apps.List() {
		all[a.Name] = declared(a)
	}
	out := []Permissions{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, permissionsOf(all[name], rights[name], uses[name]))
	}
	return c.json(http.StatusOK, out)
}

func (s *Server) setPermissions(c *call) error {
	ctx, name := c.r.Context(), c.r.PathValue("app")
	uses, err := s.opt.Tasks.Uses(ctx)
	if err != nil {
		return err
	}
	was, err := s.opt.Tasks.Rights(ctx, name)
	if err != nil {
		return err
	}
	// An app that is gone can have left tasks that run.
	a, here := s.opt.Apps.Find(name)
	d := permission.Declared{App: name}
	if here {
		d = declared(a)
	} else if uses[name] == nil && was.Off == nil {
		return notFound("there is no app %s", shown(name))
	}
	body, err := c.all()
	if err != nil {
		return err
	}
	if err := known(d, was, uses[name], body); err != nil {
		return err
	}
	r, err := s.opt.Tasks.SetRights(ctx, name, body, c.caller.name())
	if err != nil {
		return err
	}
	if here {
		if err := s.opt.Apps.Heed(ctx, name); err != nil {
			return err
		}
	}
	return c.json(http.StatusOK, permissionsOf(d, r, uses[name]))
}

// known refuses items that the app has nothing to do with. What else is wrong with the
// body is for the one who reads it.
// A host may be turned off before the app's agents ever reach it; on is only one that is
// off, or that they used.
func known(d permission.Declared, was permission.Rights, used map[string]string, body []byte) error {
	var set map[string]json.RawMessage
	if json.Unmarshal(body, &set) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		item, err := permission.Item(name)
		if err != nil {
			continue
		}
		if !d.Knows(item, was) {
			return &task.Invalid{Field: shown(name), Sentence: "the app " + d.App + " doesn't declare this key, so it can't read it anyway"}
		}
		if strings.HasPrefix(item, "host:") && string(set[name]) == "true" && !was.Off[item] && used[item] == "" {
			return &task.Invalid{Field: shown(name), Sentence: "this host is not turned off for the app " + d.App + ", and its agents never used it, so there is nothing to turn on"}
		}
	}
	return nil
}

// declared is what of an app's declarations the owner can turn off.
func declared(a app.Info) permission.Declared {
	d := permission.Declared{App: a.Name, Money: a.Spends, Strangers: len(a.OpenRoutes) > 0}
	for _, key := range a.Secrets {
		d.Keys = append(d.Keys, key.Name)
	}
	return d
}

func permissionsOf(d permission.Declared, r permission.Rights, used map[string]string) Permissions {
	p := Permissions{d.App, []Permission{}, r.DailyLimitCents, r.DiskCap(), r.DeclaredHostsOnly}
	for _, item := range d.Items(r, used) {
		one := Permission{Item: item, Allowed: r.Allowed(item)}
		if at, ok := used[item]; ok {
			one.LastUsed = &at
		}
		p.Items = append(p.Items, one)
	}
	return p
}

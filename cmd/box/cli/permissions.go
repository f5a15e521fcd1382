package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// permissionsAnswer is what an app may do, as the API tells it.
type permissionsAnswer struct {
	App   string
	Items []struct {
		Item     string
		Allowed  bool
		LastUsed string
	}
	DailyLimitCents   *json.Number
	DiskCapBytes      int64
	DeclaredHostsOnly bool
}

// appPermissions shows what apps may do, and changes it where it is told to.
func appPermissions(s *session) error {
	if len(s.args) < 2 {
		return s.showPermissions()
	}
	change, err := permissionsChange(s.args[1:])
	if err != nil {
		return err
	}
	var p permissionsAnswer
	raw, err := s.ask(http.MethodPut, "/api/permissions/"+url.PathEscape(s.args[0]), nil, change, &p)
	if err != nil {
		return err
	}
	return s.print(raw, func() error { return s.columns(p.rows()) })
}

func (s *session) showPermissions() error {
	var all []permissionsAnswer
	raw, err := s.get("/api/permissions", nil, &all)
	if err != nil {
		return err
	}
	rows := [][]string{{"APP", "MAY", "", "LAST USED"}}
	found := false
	for _, p := range all {
		if len(s.args) == 0 || p.App == s.args[0] {
			rows, found = append(rows, p.rows()[1:]...), true
		}
	}
	if len(s.args) > 0 && !found {
		return fmt.Errorf("there is no app %s; `box app list` names them", s.args[0])
	}
	return s.print(raw, func() error { return s.columns(rows) })
}

func (p permissionsAnswer) rows() [][]string {
	rows := [][]string{{"APP", "MAY", "", "LAST USED"}}
	word := map[bool]string{true: "on", false: "off"}
	for _, i := range p.Items {
		rows = append(rows, []string{p.App, i.Item, word[i.Allowed], i.LastUsed})
	}
	limit := "none"
	if p.DailyLimitCents != nil {
		limit = p.DailyLimitCents.String()
	}
	return append(rows,
		[]string{p.App, "dailyLimitCents", limit, ""},
		[]string{p.App, "diskCapBytes", strconv.FormatInt(p.DiskCapBytes, 10), ""},
		[]string{p.App, "declaredHostsOnly", word[p.DeclaredHostsOnly], ""})
}

// permissionsChange reads NAME=VALUE. What may stand on either side the box knows.
func permissionsChange(args []string) (map[string]any, error) {
	change := map[string]any{}
	for _, a := range args {
		i := strings.LastIndexByte(a, '=')
		if i < 1 {
			return nil, &usageError{fmt.Sprintf("%q is no change: a name, = and a value are needed, such as shell=off", a)}
		}
		name, value := a[:i], a[i+1:]
		if _, twice := change[name]; twice {
			return nil, &usageError{name + " is there twice"}
		}
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case value == "on" || value == "off":
			change[name] = value == "on"
		case value == "none":
			change[name] = nil
		case err == nil:
			change[name] = n
		default:
			return nil, &usageError{fmt.Sprintf("%s=%s: on, off, none or a whole number is needed", name, value)}
		}
	}
	return change, nil
}

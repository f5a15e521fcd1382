package api

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"gurtos/core/strict"
)

// Body limits.
const (
	smallBody = 64 << 10 // where a route names none
	taskBody  = 2 << 20  // 100,000 characters, each perhaps escaped as two \uXXXX
	fileBody  = 8 << 30
)

// Route is one row of the table.
type Route struct {
	Method    string
	Path      string // with {names}
	Who       who
	Body      int64   // largest body in bytes; smallBody when 0
	Doc       string  // one sentence
	Query     []Param // what may stand behind the question mark
	In        any     // an example of the body's type, a Media, or nil for none
	Out       any     // an example of the answer's type, a Media, or nil for none
	Status    int     // of success; 200 when 0
	Page      bool    // a page or file that is open to other sites' links
	Later     string  // what is to bring it, where it only answers that it isn't here
	Do        func(*Server, *call) error
	Gate      func(*Server, *call) error // holds the caller to more than the table, before the body is read
	Strangers int64                      // largest body of a caller who is nobody, where that is less
}

// Param is one query parameter.
type Param struct {
	Name string
	Type string // integer, string or boolean
	Doc  string
}

// Media is a body that is no JSON.
type Media struct{ Type, Doc string }

var noRoute = &Route{Path: "none"}

func (r *Route) name() string { return strings.TrimSpace(r.Method + " " + r.Path) }

func (r *Route) success() int {
	if r.Status == 0 {
		return http.StatusOK
	}
	return r.Status
}

// routes finds a request's path.
type routes struct {
	mux   *http.ServeMux
	paths map[string]*address // by pattern
}

// address is all methods of one path.
type address struct {
	by    map[string]*Route
	allow string
	open  bool
}

func newRoutes(table []Route) *routes {
	rs := &routes{http.NewServeMux(), map[string]*address{}}
	for i := range table {
		r := &table[i]
		pattern := r.Path
		if pattern == "/" {
			pattern = "/{$}"
		}
		p := rs.paths[pattern]
		if p == nil {
			p = &address{by: map[string]*Route{}}
			rs.paths[pattern] = p
			rs.mux.Handle(pattern, http.NotFoundHandler())
		}
		if p.by[r.Method] != nil {
			panic("api: two routes " + r.name())
		}
		p.by[r.Method] = r
		p.open = p.open || r.Page
	}
	for _, p := range rs.paths {
		var names []string
		for m := range p.by {
			names = append(names, m)
			if m == http.MethodGet {
				names = append(names, http.MethodHead)
			}
		}
		slices.Sort(names)
		p.allow = strings.Join(append(names, http.MethodOptions), ", ")
	}
	return rs
}

// find also sets the request's path values.
func (rs *routes) find(r *http.Request) (*address, bool) {
	_, pattern := rs.mux.Handler(r)
	p, ok := rs.paths[pattern]
	if !ok {
		return nil, false
	}
	// Handler tells the pattern and not what its names stand for.
	want, have := strings.Split(pattern, "/"), strings.Split(r.URL.EscapedPath(), "/")
	for i, seg := range want {
		name, ok := strings.CutPrefix(seg, "{")
		if name = strings.TrimSuffix(name, "}"); !ok || name == "$" {
			continue
		}
		rest, tail := strings.CutSuffix(name, "...")
		if i >= len(have) {
			return nil, false
		}
		value := have[i]
		if tail {
			value = strings.Join(have[i:], "/")
		}
		value, err := url.PathUnescape(value)
		if err != nil {
			return nil, false
		}
		r.SetPathValue(rest, value)
	}
	return p, true
}

// method is the route of a method, nil for OPTIONS.
func (p *address) method(m string) (*Route, error) {
	if m == http.MethodHead {
		m = http.MethodGet
	}
	if r := p.by[m]; r != nil {
		return r, nil
	}
	if m == http.MethodOptions {
		return nil, nil
	}
	return nil, &Error{
		Status:   http.StatusMethodNotAllowed,
		Sentence: fmt.Sprintf("%s is not for this address; it takes %s", shown(m), p.allow),
		header:   http.Header{"Allow": {p.allow}},
	}
}

// all reads the whole body of a request that is known to be small.
func (c *call) all() ([]byte, error) {
	b, err := io.ReadAll(c.r.Body)
	if err != nil {
		return nil, fmt.Errorf("reading the body: %w", err)
	}
	return b, nil
}

// decode reads the body into a struct; it must be there.
func (c *call) decode(v any) error {
	b, err := c.all()
	if err != nil {
		return err
	}
	return strict.Decode(b, v)
}

// nothing takes a body only where it says nothing.
func (c *call) nothing() error {
	b, err := c.all()
	if err != nil || len(strings.TrimSpace(string(b))) == 0 {
		return err
	}
	return strict.Decode(b, &struct{}{})
}

// known refuses parameters that the route doesn't have, so that a slip is no silent
// default. What stands behind an app's own address is the app's, and a link from
// elsewhere to a page may carry anything.
func (c *call) known() error {
	if c.route.Page || strings.HasPrefix(c.route.Path, "/t/") || strings.HasPrefix(c.route.Path, "/hook/") {
		return nil
	}
	q, err := c.query()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if slices.ContainsFunc(c.route.Query, func(p Param) bool { return p.Name == name }) {
			continue
		}
		takes := "none"
		if len(c.route.Query) > 0 {
			var names []string
			for _, p := range c.route.Query {
				names = append(names, p.Name)
			}
			takes = strings.Join(names, ", ")
		}
		return bad("%s: %s knows no parameter of this name; it takes %s", shown(name), c.route.name(), takes)
	}
	return nil
}

// query reads the parameters that the route has.
func (c *call) query() (url.Values, error) {
	q, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return nil, bad("the part behind ? is not well formed: %v", err)
	}
	for _, p := range c.route.Query {
		if len(q[p.Name]) > 1 {
			return nil, bad("%s: the parameter is there twice", p.Name)
		}
	}
	return q, nil
}

// whole reads a whole number out of the query.
func whole(q url.Values, name string, std, low, high int64) (int64, error) {
	if !q.Has(name) {
		return std, nil
	}
	n, err := strconv.ParseInt(q.Get(name), 10, 64)
	if err != nil || n < low || n > high {
		if high == maxSeq {
			return 0, bad("%s: a whole number of %d or more is needed", name, low)
		}
		return 0, bad("%s: a whole number from %d to %d is needed", name, low, high)
	}
	return n, nil
}

const maxSeq = 1<<63 - 1

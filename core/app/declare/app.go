package declare

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gurtos/core/schema"
	"gurtos/core/vault"
	"gurtos/netpolicy/rules"
)

// Limits of what an app declares. Lengths are in characters.
const (
	MaxSize        = 1 << 20 // bytes of all of it as JSON
	maxAppName     = 40
	maxTitle       = 60
	maxDescription = 240 // of it are shown
	maxPart        = 60  // of a tool's verb, a trigger's name and the like
	maxToolText    = 10_000
	maxParts       = 200 // of each kind
)

// reserved are names that something else of the box has.
var reserved = []string{"box", "api", "schedule", "kit"}

var (
	appForm  = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)
	partForm = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	routeKey = regexp.MustCompile(`^(GET|HEAD|POST|PUT|PATCH|DELETE) (/[^\s?#]*)$`)
	forTests = regexp.MustCompile(`(?i)\btest (money|payments?|data|mode)\b|\bdevnet\b|\bsandbox\b`)
)

// App is what an app declares, checked.
type App struct {
	Name        string
	Heading     string // title, "" for none
	Description string // from README.md where it declares none; cut to 240 characters
	Secrets     []string
	Optional    []string
	Context     bool // it has a taskContext
	Tools       []Tool
	Triggers    []string
	Readers     []string
	Jobs        []Job
	Pages       []Page
	Routes      []string
	Open        []string // keys of Routes
	OwnOrigin   []string // keys of Routes
}

// Tool is one of its tools.
type Tool struct {
	Name, Description string
	Input             json.RawMessage // JSON Schema; nil for any object
	Secrets, Hosts    []string
	Cost, Card        bool // it has a cost, an approval
}

// Job is one of its model jobs.
type Job struct {
	Name    string
	Secrets []string
}

// Page is an entry of the portal's app grid.
type Page struct{ Name, Title, Href string }

// Title is what people call the app.
func (m *App) Title() string {
	switch {
	case m.Heading != "":
		return m.Heading
	case len(m.Pages) > 0:
		return m.Pages[0].Title
	}
	return m.Name
}

// Test says whether it works with something that is not real.
func (m *App) Test() bool { return forTests.MatchString(m.Title() + "\n" + m.Description) }

// Resident says whether its process is needed while nobody calls it.
func (m *App) Resident() bool { return len(m.Triggers) > 0 || len(m.Readers) > 0 || m.Context }

// AllSecrets are the keys that any part of it declares, by name.
func (m *App) AllSecrets() []string {
	all := slices.Clone(m.Secrets)
	for _, t := range m.Tools {
		all = append(all, t.Secrets...)
	}
	for _, j := range m.Jobs {
		all = append(all, j.Secrets...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// DeclaredHosts are what its tools declare, by name.
func (m *App) DeclaredHosts() []string {
	var all []string
	for _, t := range m.Tools {
		all = append(all, t.Hosts...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (m *App) Tool(name string) *Tool {
	for i := range m.Tools {
		if m.Tools[i].Name == name {
			return &m.Tools[i]
		}
	}
	return nil
}

// CheckName says what is wrong with an app's name.
func CheckName(name string) error {
	switch {
	case !appForm.MatchString(name) || len(name) > maxAppName:
		return fmt.Errorf("%q is no name for an app: at most %d small letters, digits, _ and -, a letter first", Clip(name), maxAppName)
	case slices.Contains(reserved, name):
		return fmt.Errorf("no app may be called %s: the box uses that name itself", name)
	}
	return nil
}

// Read holds what an app says of itself against the rules. An error names the
// app, the field and the rule.
func Read(name, dir string, raw json.RawMessage) (*App, error) {
	m := &App{Name: name}
	top, ok := object(raw)
	if !ok {
		return nil, fmt.Errorf("%s: track.ts exports no app as its default. It is to end in `export default { name: '%s', … } satisfies Track`", name, name)
	}
	c := &checker{app: name}
	own := c.text(top, "", "name", maxPart, true)
	if c.err == nil && own != name {
		c.fail("name", "it is %q, and has to be the name of the app's folder, %s", own, name)
	}
	c.known(top, "", "name", "title", "description", "secrets", "optionalSecrets", "taskContext", "offByDefault", "triggers", "tools", "logReaders", "modelJobs", "apps", "routes", "openRoutes", "ownOrigin")
	m.Heading = c.text(top, "", "title", maxTitle, false)
	m.Description = c.text(top, "", "description", maxToolText, false)
	m.Secrets = c.keys(top, "", "secrets")
	m.Optional = c.keys(top, "", "optionalSecrets")
	m.Context = c.fn(top, "", "taskContext", false)
	c.parts(top, "triggers", func(at string, p map[string]json.RawMessage) string {
		c.known(p, at, "name", "start")
		c.fn(p, at, "start", true)
		n := c.part(p, at)
		m.Triggers = append(m.Triggers, n)
		return n
	})
	c.parts(top, "tools", func(at string, p map[string]json.RawMessage) string { return c.tool(m, at, p) })
	c.parts(top, "logReaders", func(at string, p map[string]json.RawMessage) string {
		c.known(p, at, "name", "read")
		c.fn(p, at, "read", true)
		n := c.part(p, at)
		m.Readers = append(m.Readers, n)
		return n
	})
	c.parts(top, "modelJobs", func(at string, p map[string]json.RawMessage) string {
		c.known(p, at, "name", "secrets", "run")
		c.fn(p, at, "run", true)
		j := Job{Name: c.part(p, at), Secrets: c.keys(p, at, "secrets")}
		m.Jobs = append(m.Jobs, j)
		return j.Name
	})
	c.parts(top, "apps", func(at string, p map[string]json.RawMessage) string {
		c.known(p, at, "name", "title", "href")
		g := Page{Name: c.part(p, at), Title: c.text(p, at, "title", maxTitle, true), Href: c.text(p, at, "href", 1000, true)}
		if c.err == nil && (!strings.HasPrefix(g.Href, "/") || strings.HasPrefix(g.Href, "//") || strings.ContainsAny(g.Href, "\\ ")) {
			c.fail(at+".href", "it is %q, and has to be a path beneath /t/%s that begins with one /", Clip(g.Href), name)
		}
		m.Pages = append(m.Pages, g)
		return g.Name
	})
	c.routes(m, top)
	if c.err != nil {
		return nil, c.err
	}
	for _, key := range m.Optional {
		if !slices.Contains(m.AllSecrets(), key) {
			return nil, fmt.Errorf("%s: optionalSecrets: %s is not among the keys that the app, its tools or its model jobs list in secrets", name, key)
		}
	}
	if m.Description == "" {
		m.Description = readme(dir)
	}
	m.Description = shorten(m.Description)
	return m, nil
}

// checker keeps the first thing that is wrong.
type checker struct {
	app string
	err error
}

func (c *checker) fail(field, format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%s: %s: %s", c.app, field, fmt.Sprintf(format, args...))
	}
}

// join is the path of a field.
func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

// known refuses a field that is none of these: one that is misspelt would be missed.
func (c *checker) known(o map[string]json.RawMessage, at string, names ...string) {
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if !slices.Contains(names, name) {
			c.fail(join(at, Clip(name)), "there is no such field; there are %s", strings.Join(names, ", "))
		}
	}
}

// text reads a string.
func (c *checker) text(o map[string]json.RawMessage, at, name string, most int, must bool) string {
	field := join(at, name)
	raw, ok := o[name]
	if !ok {
		if must {
			c.fail(field, "it is missing")
		}
		return ""
	}
	var s string
	switch err := json.Unmarshal(raw, &s); {
	case err != nil || string(raw) == "null":
		c.fail(field, "a text is needed")
	case strings.TrimSpace(s) == "":
		c.fail(field, "it is empty")
	case utf8.RuneCountInString(s) > most:
		c.fail(field, "at most %d characters, this has %d", most, utf8.RuneCountInString(s))
	case strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }):
		c.fail(field, "control characters can't be in it")
	}
	return s
}

// part reads the name of a part.
func (c *checker) part(o map[string]json.RawMessage, at string) string {
	name := c.text(o, at, "name", maxPart, true)
	if c.err == nil && !partForm.MatchString(name) {
		c.fail(at+".name", "it is %q, and may have letters, digits, _ and - alone", name)
	}
	return name
}

// fn reads whether there is a function.
func (c *checker) fn(o map[string]json.RawMessage, at, name string, must bool) bool {
	raw, ok := o[name]
	if !ok {
		if must {
			c.fail(join(at, name), "the function is missing")
		}
		return false
	}
	var f struct {
		Fn bool `json:"ƒ"`
	}
	if json.Unmarshal(raw, &f) != nil || !f.Fn {
		c.fail(join(at, name), "a function is needed")
	}
	return true
}

// list reads an array.
func (c *checker) list(o map[string]json.RawMessage, at, name string) []json.RawMessage {
	raw, ok := o[name]
	if !ok {
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || string(raw) == "null" {
		c.fail(join(at, name), "a list is needed")
	}
	if len(list) > maxParts {
		c.fail(join(at, name), "at most %d, these are %d", maxParts, len(list))
	}
	return list
}

// texts reads an array of strings, each held to the rule.
func (c *checker) texts(o map[string]json.RawMessage, at, name string, rule func(s string) error) []string {
	var out []string
	for i, raw := range c.list(o, at, name) {
		field := fmt.Sprintf("%s[%d]", join(at, name), i)
		var s string
		if json.Unmarshal(raw, &s) != nil || s == "" {
			c.fail(field, "a text is needed")
			continue
		}
		if err := rule(s); err != nil {
			c.fail(field, "it is %q: %v", Clip(s), err)
		}
		if slices.Contains(out, s) {
			c.fail(field, "%q stands there twice", Clip(s))
		}
		out = append(out, s)
	}
	return out
}

// keys reads names of the vault.
func (c *checker) keys(o map[string]json.RawMessage, at, name string) []string {
	return c.texts(o, at, name, func(s string) error {
		if err := vault.CheckName(s); err != nil {
			return fmt.Errorf("a key's %w", err)
		}
		return nil
	})
}

// parts reads an array of objects, each with a name of its own, which read gives.
func (c *checker) parts(o map[string]json.RawMessage, name string, read func(at string, p map[string]json.RawMessage) string) {
	seen := map[string]bool{}
	for i, raw := range c.list(o, "", name) {
		at := fmt.Sprintf("%s[%d]", name, i)
		p, ok := object(raw)
		if !ok {
			c.fail(at, "an object is needed")
			return
		}
		n := read(at, p)
		if seen[n] {
			c.fail(at+".name", "there is another one of the name %s", n)
		}
		seen[n] = true
	}
}

func (c *checker) tool(m *App, at string, p map[string]json.RawMessage) string {
	c.known(p, at, "name", "description", "input", "secrets", "hosts", "cost", "approval", "decides", "run")
	t := Tool{
		Name: c.text(p, at, "name", maxAppName+1+maxPart, true), Description: c.text(p, at, "description", maxToolText, true),
		Secrets: c.keys(p, at, "secrets"), Cost: c.fn(p, at, "cost", false), Card: c.fn(p, at, "approval", false),
		Hosts: c.texts(p, at, "hosts", func(s string) error { _, err := rules.Parse(s); return err }),
	}
	c.fn(p, at, "decides", false)
	c.fn(p, at, "run", true)
	if app, verb, _ := strings.Cut(t.Name, "."); c.err == nil && (app != m.Name || !partForm.MatchString(verb)) {
		c.fail(at+".name", "it is %q, and a tool of this app is called %s.<verb>, the verb of letters, digits, _ and -", Clip(t.Name), m.Name)
	}
	if raw, ok := p["input"]; ok {
		if err := checkSchema(raw); err != nil {
			c.fail(at+".input", "it is no JSON Schema that can be used: %v", err)
		}
		t.Input = raw
	}
	m.Tools = append(m.Tools, t)
	return t.Name
}

func checkSchema(raw json.RawMessage) error {
	if _, err := schema.Compile(raw); err != nil {
		return errors.New(OneSentence(err.Error()))
	}
	return nil
}

func (c *checker) routes(m *App, top map[string]json.RawMessage) {
	if raw, ok := top["routes"]; ok {
		routes, ok := object(raw)
		if !ok {
			c.fail("routes", "an object of functions by METHOD /path is needed")
			return
		}
		if len(routes) > maxParts {
			c.fail("routes", "at most %d, these are %d", maxParts, len(routes))
		}
		for _, key := range slices.Sorted(maps.Keys(routes)) {
			if !routeKey.MatchString(key) || len(key) > 1000 {
				c.fail("routes", "%q is no route: a method (GET, HEAD, POST, PUT, PATCH or DELETE), a space and a path that begins with / are needed, such as GET /spend", Clip(key))
			}
			c.fn(routes, "routes", key, true)
			m.Routes = append(m.Routes, key)
		}
	}
	isRoute := func(s string) error {
		if !slices.Contains(m.Routes, s) {
			return fmt.Errorf("there is no such route; a key of routes is needed")
		}
		return nil
	}
	m.Open = c.texts(top, "", "openRoutes", isRoute)
	m.OwnOrigin = c.texts(top, "", "ownOrigin", isRoute)
}

// object reads an object; a function is none.
func object(raw json.RawMessage) (map[string]json.RawMessage, bool) {
	var o map[string]json.RawMessage
	if json.Unmarshal(raw, &o) != nil || o == nil {
		return nil, false
	}
	_, fn := o["ƒ"]
	return o, !fn
}

// readme is the first paragraph of an app's README.md that is no heading.
func readme(dir string) string {
	b, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		return ""
	}
	for p := range strings.SplitSeq(strings.ReplaceAll(string(b), "\r\n", "\n"), "\n\n") {
		if p = strings.TrimSpace(p); p != "" && !strings.HasPrefix(p, "#") {
			return strings.Join(strings.Fields(strings.ToValidUTF8(p, "\uFFFD")), " ")
		}
	}
	return ""
}

func shorten(s string) string {
	if r := []rune(s); len(r) > maxDescription {
		return strings.TrimSpace(string(r[:maxDescription-1])) + "…"
	}
	return s
}

// Clip is a name that somebody else chose, short enough for a sentence.
func Clip(s string) string {
	if r := []rune(s); len(r) > 80 {
		return string(r[:80]) + "…"
	}
	return s
}

// OneSentence is the first line of what was thrown, in at most 500 characters.
func OneSentence(s string) string {
	s = strings.TrimSpace(strings.SplitN(strings.TrimSpace(s), "\n", 2)[0])
	if r := []rune(s); len(r) > 500 {
		return string(r[:500]) + "…"
	}
	return s
}

// NotStripped words what Node says of a file whose types it can't take out.
func NotStripped(path, said string) string {
	what := strings.TrimSpace(strings.SplitN(strings.TrimSpace(said), "\n", 2)[0])
	if strings.Contains(said, "not supported in strip-only mode") {
		return fmt.Sprintf("%s: Node runs TypeScript by leaving out its types, and %s", path, strings.Replace(what, "is not supported in strip-only mode", "is more than a type. Write it in plain JavaScript", 1))
	}
	return fmt.Sprintf("%s can't be read as TypeScript: %s", path, what)
}

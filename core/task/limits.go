package task

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"

	"gurtos/core/budget"
	"gurtos/core/settings"
	"gurtos/netpolicy/rules"
)

// The limits of a TaskSpec. Lengths are in characters, money in cents.
const (
	MaxTitle  = 200
	MaxPrompt = 100_000
	MaxHosts  = 50
	MaxBudget = 100_000
	MaxSeat   = 60
	MaxSource = 200
	MaxModel  = 100
)

// mediumBudget is the most that droid.autonomy medium lets a task spend, in cents.
const mediumBudget = 100

// models are the short names that a spec may use and the ids that they stand for.
var models = map[string]string{
	"haiku":  "claude-haiku-4-5-20251001",
	"sonnet": DefaultModel,
	"opus":   "claude-opus-5",
}

// DefaultModel is what a Droid task runs on when neither it nor BOX_MODEL names one.
const DefaultModel = "claude-sonnet-5-5"

var workspaceName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

// CheckWorkspaceName says what is wrong with a workspace's name.
func CheckWorkspaceName(name string) error {
	if !workspaceName.MatchString(name) || name == "." || name == ".." {
		return &Invalid{"workspace", "a name of 1 to 100 letters, digits, _, . and - is needed, and not . or .."}
	}
	return nil
}

// spec holds a request against every limit and fills in the defaults.
func (t *Tasks) spec(r request, from Caller) (Spec, error) {
	v := t.opt.Settings.Values()
	s := Spec{Tools: []string{}, Hosts: []string{}, Workspace: "home", Worker: "droid", Source: "api"}
	if from.App != "" {
		s.Source = from.App
	}
	for _, check := range []func() error{
		func() error { return edition(r) },
		func() error { return s.texts(r) },
		func() error { return t.place(&s, r) },
		func() error { return t.worker(&s, r) },
		func() error { return t.tools(&s, r) },
		func() error { return hosts(&s, r, v) },
		func() error { return money(&s, r, v) },
		func() error { return s.droid(r) },
	} {
		if err := check(); err != nil {
			return Spec{}, err
		}
	}
	return s, nil
}

// edition refuses what a later edition brings, so that nobody thinks it took effect.
func edition(r request) error {
	for name, v := range map[string][]byte{"folder": r.Folder, "folders": r.Folders} {
		if v != nil {
			return &Invalid{name, "tasks on real folders come with GurtOS Personal"}
		}
	}
	return nil
}

func atMost(field, s string, most int) error {
	if n := utf8.RuneCountInString(s); n > most {
		return &Invalid{field, fmt.Sprintf("at most %d characters, this has %d", most, n)}
	}
	return nil
}

func (s *Spec) texts(r request) error {
	if r.Title == nil || strings.TrimSpace(*r.Title) == "" {
		return &Invalid{"title", "a short name for people is needed"}
	}
	if r.Prompt == nil {
		return &Invalid{"prompt", "what the worker should do is needed"}
	}
	s.Title, s.Prompt = *r.Title, *r.Prompt
	for _, f := range []struct {
		name string
		from *string
		to   *string
		most int
	}{
		{"title", r.Title, &s.Title, MaxTitle},
		{"prompt", r.Prompt, &s.Prompt, MaxPrompt},
		{"source", r.Source, &s.Source, MaxSource},
		{"seat", r.Seat, &s.Seat, MaxSeat},
	} {
		if f.from == nil {
			continue
		}
		if err := atMost(f.name, *f.from, f.most); err != nil {
			return err
		}
		*f.to = *f.from
	}
	if s.Source == "" {
		return &Invalid{"source", "who started the task is needed, or leave it out"}
	}
	return nil
}

// place holds the workspace to one that is there, reached without following a link.
func (t *Tasks) place(s *Spec, r request) error {
	if r.Workspace != nil {
		s.Workspace = *r.Workspace
	}
	if err := CheckWorkspaceName(s.Workspace); err != nil {
		return err
	}
	return t.hasWorkspace(s.Workspace)
}

func (t *Tasks) hasWorkspace(name string) error {
	info, err := os.Lstat(t.workspaceDir(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Invalid{"workspace", fmt.Sprintf("there is no workspace %s; make it first", name)}
	case err != nil:
		return fmt.Errorf("looking for workspace %s: %w", name, err)
	case !info.IsDir():
		return &Invalid{"workspace", fmt.Sprintf("%s is no folder of the box's own", name)}
	}
	return nil
}

func (t *Tasks) worker(s *Spec, r request) error {
	if r.Worker != nil {
		s.Worker = *r.Worker
	}
	if s.Worker != "droid" && s.Worker != "fake" {
		return &Invalid{"worker", "droid or fake is needed"}
	}
	if r.Model != nil {
		id, ok := models[*r.Model]
		if !ok {
			id = *r.Model
		}
		if !modelID.MatchString(id) {
			return &Invalid{"model", "haiku, sonnet, opus or an id that starts with claude- is needed"}
		}
		s.Model = id
	}
	if s.Worker == "droid" && s.Model == "" {
		s.Model = t.opt.Model
	}
	if w, ok := t.opt.Workers[s.Worker]; !ok || w.Absent {
		return &Invalid{"worker", absent(s.Worker)}
	}
	if s.Worker == "droid" && strings.TrimSpace(s.Prompt) == "" {
		return &Invalid{"prompt", "what the worker should do is needed"}
	}
	return nil
}

// absent is said of a worker that this build has no program for: tasks are Droid's by
// default, so whoever reads it may not have named one.
func absent(worker string) string {
	return worker + " is not in this build. The one that is there is fake, which runs the prompt as a script: give --worker fake, or worker: 'fake'"
}

var modelID = regexp.MustCompile(`^claude-[A-Za-z0-9._@:-]{1,93}$`)

func (t *Tasks) tools(s *Spec, r request) error {
	seen := map[string]bool{}
	for i, name := range r.Tools {
		if !t.opt.Tools.Has(name) {
			return &Invalid{fmt.Sprintf("tools[%d]", i), fmt.Sprintf("no app that is on has a tool named %s", shown(name))}
		}
		if !seen[name] {
			s.Tools = append(s.Tools, name)
		}
		seen[name] = true
	}
	return nil
}

// hosts normalises the rules. No hosts field means none, or the box's own list when
// its networkDefault says so; an empty list means none.
func hosts(s *Spec, r request, v settings.Values) error {
	want, field := r.Hosts, "hosts"
	if want == nil && v.NetworkDefault == "allowlist" {
		want, field = v.DefaultHosts, "defaultHosts"
	}
	if len(want) > MaxHosts {
		return &Invalid{field, fmt.Sprintf("at most %d hosts, these are %d", MaxHosts, len(want))}
	}
	for i, h := range want {
		rule, err := rules.Parse(h)
		if err != nil {
			return &Invalid{fmt.Sprintf("%s[%d] %q", field, i, shown(h)), err.Error()}
		}
		s.Hosts = append(s.Hosts, rule.String())
	}
	return nil
}

func money(s *Spec, r request, v settings.Values) error {
	s.BudgetCents = budget.Whole(v.DefaultBudgetCents)
	if r.BudgetCents == nil {
		return nil
	}
	c, err := budget.ParseCents(strings.TrimSpace(string(r.BudgetCents)))
	if err != nil || !c.IsWhole() || c.Sign() < 0 || c.Cmp(budget.Whole(MaxBudget)) > 0 {
		return &Invalid{"budgetCents", fmt.Sprintf("a whole number of cents from 0 to %d is needed", MaxBudget)}
	}
	s.BudgetCents = c
	return nil
}

// droid reads how Droid is to work. The level binds a Droid task; worker fake
// ignores it.
func (s *Spec) droid(r request) error {
	if r.Droid == nil {
		return nil
	}
	d := Droid{}
	if r.Droid.Plan != nil {
		d.Plan = *r.Droid.Plan
	}
	if a := r.Droid.Autonomy; a != nil {
		if *a != "low" && *a != "medium" && *a != "high" {
			return &Invalid{"droid.autonomy", "low, medium or high is needed"}
		}
		d.Autonomy = *a
	}
	s.Droid = &d
	if s.Worker != "droid" {
		return nil
	}
	switch d.Autonomy {
	case "low":
		s.Hosts, s.BudgetCents = []string{}, budget.Cents{}
	case "medium":
		if s.BudgetCents.Cmp(budget.Whole(mediumBudget)) > 0 {
			s.BudgetCents = budget.Whole(mediumBudget)
		}
	}
	return nil
}

// shown is a name that a stranger chose, short enough for a sentence.
func shown(s string) string {
	if r := []rune(s); len(r) > 60 {
		s = string(r[:60]) + "…"
	}
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return '\uFFFD'
		}
		return r
	}, s)
}

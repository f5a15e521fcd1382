package cli

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

func taskNewFlags(f *flag.FlagSet) {
	f.String("title", "", "`title` for people, instead of the argument")
	f.String("prompt", "", "what the worker is to do")
	f.String("file", "", "read the prompt from a `file`, - for standard input")
	f.String("workspace", "", "`name` of the workspace (home)")
	f.String("worker", "", "droid or fake (droid)")
	f.String("model", "", "haiku, sonnet, opus or an exact `id`")
	f.Var(new(words), "tool", "a tool that it may call, `app.verb`; may be given several times")
	f.Var(new(words), "host", "a `host` that it may reach; may be given several times")
	f.Bool("no-hosts", false, "no host at all, whatever Settings say of tasks that name none")
	f.String("budget", "", "US `cents` above which calls of tools and models wait for an OK")
	f.String("seat", "", "the agent's `seat`")
	f.String("source", "", "whose `idea` it was, for people (api)")
	f.Bool("plan", false, "have Droid write a plan first, and wait for an OK")
	f.String("autonomy", "", "what Droid may do by itself: low, medium or high")
	f.Bool("wait", false, "wait for its end; fail when it fails")
}

func taskNew(s *session) error {
	spec := map[string]any{}
	title := s.value("title")
	switch {
	case len(s.args) == 1 && title != "":
		return &usageError{"the title is given twice, by --title and as the argument"}
	case len(s.args) == 1:
		title = s.args[0]
	}
	if strings.TrimSpace(title) == "" {
		return &usageError{"a title is needed, as the last argument: box task new --worker fake --prompt 'write hello.txt Hello' First"}
	}
	prompt, err := s.prompt()
	if err != nil {
		return err
	}
	spec["title"], spec["prompt"] = title, prompt
	for _, name := range []string{"workspace", "worker", "model", "seat", "source"} {
		if s.given(name) {
			spec[name] = s.value(name)
		}
	}
	for name, field := range map[string]string{"tool": "tools", "host": "hosts"} {
		if s.given(name) {
			spec[field] = []string(*s.set.Lookup(name).Value.(*words))
		}
	}
	if s.on("no-hosts") {
		if s.given("host") {
			return &usageError{"--no-hosts and --host say the opposite: give one"}
		}
		spec["hosts"] = []string{}
	}
	droid := map[string]any{}
	if s.given("plan") {
		droid["plan"] = s.on("plan")
	}
	if s.given("autonomy") {
		droid["autonomy"] = s.value("autonomy")
	}
	if len(droid) > 0 {
		spec["droid"] = droid
	}
	if s.given("budget") {
		n, err := strconv.Atoi(s.value("budget"))
		if err != nil {
			return &usageError{"--budget needs a whole number of US cents"}
		}
		spec["budgetCents"] = n
	}
	var t taskAnswer
	raw, err := s.ask(http.MethodPost, "/api/tasks", nil, spec, &t)
	if err != nil {
		return err
	}
	if s.on("wait") {
		return s.untilEnd(t.ID)
	}
	return s.print(raw, func() error {
		_, err := fmt.Fprintln(s.Out, t.ID)
		return err
	})
}

// prompt reads what the worker is to do.
func (s *session) prompt() (string, error) {
	if s.given("prompt") && s.given("file") {
		return "", &usageError{"--prompt and --file say the same thing: give one"}
	}
	if s.given("prompt") {
		return s.value("prompt"), nil
	}
	name := s.value("file")
	if name == "" || name == "-" {
		if name == "" && isTerminal(s.In) {
			return "", &usageError{"what the worker is to do is needed: give --prompt or --file, or send it on standard input"}
		}
		b, err := io.ReadAll(s.In)
		if err != nil {
			return "", fmt.Errorf("reading the prompt: %w", err)
		}
		return string(b), nil
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("reading the prompt: %w", err)
	}
	return string(b), nil
}

// untilEnd follows a task to its end and shows it.
func (s *session) untilEnd(id string) error {
	show := s.Err
	if s.json {
		show = io.Discard
	}
	if err := s.follow(0, id, func(ev line) (bool, error) {
		if ev.Type == "task.step" {
			fmt.Fprintf(show, "%s\n", visible(firstLine(ev.Text)))
		}
		return ev.Type == "task.state" && ended(ev.State), nil
	}); err != nil {
		return err
	}
	var t taskAnswer
	raw, err := s.get("/api/tasks/"+url.PathEscape(id), nil, &t)
	if err != nil {
		return err
	}
	if err := s.print(raw, func() error {
		_, err := fmt.Fprintf(s.Out, "%s %s\n", t.ID, t.State)
		return err
	}); err != nil {
		return err
	}
	if t.State != "done" {
		return fmt.Errorf("task %s is %s. %s", t.ID, t.State, visible(t.Error))
	}
	return nil
}

func taskListFlags(f *flag.FlagSet) {
	f.String("state", "", "only tasks in this `state`")
	f.String("workspace", "", "only tasks of this workspace, by `name`")
	f.String("before", "", "only tasks older than the one of this `id`")
	f.Int("limit", 30, "how `many` at most, up to 1000")
}

func taskList(s *session) error {
	q := url.Values{"limit": {s.value("limit")}}
	for _, name := range []string{"state", "workspace", "before"} {
		if s.given(name) {
			q.Set(name, s.value(name))
		}
	}
	var list []taskAnswer
	raw, err := s.get("/api/tasks", q, &list)
	if err != nil {
		return err
	}
	if len(list) == 0 && s.given("workspace") {
		if err := s.knowsWorkspace(s.value("workspace")); err != nil {
			return err
		}
	}
	return s.print(raw, func() error {
		rows := [][]string{{"ID", "STATE", "AGE", "COST", "TITLE", "STEP"}}
		for _, t := range list {
			rows = append(rows, []string{t.ID, t.State, age(t.CreatedAt), cents(t.CostCents.String()), clip(t.Title, 40), clip(firstLine(t.Step), 40)})
		}
		return s.columns(rows)
	})
}

// knowsWorkspace tells a workspace without tasks from a name that is misspelt.
func (s *session) knowsWorkspace(name string) error {
	var list []struct{ Name string }
	if _, err := s.get("/api/workspaces", nil, &list); err != nil {
		return err
	}
	for _, w := range list {
		if w.Name == name {
			return nil
		}
	}
	return fmt.Errorf("there is no workspace %s; `box workspace list` names them", visible(name))
}

func taskShow(s *session) error {
	id := s.args[0]
	var t taskAnswer
	raw, err := s.get("/api/tasks/"+url.PathEscape(id), nil, &t)
	if err != nil {
		return err
	}
	return s.print(raw, func() error {
		rows := [][]string{
			{"task", t.ID}, {"title", t.Title}, {"state", t.State}, {"workspace", t.Workspace}, {"worker", strings.TrimSpace(t.Worker + " " + t.Model)},
			{"source", t.Source}, {"user", t.User}, {"cost", cents(t.CostCents.String()) + " of " + cents(t.BudgetCents.String())},
			{"created", t.CreatedAt}, {"updated", t.UpdatedAt},
		}
		for _, r := range [][]string{
			{"seat", t.Seat}, {"app", t.App}, {"tools", strings.Join(t.Tools, ", ")}, {"hosts", strings.Join(t.Hosts, ", ")},
			{"saw", strings.Join(t.Layers, ", ")}, {"step", t.Step}, {"summary", t.Summary}, {"error", t.Error},
		} {
			if r[1] != "" {
				rows = append(rows, r)
			}
		}
		if err := s.columns(rows); err != nil {
			return err
		}
		fmt.Fprintf(s.Out, "\n%s\n", strings.TrimRight(lines(t.Prompt), "\n"))
		return s.showChanges(id)
	})
}

// showChanges lists the files that a task changed, where its layer is still there.
func (s *session) showChanges(id string) error {
	var list []changeAnswer
	_, err := s.get("/api/tasks/"+url.PathEscape(id)+"/changes", nil, &list)
	if err != nil || len(list) == 0 {
		return nil // a task that has not begun, or whose files are gone, has none to show
	}
	fmt.Fprintln(s.Out)
	rows := [][]string{}
	const most = 40
	for i, c := range list {
		if i == most {
			rows = append(rows, []string{"…", fmt.Sprintf("%d more", len(list)-most)})
			break
		}
		also := ""
		if len(c.AlsoChangedBy) > 0 {
			also = "also by " + strings.Join(c.AlsoChangedBy, ", ")
		}
		rows = append(rows, []string{c.Change, c.Path, bytesText(c.Size), also})
	}
	return s.columns(rows)
}

func taskDiff(s *session) error {
	a, err := s.box.call(s.ctx, http.MethodGet, "/api/tasks/"+url.PathEscape(s.args[0])+"/diff", url.Values{"path": {s.args[1]}}, nil)
	if err != nil {
		return err
	}
	text := string(a.body)
	if s.json {
		b, err := json.Marshal(map[string]string{"diff": text})
		if err != nil {
			return err
		}
		text = string(b)
	}
	_, err = fmt.Fprintln(s.Out, strings.TrimRight(lines(text), "\n"))
	return err
}

func undoFlags(f *flag.FlagSet) {
	f.Bool("preview", false, "only say what would happen to which file")
}

func taskUndo(s *session) error {
	path := "/api/tasks/" + url.PathEscape(s.args[0]) + "/undo"
	if s.on("preview") {
		var p undoAnswer
		raw, err := s.get(path, nil, &p)
		if err != nil {
			return err
		}
		return s.print(raw, func() error {
			rows := [][]string{}
			for _, u := range p.Paths {
				later := ""
				if len(u.Later) > 0 {
					later = "later changed by " + strings.Join(u.Later, ", ")
				}
				rows = append(rows, []string{u.Outcome, u.Path, later})
			}
			if len(rows) == 0 {
				rows = [][]string{{"nothing would change"}}
			}
			return s.columns(rows)
		})
	}
	return s.become(path)
}

func taskStop(s *session) error { return s.become("/api/tasks/" + url.PathEscape(s.args[0]) + "/stop") }

// become posts to a task and shows what it is then.
func (s *session) become(path string) error {
	var t taskAnswer
	raw, err := s.ask(http.MethodPost, path, nil, nil, &t)
	if err != nil {
		return err
	}
	return s.print(raw, func() error {
		_, err := fmt.Fprintf(s.Out, "%s %s\n", t.ID, t.State)
		return err
	})
}

// age is how long ago a time was, in the largest unit that fits.
func age(at string) string {
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return at
	}
	d := time.Since(t)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func cents(s string) string { return s + "¢" }

func clip(s string, most int) string {
	r := []rune(s)
	if len(r) <= most {
		return s
	}
	return string(r[:most-1]) + "…"
}

func firstLine(s string) string {
	first, _, _ := strings.Cut(s, "\n")
	return first
}

func bytesText(n int64) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%d MB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

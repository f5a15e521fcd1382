package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gurtos/core/actionlog"
	"gurtos/core/app/declare"
	"gurtos/core/approval"
	"gurtos/core/budget"
	"gurtos/core/task"
	"gurtos/core/watch"
	"gurtos/core/workspace"
)

// Limits of what an app says. Lengths are in characters but for maxNote.
const (
	maxNote    = 64 << 10 // bytes of a note's or step's data
	maxSaid    = 4000     // of a step, a question
	maxBy      = 100
	maxHooks   = 100
	maxWatches = 200
	pageBytes  = 2 << 20 // of one answer that lists tasks or approvals
)

// boxMethod answers one of them.
type boxMethod func(ctx context.Context, h *host, params json.RawMessage) (any, error)

// boxMethods are what an app's process may ask, by name: the Box and the Ctx of the SDK.
func boxMethods() map[string]boxMethod {
	return map[string]boxMethod{
		"createTask": method((*host).createTask),
		"workspace":  method((*host).workspace),
		"task":       method((*host).task),
		"tasks":      method((*host).tasks),
		"undo":       method((*host).undo),
		"approvals":  method((*host).approvals),
		"answer":     method((*host).answer),
		"listen":     method((*host).listen),
		"job":        method((*host).job),
		"note":       method((*host).note),
		"hook":       method((*host).hook),
		"secret":     method((*host).secret),
		"watch":      method((*host).watch),
		"unwatch":    method((*host).unwatch),
		"cost":       method((*host).cost),
		"log":        method((*host).log),
		"ask":        method((*host).ask),
		"body":       method((*host).nextPiece),
		"broke":      method((*host).broke),
	}
}

// method reads the parameters of one.
func method[P any](do func(h *host, ctx context.Context, p P) (any, error)) boxMethod {
	return func(ctx context.Context, h *host, params json.RawMessage) (any, error) {
		var p P
		if err := json.Unmarshal(params, &p); err != nil {
			var wrong *json.UnmarshalTypeError
			if errors.As(err, &wrong) {
				return nil, fmt.Errorf("%s: a %s is needed, not a %s", strings.ToLower(wrong.Field), kind(wrong.Type.Kind().String()), wrong.Value)
			}
			return nil, err
		}
		return do(h, ctx, p)
	}
}

func kind(of string) string {
	switch of {
	case "string":
		return "text"
	case "bool":
		return "true or false"
	case "int64", "float64":
		return "number"
	}
	return of
}

func (h *host) createTask(ctx context.Context, p struct{ Spec json.RawMessage }) (any, error) {
	if err := h.a.spend.take(len(p.Spec) + 1000); err != nil {
		return nil, err
	}
	spec := h.r.opt.Vault.RedactJSON(p.Spec)
	return h.r.opt.Tasks.Create(ctx, spec, task.Caller{App: h.a.name})
}

func (h *host) task(ctx context.Context, p struct{ ID string }) (any, error) {
	t, err := h.r.opt.Tasks.Get(ctx, p.ID)
	var none *task.NotFound
	if errors.As(err, &none) {
		return nil, nil
	}
	return t, err
}

// page is a part of a list; Next is what After has to be for the part behind it.
type page struct {
	List []json.RawMessage `json:"list"`
	Next string            `json:"next,omitempty"`
}

// add adds an item, and says whether it is the last one that fits.
func (p *page) add(size *int, item any) (full bool, err error) {
	raw, err := plain(item)
	if err != nil {
		return false, err
	}
	p.List = append(p.List, raw)
	*size += len(raw)
	return *size >= pageBytes, nil
}

// errFull ends a list where its page is full.
var errFull = errors.New("the page is full")

func (h *host) tasks(ctx context.Context, p struct{ After string }) (any, error) {
	out, size := page{List: []json.RawMessage{}}, 0
	err := h.r.opt.Tasks.Each(ctx, task.Filter{Before: p.After, Limit: task.MaxPage}, func(t task.Task) error {
		full, err := out.add(&size, t)
		if err == nil && (full || len(out.List) == task.MaxPage) {
			out.Next, err = t.ID, errFull
		}
		return err
	})
	if err != nil && !errors.Is(err, errFull) {
		return nil, err
	}
	return out, nil
}

func (h *host) approvals(ctx context.Context, p struct{ After string }) (any, error) {
	at, _ := strconv.Atoi(p.After) // how many the pages before had
	out, size := page{List: []json.RawMessage{}}, 0
	err := h.r.opt.Tasks.EachApproval(ctx, "", at, func(a approval.Approval) error {
		at++
		full, err := out.add(&size, a)
		if err == nil && full {
			out.Next, err = strconv.Itoa(at), errFull
		}
		return err
	})
	if err != nil && !errors.Is(err, errFull) {
		return nil, err
	}
	return out, nil
}

func (h *host) undo(ctx context.Context, p struct{ ID string }) (any, error) {
	_, err := h.r.opt.Tasks.Undo(ctx, p.ID, h.a.name)
	return nil, err
}

func (h *host) answer(ctx context.Context, p struct {
	ID       string
	Approved *bool
	By       string
}) (any, error) {
	if p.Approved == nil {
		return nil, errors.New("approved: true or false is needed")
	}
	if p.By != h.a.name && !strings.HasPrefix(p.By, h.a.name+":") {
		h.a.trouble("it tried to answer a question as %q", declare.Clip(p.By))
		return nil, fmt.Errorf("by: an app answers as itself: %s, or that with a colon and more behind it, such as %s:name", h.a.name, h.a.name)
	}
	if utf8.RuneCountInString(p.By) > maxBy || strings.ContainsFunc(p.By, unprintable) {
		return nil, fmt.Errorf("by: at most %d characters that can be printed", maxBy)
	}
	return h.r.opt.Tasks.Answer(ctx, p.ID, *p.Approved, h.r.opt.Vault.Redact(p.By), "")
}

// unprintable are characters that can turn or hide a line.
func unprintable(r rune) bool { return !unicode.IsPrint(r) }

func (h *host) job(ctx context.Context, p struct {
	Name  string
	Input json.RawMessage
	Task  string
}) (any, error) {
	return h.r.job(ctx, p.Name, p.Input, p.Task)
}

func (h *host) note(ctx context.Context, p struct {
	Data json.RawMessage
	Task string
}) (any, error) {
	if len(p.Data) > maxNote {
		return nil, fmt.Errorf("a note has at most %d KB, this has %d", maxNote>>10, len(p.Data)>>10)
	}
	if err := h.a.spend.take(len(p.Data) + 200); err != nil {
		return nil, err
	}
	return nil, h.r.opt.Tasks.AppNote(ctx, h.a.name, h.r.opt.Vault.RedactJSON(p.Data), p.Task)
}

var hookForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,60}$`)

func (h *host) hook(_ context.Context, p struct {
	Name string
	On   bool
}) (any, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !p.On:
		delete(h.hooks, p.Name)
		return nil, nil
	case !hookForm.MatchString(p.Name):
		return nil, fmt.Errorf("webhook %q: a name of 1 to 60 letters, digits, _ and - is needed", declare.Clip(p.Name))
	case h.hooks[p.Name]:
		return nil, fmt.Errorf("webhook %s is there already: end that one first", p.Name)
	case len(h.hooks) >= maxHooks:
		return nil, fmt.Errorf("an app has at most %d webhooks", maxHooks)
	case h.quiet:
		return nil, errOff
	}
	h.hooks[p.Name] = true
	return nil, nil
}

// secret gives a key to a Box, or to the Ctx of a call.
func (h *host) secret(ctx context.Context, p struct {
	Call *int64
	Name string
}) (any, error) {
	allowed, who := h.made.Secrets, h.a.name
	if p.Call != nil {
		c, err := h.running(*p.Call)
		if err != nil {
			return nil, err
		}
		allowed, who = c.secrets, c.what
	}
	if !slices.Contains(allowed, p.Name) {
		h.a.trouble("%s asked for the key %s, which is not listed in its secrets", who, declare.Clip(p.Name))
		return nil, fmt.Errorf("%s may not read %s: it is not among the keys that it lists in secrets", who, declare.Clip(p.Name))
	}
	item := "key:" + p.Name
	if err := h.r.opt.Tasks.Allowed(ctx, h.a.name, item, "", ""); err != nil {
		return nil, err
	}
	value, ok := h.r.opt.Vault.Get(p.Name)
	if !ok {
		return nil, fmt.Errorf("%s is not set. The owner can set it in Settings, Accounts & Keys", p.Name)
	}
	return value, h.r.opt.Tasks.Used(ctx, h.a.name, item)
}

// running finds the call that a Ctx belongs to.
func (h *host) running(id int64) (*call, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.calls[id]
	if c == nil || c.hand == nil {
		return nil, errors.New("the call that this belongs to is over")
	}
	return c, nil
}

func (h *host) cost(_ context.Context, p struct {
	Call  int64
	Cents json.RawMessage
	What  string
}) (any, error) {
	c, err := h.running(p.Call)
	if err != nil {
		return nil, err
	}
	cents, err := budget.ParseCents(string(p.Cents))
	if err != nil || cents.Sign() < 0 {
		return nil, errors.New("cents: a cost of 0 or more")
	}
	if strings.TrimSpace(p.What) == "" || utf8.RuneCountInString(p.What) > maxSaid {
		return nil, fmt.Errorf("what: what the cost is for is needed, in at most %d characters", maxSaid)
	}
	if err := h.a.spend.take(len(p.What) + 200); err != nil {
		return nil, err
	}
	return nil, c.hand.Cost(cents, h.r.opt.Vault.Redact(p.What))
}

func (h *host) log(_ context.Context, p struct {
	Call int64
	Text string
	Data json.RawMessage
}) (any, error) {
	c, err := h.running(p.Call)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(p.Text) == "" || utf8.RuneCountInString(p.Text) > maxSaid || len(p.Data) > maxNote {
		return nil, fmt.Errorf("a step has a text of at most %d characters and data of at most %d KB", maxSaid, maxNote>>10)
	}
	if err := h.a.spend.take(len(p.Text) + len(p.Data) + 200); err != nil {
		return nil, err
	}
	v := h.r.opt.Vault
	return nil, c.hand.Log(v.Redact(p.Text), v.RedactJSON(p.Data))
}

func (h *host) ask(ctx context.Context, p struct {
	Call              int64
	Question, Purpose string
}) (any, error) {
	c, err := h.running(p.Call)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(p.Question) == "" || utf8.RuneCountInString(p.Question)+utf8.RuneCountInString(p.Purpose) > maxSaid {
		return nil, fmt.Errorf("a question is needed, with its purpose of at most %d characters", maxSaid)
	}
	if err := h.a.spend.take(len(p.Question) + len(p.Purpose) + 200); err != nil {
		return nil, err
	}
	c.clock.pause()
	defer c.clock.resume()
	v := h.r.opt.Vault
	return c.hand.Ask(ctx, v.Redact(p.Question), v.Redact(p.Purpose))
}

// jobHand is what a model job's Ctx does: for the task that was named, or for none.
type jobHand struct {
	r              *Registry
	app, key, task string
}

func (j *jobHand) Cost(c budget.Cents, what string) error {
	if j.task == "" {
		return j.r.opt.Tasks.AppCost(context.Background(), j.app, c, what)
	}
	return j.r.opt.Tasks.ToolCost(context.Background(), j.task, j.app+".job", c, what)
}

func (j *jobHand) Log(text string, data json.RawMessage) error {
	if j.task == "" {
		return nil
	}
	return j.r.opt.Tasks.ToolStep(context.Background(), j.task, text, data)
}

func (j *jobHand) Ask(ctx context.Context, question, purpose string) (bool, error) {
	if j.task == "" {
		return false, nil
	}
	sum := sha256.Sum256([]byte(question))
	a := approval.Approval{ID: j.task + ".tool." + j.key + ".ask." + hex.EncodeToString(sum[:8]), Task: j.task, Question: question, Purpose: purpose}
	if _, err := j.r.opt.Tasks.Ask(ctx, a); err != nil {
		var over *task.Over
		if errors.As(err, &over) && over.State.Ended() {
			return false, nil // as a tool's questions: with the task's end they are answered no
		}
		return false, err
	}
	got, err := j.r.opt.Tasks.Await(ctx, a.ID, 0)
	return err == nil && got.State == approval.Approved, err
}

// listen sends the app each line as it is written, or no more.
func (h *host) listen(_ context.Context, p struct{ On bool }) (any, error) {
	ctx, stop := context.WithCancel(h.ctx)
	h.mu.Lock()
	if h.silence != nil {
		h.silence()
	}
	h.silence = stop
	h.mu.Unlock()
	if !p.On {
		stop()
		return nil, nil
	}
	head, _ := h.r.opt.Events.Head()
	h.alongside(func() {
		err := h.r.opt.Events.Follow(ctx, head, func(line []byte, _ func() (actionlog.Event, error)) error {
			return h.p.main.tell("event", map[string]any{"event": json.RawMessage(line)})
		})
		if err != nil && ctx.Err() == nil && !errors.Is(err, errGone) {
			h.r.opt.Slog.Error("an app hears no events any more", "app", h.a.name, "why", err)
		}
	})
	return nil, nil
}

func (h *host) watch(_ context.Context, p struct {
	ID    int64
	Watch json.RawMessage
}) (any, error) {
	if h.r.opt.Watcher == nil {
		return nil, errors.New("this box watches neither the clock nor files")
	}
	h.mu.Lock()
	many := len(h.watches) >= maxWatches
	_, twice := h.watches[p.ID]
	h.mu.Unlock()
	if many || twice {
		return nil, fmt.Errorf("an app has at most %d watches", maxWatches)
	}
	// The log has it, as it has a note.
	if err := h.a.spend.take(len(p.Watch) + 200); err != nil {
		return nil, err
	}
	want, err := watch.Read(h.r.opt.Vault.RedactJSON(p.Watch))
	if err != nil {
		return nil, err
	}
	stop, err := h.r.opt.Watcher.Add(h.ctx, h.a.name, want, func(ctx context.Context, f watch.Fired) error {
		return h.fire(ctx, p.ID, want.Name, f)
	})
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil {
		stop()
		return nil, errGone
	}
	h.watches[p.ID] = stop
	return nil, nil
}

// fire tells the app that a watch has something for it.
func (h *host) fire(ctx context.Context, id int64, name string, f watch.Fired) error {
	c := &call{what: "the trigger " + name, limit: h.r.opt.RouteTime}
	err := h.run(ctx, c, "fire", map[string]any{"watch": id, "fired": f}, nil)
	var late *slow
	var never unsent
	switch {
	case errors.As(err, &never):
		return fmt.Errorf("%w: %w", watch.ErrNotTaken, err)
	case err != nil && ctx.Err() != nil:
		return err // ended with the app, the trigger or the box: nobody's fault
	case err != nil && !errors.As(err, &late):
		h.a.trouble("the trigger %s: %v", name, err)
	}
	if err == nil {
		return nil
	}
	return errors.New(h.r.opt.Vault.Redact(err.Error())) // for the log
}

func (h *host) unwatch(_ context.Context, p struct{ ID int64 }) (any, error) {
	h.mu.Lock()
	stop := h.watches[p.ID]
	delete(h.watches, p.ID)
	h.mu.Unlock()
	if stop != nil {
		stop()
	}
	return nil, nil
}

func (h *host) broke(_ context.Context, p struct{ Error string }) (any, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.uncaught == "" {
		h.uncaught = clipTo(p.Error, maxSaid)
	}
	return nil, nil
}

func clipTo(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// workspace makes a workspace, unless there is one of its name.
func (h *host) workspace(ctx context.Context, p struct {
	Name string
	From *string
}) (any, error) {
	if err := task.CheckWorkspaceName(p.Name); err != nil {
		return nil, err
	}
	_, err := h.r.opt.Workspaces.Get(p.Name)
	if err == nil {
		return nil, nil
	}
	if !errors.Is(err, workspace.ErrMissing) {
		return nil, err
	}
	if err := h.a.spend.take(len(p.Name) + 200); err != nil {
		return nil, err
	}
	fill := func(string) (int64, int, error) { return 0, 0, nil }
	if p.From != nil {
		root, below, err := h.folder(*p.From)
		if err != nil {
			return nil, err
		}
		fill = func(dir string) (int64, int, error) { return copyTree(ctx, root, below, dir) }
	}
	_, err = h.r.opt.Workspaces.Fill(p.Name, func(dir string) error {
		return h.a.made.fill(func() (int64, int, error) { return fill(dir) })
	})
	if errors.Is(err, workspace.ErrExists) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return nil, h.r.opt.Tasks.Note(ctx, task.NoteWorkspace, map[string]any{"name": p.Name, "by": h.a.name}, "")
}

// Heed holds an app's running process to what the owner now lets it reach.
func (r *Registry) Heed(ctx context.Context, name string) error {
	now, err := r.opt.Tasks.Rights(ctx, name)
	if err != nil {
		return err
	}
	r.mu.Lock()
	var hosts []*host
	if a := r.apps[name]; a != nil {
		hosts = a.hosts()
	}
	r.mu.Unlock()
	var errs []error
	for _, h := range hosts {
		h.mu.Lock()
		if h.space != nil {
			errs = append(errs, h.space.SetRules(h.made.DeclaredHosts(), !now.DeclaredHostsOnly))
		}
		h.mu.Unlock()
	}
	return errors.Join(errs...)
}

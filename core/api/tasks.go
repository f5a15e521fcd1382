package api

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gurtos/core/approval"
	"gurtos/core/task"
	"gurtos/sandbox/layers"
)

func (s *Server) tasks(c *call) error {
	q, err := c.query()
	if err != nil {
		return err
	}
	limit, err := whole(q, "limit", task.DefaultPage, 1, task.MaxPage)
	if err != nil {
		return err
	}
	f := task.Filter{State: task.State(q.Get("state")), Workspace: q.Get("workspace"), Before: q.Get("before"), Limit: int(limit)}
	if q.Has("state") && !f.State.Known() {
		return bad("state: queued, running, waiting, done, failed or undone is needed")
	}
	return c.array(func(put func(any) error) error {
		return s.opt.Tasks.Each(c.r.Context(), f, func(t task.Task) error { return put(t) })
	})
}

func (s *Server) newTask(c *call) error {
	body, err := c.all()
	if err != nil {
		return err
	}
	t, err := s.opt.Tasks.Create(c.r.Context(), body, task.Caller{By: c.caller.name()})
	if err != nil {
		return err
	}
	c.w.Header().Set("Location", "/api/tasks/"+t.ID)
	return c.json(http.StatusCreated, t)
}

func (s *Server) task(c *call) error {
	t, err := s.opt.Tasks.Get(c.r.Context(), c.r.PathValue("id"))
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, t)
}

func (s *Server) undoPreview(c *call) error {
	return c.arrayIn(`{"paths":`, func(put func(any) error) error {
		return s.opt.Tasks.UndoPreview(c.r.Context(), c.r.PathValue("id"), func(p task.UndoPath) error { return put(p) })
	}, "}")
}

func (s *Server) reach(c *call) error {
	q, err := c.query()
	if err != nil {
		return err
	}
	if q.Get("host") == "" {
		return bad("host: a host, such as example.com or example.com:8080, is needed")
	}
	e, err := s.opt.Tasks.Reach(c.r.Context(), c.r.PathValue("id"), q.Get("host"))
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, e)
}

func (s *Server) undo(c *call) error {
	if err := c.nothing(); err != nil {
		return err
	}
	t, err := s.opt.Tasks.Undo(c.r.Context(), c.r.PathValue("id"), c.caller.name())
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, t)
}

func (s *Server) stop(c *call) error {
	if err := c.nothing(); err != nil {
		return err
	}
	t, err := s.opt.Tasks.Stop(c.r.Context(), c.r.PathValue("id"), c.caller.name())
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, t)
}

func (s *Server) changes(c *call) error {
	return c.array(func(put func(any) error) error {
		return s.opt.Tasks.EachChange(c.r.Context(), c.r.PathValue("id"), func(v task.Change) error { return put(v) })
	})
}

func (s *Server) diff(c *call) error {
	q, err := c.query()
	if err != nil {
		return err
	}
	if q.Get("path") == "" {
		return bad("path: the file whose changes are wanted is needed")
	}
	text, err := s.opt.Tasks.Diff(c.r.Context(), c.r.PathValue("id"), q.Get("path"))
	if wrong := new(layers.PathError); errors.As(err, &wrong) {
		return pathError(err, q.Get("path"))
	}
	if err != nil {
		return err
	}
	return c.text("text/plain; charset=utf-8", text)
}

// text answers with a text that is no JSON.
func (c *call) text(kind, text string) error {
	h := c.w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("Cache-Control", "no-store")
	c.w.WriteHeader(http.StatusOK)
	c.w.Write([]byte(text)) // a failed write is the client's loss
	return nil
}

// list makes an empty array of nothing, which JSON would write as null.
func list[T any](v []T) []T {
	if v == nil {
		return []T{}
	}
	return v
}

func (s *Server) approvals(c *call) error {
	q, err := c.query()
	if err != nil {
		return err
	}
	state := approval.State(q.Get("state"))
	if q.Has("state") && state != approval.Pending && state != approval.Approved && state != approval.Denied {
		return bad("state: pending, approved or denied is needed")
	}
	return c.array(func(put func(any) error) error {
		return s.opt.Tasks.EachApproval(c.r.Context(), state, 0, func(a approval.Approval) error { return put(a) })
	})
}

// Answer is the answer to a question.
type Answer struct {
	Approved *bool   `json:"approved" doc:"Yes or no."`
	By       *string `json:"by,omitempty" doc:"Who answers, at most 60 characters: counts from the box's own screen only, box screen when it is missing; a device answers with its own name."`
	Reason   *string `json:"reason,omitempty" doc:"Why, at most 1,000 characters; it goes into the log and to the task."`
}

const maxBy = 60

func (s *Server) answer(c *call) error {
	var a Answer
	if err := c.decode(&a); err != nil {
		return err
	}
	if a.Approved == nil {
		return bad("approved: true or false is needed")
	}
	by, reason := c.caller.name(), ""
	if a.By != nil {
		name := strings.TrimSpace(*a.By)
		if n := utf8.RuneCountInString(name); n > maxBy {
			return bad("by: at most %d characters, this has %d", maxBy, n)
		}
		if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return bad("by: only letters, digits, spaces and signs that can be seen")
		}
		if c.caller.kind == screen && name != "" {
			by = name
		}
	}
	if a.Reason != nil {
		reason = *a.Reason
	}
	if c.caller.kind == window {
		if err := s.ownRequest(c); err != nil {
			return err
		}
	}
	v, err := s.opt.Tasks.Answer(c.r.Context(), c.r.PathValue("id"), *a.Approved, by, reason)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, v)
}

// ownRequest holds an app's window to the questions of tasks that the app started. For
// any other the page is told to have the shell open the task, where a person answers.
func (s *Server) ownRequest(c *call) error {
	a, err := s.opt.Tasks.Approval(c.r.Context(), c.r.PathValue("id"))
	if err != nil {
		return err
	}
	t, err := s.opt.Tasks.Get(c.r.Context(), a.Task)
	if err != nil {
		return err
	}
	if t.App == c.caller.app {
		return nil
	}
	return &Error{
		Status:   http.StatusForbidden,
		Sentence: "this request is not of a task that the app started: answer it in the task's own window",
		More:     map[string]any{"needs": "shell", "task": t.ID},
	}
}

// Pause is the switch of all agents.
type Pause struct {
	Paused *bool `json:"paused" doc:"Whether all agents stand still."`
}

func (s *Server) pause(c *call) error {
	var p Pause
	if err := c.decode(&p); err != nil {
		return err
	}
	if p.Paused == nil {
		return bad("paused: true or false is needed")
	}
	if err := s.opt.Tasks.Pause(c.r.Context(), *p.Paused, c.caller.name()); err != nil {
		return err
	}
	return c.json(http.StatusOK, p)
}

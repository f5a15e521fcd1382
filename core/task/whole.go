package task

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"gurtos/core/actionlog"
	"gurtos/core/approval"
)

// part is a task as the fold has it, and where the log has the rest.
type part struct {
	Task
	line int64 // that created it
	long long
}

// part is what may be shown of an entry. Its line must be on disk before whole reads it.
func (e *entry) part() part {
	p := part{Task: e.Task, line: e.Seq, long: e.Long}
	if e.State.Ended() {
		return p
	}
	p.long = long{}
	p.Layers = slices.Clone(e.Layers)
	return p
}

// want is a line that is to be read, and what takes it.
type want struct {
	line int64
	take func(ev *actionlog.Event) error
}

// gather reads lines, each once, in the order of the log.
func (t *Tasks) gather(ctx context.Context, wants []want) error {
	slices.SortStableFunc(wants, func(a, b want) int { return cmp.Compare(a.line, b.line) })
	var lines []int64
	for _, w := range wants {
		if n := len(lines); n == 0 || lines[n-1] != w.line {
			lines = append(lines, w.line)
		}
	}
	next := 0
	return t.opt.Log.Lines(ctx, lines, func(_ []byte, event func() (actionlog.Event, error)) error {
		ev, err := event()
		if err != nil {
			return err
		}
		for ; next < len(wants) && wants[next].line == ev.Seq; next++ {
			if err := wants[next].take(&ev); err != nil {
				return fmt.Errorf("line %d: %w", ev.Seq, err)
			}
		}
		return nil
	})
}

// whole puts into tasks what the fold doesn't keep of them.
func (t *Tasks) whole(ctx context.Context, parts ...*part) error {
	var wants []want
	for _, p := range parts {
		wants = append(wants, want{p.line, func(ev *actionlog.Event) error {
			p.User = ev.User
			p.Spec = Spec{}
			return json.Unmarshal(ev.Spec, &p.Spec)
		}})
		if p.Layers == nil {
			p.Layers = []string{}
		}
		for _, l := range []struct {
			line int64
			take func(ev *actionlog.Event)
		}{
			{p.long.Layers, func(ev *actionlog.Event) { p.Layers = ev.Layers }},
			{p.long.Error, func(ev *actionlog.Event) { p.Error = ev.Error }},
			{p.long.Summary, func(ev *actionlog.Event) { p.Summary = ev.Summary }},
		} {
			if l.line != 0 {
				wants = append(wants, want{l.line, func(ev *actionlog.Event) error { l.take(ev); return nil }})
			}
		}
	}
	if err := t.gather(ctx, wants); err != nil {
		return fmt.Errorf("reading tasks in the log: %w", err)
	}
	return nil
}

// wholeOf is one task with all that the log has of it.
func (t *Tasks) wholeOf(ctx context.Context, p part) (Task, error) {
	err := t.whole(ctx, &p)
	return p.Task, err
}

// together is how many tasks or questions are read out of the log at once: few enough
// that the longest fill no box's memory.
const together = 16

// Each calls fn with tasks, newest first. It has few of them in memory at a time.
func (t *Tasks) Each(ctx context.Context, want Filter, fn func(Task) error) error {
	parts, err := t.list(ctx, want)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(parts, together) {
		var fill []*part
		for i := range some {
			fill = append(fill, &some[i])
		}
		if err := t.whole(ctx, fill...); err != nil {
			return err
		}
		for i := range some {
			if err := fn(some[i].Task); err != nil {
				return err
			}
			some[i] = part{}
		}
	}
	return nil
}

// EachApproval calls fn with the questions in a state, "" for all, oldest first, without
// the first from of all questions. It has few of them in memory at a time.
func (t *Tasks) EachApproval(ctx context.Context, state approval.State, from int, fn func(approval.Approval) error) error {
	var book *approval.Book
	if err := t.read(ctx, func(f *fold) error { book = f.Approvals.Snapshot(); return nil }); err != nil {
		return err
	}
	for from = max(from, 0); ; {
		some, next := book.Part(state, from, 1000)
		if err := t.eachOf(ctx, some, fn); err != nil {
			return err
		}
		if from = next; from == 0 {
			return nil
		}
	}
}

// eachOf reads one line after another: each may ask about a call of 10 MB.
func (t *Tasks) eachOf(ctx context.Context, some []approval.Asked, fn func(approval.Approval) error) error {
	var wants []want
	for _, a := range some {
		if a.State != approval.Pending {
			wants = append(wants, want{line: a.Line})
		}
	}
	i := 0
	pending := func() error {
		for ; i < len(some) && some[i].State == approval.Pending; i++ {
			if err := fn(some[i].Approval); err != nil {
				return err
			}
		}
		return nil
	}
	for j := range wants {
		wants[j].take = func(ev *actionlog.Event) error {
			if err := pending(); err != nil {
				return err
			}
			out, err := answered(some[i].Approval, ev)
			i++
			if err != nil {
				return err
			}
			return fn(out)
		}
	}
	if err := t.gather(ctx, wants); err != nil {
		return fmt.Errorf("reading questions in the log: %w", err)
	}
	return pending()
}

// questionOf is a question with its texts, which the fold doesn't keep of one that was
// answered.
func (t *Tasks) questionOf(ctx context.Context, a approval.Approval, line int64) (approval.Approval, error) {
	if a.State == approval.Pending {
		return a, nil
	}
	out := a
	err := t.gather(ctx, []want{{line, func(ev *actionlog.Event) (err error) { out, err = answered(a, ev); return err }}})
	if err != nil {
		return a, fmt.Errorf("reading a question in the log: %w", err)
	}
	return out, nil
}

// answered is an answered question with the texts of the line that asked it.
func answered(a approval.Approval, ev *actionlog.Event) (approval.Approval, error) {
	out := a
	if ev.Type == actionlog.TypeApprovalAnswered {
		out.Question = "The line of the log that asked this was cut out."
		return out, nil
	}
	err := json.Unmarshal(ev.Approval, &out)
	out.State, out.By, out.Reason = a.State, a.By, a.Reason
	return out, err
}

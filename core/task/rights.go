package task

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/permission"
	"gurtos/core/strict"
)

func (f *fold) setRights(app string, set json.RawMessage) error {
	next, err := f.Rights[app].Change(set)
	if err != nil {
		return fmt.Errorf("line %d: permissions of %s: %w", f.Seq, app, err)
	}
	f.Rights[app] = next
	return nil
}

// Rights are what the owner decided for an app.
func (t *Tasks) Rights(ctx context.Context, app string) (permission.Rights, error) {
	var r permission.Rights
	err := t.read(ctx, func(f *fold) error { r = f.Rights[app].Clone(); return nil })
	return r, err
}

// AllRights are what the owner decided for every app that the owner ever touched.
func (t *Tasks) AllRights(ctx context.Context) (map[string]permission.Rights, error) {
	var all map[string]permission.Rights
	err := t.read(ctx, func(f *fold) error {
		all = maps.Clone(f.Rights)
		for app, r := range all {
			all[app] = r.Clone()
		}
		return nil
	})
	return all, err
}

var appName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)

// SetRights changes what an app may do by the body of a PUT and returns what holds
// then.
func (t *Tasks) SetRights(ctx context.Context, app string, body []byte, by string) (permission.Rights, error) {
	if !appName.MatchString(app) {
		return permission.Rights{}, &NotFound{"app", shown(app)}
	}
	var out permission.Rights
	err := t.commit(ctx, func(f *fold) ([]actionlog.Event, error) {
		next, err := f.Rights[app].Change(body)
		var bad *strict.Error
		if errors.As(err, &bad) {
			return nil, &Invalid{bad.Field, bad.Sentence}
		}
		if err != nil {
			return nil, err
		}
		out = next.Clone()
		return one(note(noteRights, map[string]any{"app": app, "set": json.RawMessage(body), "by": by}, ""))
	})
	if err == nil {
		t.rewire(app)
	}
	return out, err
}

func one(ev actionlog.Event, err error) ([]actionlog.Event, error) {
	return []actionlog.Event{ev}, err
}

// Used notes that an app used what the owner can take from it, such as a key, unless that
// was noted within the last hour.
func (t *Tasks) Used(ctx context.Context, app, item string) error {
	return t.commit(ctx, func(f *fold) ([]actionlog.Event, error) {
		last, err := time.Parse(time.RFC3339, f.Memory.Used[app][item])
		if since := t.opt.Now().Sub(last); err == nil && since >= 0 && since < usedEvery {
			return nil, nil
		}
		return one(note(noteUsed, map[string]any{"app": app, "item": item}, ""))
	})
}

// usedEvery is how often the log tells that an app uses the same thing.
const usedEvery = time.Hour

// Uses are when apps last used what the owner can take from them.
func (t *Tasks) Uses(ctx context.Context) (permission.Uses, error) {
	var u permission.Uses
	err := t.read(ctx, func(f *fold) error { u = f.Memory.Used.Clone(); return nil })
	return u, err
}

// refusedEvery is how often the log tells of the same refusal where no task has it: an
// app may ask as often as it likes, and each line is kept for good.
const refusedEvery = time.Minute

// refusals are when the log last told of each; it is bounded.
type refusals map[[3]string]time.Time

func (r refusals) due(what [3]string, now time.Time) bool {
	if since := now.Sub(r[what]); since >= 0 && since < refusedEvery {
		return false
	}
	if len(r) >= 1000 {
		clear(r)
	}
	r[what] = now
	return true
}

// Allowed is nil where the owner lets an app do what an item stands for, and else a
// *Forbidden, which is in the log then; where there is no task, at most once a minute.
// tool is which tool wanted it, "" for none, and task for which task, "" for none.
func (t *Tasks) Allowed(ctx context.Context, app, item, tool, task string) error {
	var refused error
	err := t.commit(ctx, func(f *fold) ([]actionlog.Event, error) {
		if f.Rights[app].Allowed(item) {
			return nil, nil
		}
		refused = &Forbidden{permission.Refusal(t.opt.Tools.Title(app), item)}
		if task == "" && !t.refused.due([3]string{app, item, tool}, t.opt.Now()) {
			return nil, nil
		}
		data := map[string]any{"app": app, "item": item}
		if tool != "" {
			data["tool"] = tool
		}
		return one(note(NoteRefused, data, task))
	})
	return cmp.Or(err, refused)
}

// mayCreate holds a task that an app starts against what the owner lets it do. A
// refusal is noted in the log.
func (t *Tasks) mayCreate(ctx context.Context, s Spec, from Caller) error {
	if from.App == "" {
		return nil
	}
	items := needs(s.Worker, s.Hosts, false)
	var refused error
	err := t.commit(ctx, func(f *fold) ([]actionlog.Event, error) {
		for _, item := range items {
			if !f.Rights[from.App].Allowed(item) {
				refused = &Forbidden{permission.Refusal(t.opt.Tools.Title(from.App), item)}
				return one(note(NoteRefused, map[string]any{"app": from.App, "item": item}, ""))
			}
		}
		return nil, nil
	})
	if err != nil {
		return err
	}
	return refused
}

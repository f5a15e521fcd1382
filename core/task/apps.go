package task

import (
	"context"
	"encoding/json"
	"maps"

	"gurtos/core/actionlog"
	"gurtos/core/budget"
)

// Apps says of each app that the box ever had whether the owner has it on.
func (t *Tasks) Apps(ctx context.Context) (map[string]bool, error) {
	var all map[string]bool
	err := t.read(ctx, func(f *fold) error { all = maps.Clone(f.Apps); return nil })
	return all, err
}

// AppCost books what an app spent for the box and for no task.
func (t *Tasks) AppCost(ctx context.Context, app string, c budget.Cents, what string) error {
	spender, err := json.Marshal(app)
	if err != nil {
		return err
	}
	ev := actionlog.Event{
		Type: actionlog.TypeCost, Cents: c.Number(), What: what,
		Extra: []actionlog.Field{{Name: "spender", Value: spender}},
	}
	return t.commit(ctx, func(*fold) ([]actionlog.Event, error) { return []actionlog.Event{ev}, nil })
}

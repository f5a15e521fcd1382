package watch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Changes that are very many come in several calls, each of which an app can take.
func TestManyChanges(t *testing.T) {
	for _, row := range []struct {
		n, length int // of paths
		calls     int
	}{{1, 10, 1}, {10_000, 10, 1}, {10_001, 10, 2}, {25_000, 10, 3}, {1200, 4000, 3}} {
		var changes, told []Change
		for i := range row.n {
			changes = append(changes, Change{fmt.Sprintf("%d%s", i, strings.Repeat("x", row.length)), "added"})
		}
		calls := 0
		w := &watching{ctx: t.Context(), fire: func(_ context.Context, f Fired) error {
			calls++
			told = append(told, f.Changes...)
			return nil
		}}
		if kept, err := w.tell(time.Now(), changes); kept != nil || err != nil || calls != row.calls || !slices.Equal(told, changes) {
			t.Errorf("%+v: %d calls with %d changes, %v, %v", row, calls, len(told), kept, err)
		}
	}
	// What isn't taken is told as a whole again.
	calls := 0
	w := &watching{ctx: t.Context(), fire: func(context.Context, Fired) error {
		if calls++; calls == 2 {
			return ErrNotTaken
		}
		return nil
	}}
	if kept, err := w.tell(time.Now(), make([]Change, 25_000)); kept == nil || err != nil || calls != 2 {
		t.Errorf("%d calls, %v, %v", calls, kept, err)
	}
}

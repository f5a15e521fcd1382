package task

import (
	"context"
	"maps"
)

// Counts is how many tasks stand in each state.
func (t *Tasks) Counts(ctx context.Context) (map[State]int, error) {
	var n map[State]int
	err := t.read(ctx, func(f *fold) error { n = maps.Clone(f.count); return nil })
	return n, err
}

package task

import "context"

// Counts is how many tasks stand in each state.
func (t *Tasks) Counts(ctx context.Context) (map[State]int, error) {
	n := map[State]int{}
	return n, t.read(ctx, func(f *fold) error {
		for _, e := range f.Tasks {
			n[e.State]++
		}
		return nil
	})
}

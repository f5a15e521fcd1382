package broker_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"gurtos/core/actionlog"
	"gurtos/core/approval"
	"gurtos/core/task"
)

// lined is a log that keeps which of its lines were read one by one.
type lined struct {
	*actionlog.Log
	read []int64
}

func (l *lined) Lines(ctx context.Context, seqs []int64, fn actionlog.Reader) error {
	l.read = append(l.read, seqs...)
	return l.Log.Lines(ctx, seqs, fn)
}

// Questions from any one on are those behind it, and nothing is read of those before.
func TestApprovalsFromOneOn(t *testing.T) {
	var log *lined
	b := newBox(t, boxOptions{reads: func(l *actionlog.Log) task.Log { log = &lined{Log: l}; return log }})
	id := b.begin("")
	var all []string
	for i := range 6 {
		a, err := b.tasks.Ask(t.Context(), approval.Approval{ID: fmt.Sprint(id, ".task.", i), Task: id, Question: "?"})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a.ID)
		if i%3 > 0 {
			b.answer(a.ID, i%3 == 1)
		}
	}
	for from := -1; from <= 7; from++ {
		for _, state := range []approval.State{"", approval.Pending, approval.Approved} {
			log.read = nil
			var got, want []string
			if err := b.tasks.EachApproval(t.Context(), state, from, func(a approval.Approval) error { got = append(got, a.ID); return nil }); err != nil {
				t.Fatal(err)
			}
			answered := 0
			for i := max(0, from); i < len(all); i++ {
				if is := []approval.State{approval.Pending, approval.Approved, approval.Denied}[i%3]; state == "" || is == state {
					want = append(want, all[i])
					if is != approval.Pending {
						answered++
					}
				}
			}
			if !slices.Equal(got, want) || len(log.read) != answered {
				t.Errorf("from %d, %q: %v, not %v; %d lines read, not %d", from, state, got, want, len(log.read), answered)
			}
		}
	}
}

package task

import (
	"context"
	"fmt"

	"gurtos/core/actionlog"
	"gurtos/core/approval"
)

// Blocked logs that a task tried to reach a host (host:port) that it may not reach,
// and how often.
func (t *Tasks) Blocked(ctx context.Context, id, host string, count int) error {
	ev := actionlog.Event{Type: actionlog.TypeNetBlocked, Task: id, Host: host}
	if count > 1 {
		ev.Count = count
	}
	return t.commit(ctx, func(f *fold) ([]actionlog.Event, error) {
		_, err := f.entry(id)
		return []actionlog.Event{ev}, err
	})
}

// AllowUpload waits until the owner says whether a task may go on sending to a host to
// which it sent as much as the settings allow without an OK. The answer holds for the
// host for the task's life.
func (t *Tasks) AllowUpload(ctx context.Context, id, host string, megabytes int64) (bool, error) {
	a, err := t.Ask(ctx, approval.Approval{
		ID: id + ".upload." + host, Task: id, Payee: host, Purpose: "upload",
		Question: fmt.Sprintf("The task has sent %d MB to %s. Let it send more?", megabytes, host),
	})
	if err == nil && a.State == approval.Pending {
		a, err = t.Await(ctx, a.ID, 0)
	}
	return a.State == approval.Approved, err
}

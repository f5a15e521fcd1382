package task

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"gurtos/core/actionlog"
)

// stopGrace is how long a worker may take to end when boxd does.
const stopGrace = 3 * time.Second

// How often the queue looks at what tells nobody that it changed.
const (
	diskEvery  = 2 * time.Second
	sweepEvery = time.Hour
)

// Run is the queue: it gives every running and waiting task its sandbox back, starts
// queued ones as there is room, and deletes what nobody reads any more. When ctx ends
// it stops the sandboxes in order, changes no state, and returns nil; otherwise it
// returns because the log failed.
func (t *Tasks) Run(ctx context.Context, b Broker) error {
	q := queue{Tasks: t, ctx: ctx, broker: b}
	defer q.stop()
	if err := t.mend(ctx); err != nil {
		return err
	}
	if err := t.bookKept(ctx); err != nil {
		return err
	}
	look := func() {
		if changed := t.lookAtDisk(); changed || t.unsure() {
			q.workers.Go(t.hold) // the kernel takes its time, and the queue goes on
		}
		if err := t.checkClock(); err != nil {
			t.opt.Slog.Warn("that the clock is right was not logged", "why", err)
		}
	}
	look()
	q.workers.Go(func() { t.janitor(ctx) })
	tick := time.NewTicker(diskEvery)
	defer tick.Stop()
	for {
		if err := q.fill(); err != nil {
			return err
		}
		if err := t.save(checkpointEvery); err != nil {
			t.opt.Slog.Warn("the folded state was not kept; the next start reads more of the log", "why", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.kick:
		case <-tick.C:
			look()
		}
	}
}

// queue is one Run.
type queue struct {
	*Tasks
	ctx     context.Context
	broker  Broker
	workers sync.WaitGroup // one for each run
}

// letEnd ends a sandbox since boxd does; its run waits for that. A worker is asked, but
// while agents stand still none wakes up for it. mu is held.
func (q *queue) letEnd(sb Sandbox) {
	if q.halted() {
		sb.Kill()
		return
	}
	go sb.Stop(stopGrace)
}

// stop ends the sandboxes, waits for all that ran, and keeps the state.
func (q *queue) stop() {
	q.mu.Lock()
	for _, r := range q.live {
		if r.sandbox != nil {
			q.letEnd(r.sandbox)
		}
	}
	q.mu.Unlock()
	q.workers.Wait()
	if err := q.Note(context.Background(), noteEnd, nil, ""); err != nil {
		q.opt.Slog.Warn("the end was not logged", "why", err)
	}
	if err := q.save(1); err != nil {
		q.opt.Slog.Warn("the folded state was not kept; the next start reads more of the log", "why", err)
	}
}

// fill starts what may be started now.
func (q *queue) fill() error {
	for q.ctx.Err() == nil {
		r, err := q.pick()
		if err != nil || r == nil {
			return err
		}
		q.workers.Go(func() { q.work(r) })
	}
	return nil
}

// pick decides on the next run, nil for none: first the tasks that had a sandbox
// before boxd ended, then queued ones, app by app in turn.
func (q *queue) pick() (*run, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.broken != nil {
		return nil, q.broken
	}
	if q.halted() {
		return nil, nil
	}
	for _, id := range slices.Sorted(maps.Keys(q.fold.live)) {
		if q.live[id] == nil && q.fold.Tasks[id].Doubt == 0 {
			return q.begin(id), nil
		}
	}
	if int64(q.fold.count[Running]) >= q.opt.Settings.Values().MaxRunning {
		return nil, nil
	}
	id := q.oldest()
	if id == "" {
		return nil, nil
	}
	e := q.fold.Tasks[id]
	q.turns++
	q.turn[e.App] = q.turns
	ev := actionlog.Event{Type: actionlog.TypeTaskState, Task: id, State: string(Running), Layers: q.fold.seen(e.Workspace)}
	if err := q.submit([]actionlog.Event{ev}); err != nil {
		return nil, err
	}
	return q.begin(id), nil
}

// oldest is the oldest queued task of the app whose turn is longest ago.
func (t *Tasks) oldest() string {
	best := ""
	for _, id := range t.fold.queue {
		if t.live[id] != nil {
			continue
		}
		if best == "" || t.turn[t.fold.Tasks[id].App] < t.turn[t.fold.Tasks[best].App] {
			best = id
		}
	}
	return best
}

// begin enters a run of a task that is to have a sandbox. mu is held.
func (t *Tasks) begin(id string) *run {
	r := &run{id: id, layers: t.fold.Tasks[id].Layers, ready: make(chan struct{})}
	t.live[id] = r
	t.disk[id] = true
	return r
}

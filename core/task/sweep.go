package task

import (
	"context"
	"maps"
	"slices"
	"time"
)

// janitor deletes what nobody reads, each time that it is told to look, until ctx ends.
func (t *Tasks) janitor(ctx context.Context) {
	hourly := time.NewTicker(sweepEvery)
	defer hourly.Stop()
	for {
		t.sweep()
		t.compact(ctx)
		select {
		case <-ctx.Done():
			return
		case <-t.litter:
		case <-hourly.C:
		}
	}
}

// tidy tells the janitor to look.
func (t *Tasks) tidy() {
	select {
	case t.litter <- struct{}{}:
	default:
	}
}

// leftover is a folder on disk that nobody needs any more.
type leftover struct {
	id    string
	layer bool // its layer too, not only its home
}

// sweep deletes what nobody reads any more: an undone task's layer and home once no
// task that runs has the layer in its view, and after keepDays a failed task's layer
// and home and a done task's home.
func (t *Tasks) sweep() {
	left, seq := t.leftovers()
	// What isn't on disk yet may be gone after a power cut: a task that seems to have
	// ended would run again, and need the layers that it sees.
	if err := t.opt.Log.Wait(context.Background(), seq); err != nil {
		return
	}
	for _, l := range left {
		if err := t.clear(l); err != nil {
			t.opt.Slog.Warn("what nobody needs any more was not deleted", "task", l.id, "why", err)
			continue
		}
		if l.layer {
			t.mu.Lock()
			delete(t.disk, l.id)
			delete(t.homeless, l.id)
			t.mu.Unlock()
		}
	}
}

func (t *Tasks) clear(l leftover) error {
	if l.layer {
		return t.dropAll(l.id)
	}
	return t.drop(t.homeDir(l.id))
}

func (t *Tasks) leftovers() (out []leftover, seq int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	read := map[string]bool{}
	for id := range t.fold.live {
		for _, lower := range t.fold.Tasks[id].Layers {
			read[lower] = true
		}
	}
	// What was killed may live a moment longer than its state says.
	for id, r := range t.live {
		read[id] = true
		for _, lower := range r.layers {
			read[lower] = true
		}
	}
	for id, p := range t.puts {
		read[id] = true
		for _, lower := range p.seen {
			read[lower] = true
		}
	}
	for _, h := range t.sights {
		for _, s := range h.sights {
			for _, lower := range s.Layers {
				read[lower] = true
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(t.disk)) {
		e := t.fold.Tasks[id]
		aged := t.aged(e)
		switch {
		case read[id]:
		case e.State == Undone, e.State == Failed && aged, e.Folded && aged:
			out = append(out, leftover{id, true})
		case e.State == Done && aged && !t.homeless[id]:
			t.homeless[id] = true
			out = append(out, leftover{id, false})
		}
	}
	return out, t.fold.Seq
}

package sandbox

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// A parked sandbox costs some 0.4 MiB, nearly all of it the kernel's (namespaces
// and control groups); a task then starts in a third of the time. One is kept for
// each GiB of memory, up to mostParked.
const mostParked = 4

func poolSize(want int) int {
	if want != 0 {
		return max(want, 0)
	}
	var si unix.Sysinfo_t
	if err := unix.Sysinfo(&si); err != nil {
		return 0
	}
	return min(mostParked, int(si.Totalram*uint64(si.Unit)>>30))
}

// The pool fills up once no sandbox has been started for quietTime: making one is
// work that a task at its start feels. It waits mostQuiet at the longest.
const (
	quietTime = 50 * time.Millisecond
	mostQuiet = time.Second
)

// keepPool fills the pool whenever it is woken, until ctx ends.
func (h *Host) keepPool(ctx context.Context, size int) {
	defer close(h.pooled)
	for {
		for ctx.Err() == nil && h.park(size) {
		}
		select {
		case <-ctx.Done():
			return
		case <-h.refill:
		}
		h.awaitQuiet(ctx)
	}
}

func (h *Host) awaitQuiet(ctx context.Context) {
	latest := time.NewTimer(mostQuiet)
	defer latest.Stop()
	for {
		quiet := time.NewTimer(quietTime)
		select {
		case <-h.refill:
			quiet.Stop()
			continue
		case <-quiet.C:
		case <-latest.C:
		case <-ctx.Done():
		}
		quiet.Stop()
		return
	}
}

// park adds one sandbox to the pool; it reports whether it did.
func (h *Host) park(size int) bool {
	h.mu.Lock()
	if h.closed || len(h.parked) >= size {
		h.mu.Unlock()
		return false
	}
	slot, ok := h.reserve()
	h.mu.Unlock()
	if !ok {
		return false
	}
	b, err := h.give(slot, nil, nil)
	if err != nil {
		h.free(slot)
		h.log.Warn("a sandbox could not be made ahead", "error", err) // the next task says why, or works
		return false
	}
	h.mu.Lock()
	h.parked = append(h.parked, b)
	h.mu.Unlock()
	return true
}

// Parked is how many sandboxes wait in the pool.
func (h *Host) Parked() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.parked)
}

func (h *Host) wakePool() {
	select {
	case h.refill <- struct{}{}:
	default:
	}
}

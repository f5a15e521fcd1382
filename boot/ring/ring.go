package ring

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// maxLine is where a longer line is cut, in bytes: one program that never ends
// its line must not take the memory of all.
const maxLine = 1024

// A Ring is a bounded list of lines.
type Ring struct {
	start time.Time // lines are stamped with the time since then

	mu    sync.Mutex
	lines []string
	next  uint64        // number of lines ever added; line n is at n % len(lines)
	from  uint64        // the first line that followers get
	grown chan struct{} // closed and replaced when a line is added

	followers, idle int           // how many there are, and how many have seen all lines
	rested          chan struct{} // closed and replaced when one has
}

// New makes a ring of n lines. Lines are stamped with the seconds since start,
// which for an init is the kernel's start.
func New(n int, start time.Time) *Ring {
	return &Ring{start: start, lines: make([]string, n), grown: make(chan struct{}), rested: make(chan struct{})}
}

// Add puts one line in. It never waits for a reader.
func (r *Ring) Add(line string) {
	if len(line) > maxLine {
		line = line[:maxLine] + "…"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines[r.next%uint64(len(r.lines))] = line
	r.next++
	r.idle = 0 // each comes to rest anew
	close(r.grown)
	r.grown = make(chan struct{})
}

// Preload puts lines in that were shown already, by the program that was this
// process before: Last has them, followers don't.
func (r *Ring) Preload(lines []string) {
	for _, line := range lines {
		r.Add(line)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.from = r.next
}

// Last returns the newest lines, oldest first, at most n.
func (r *Ring) Last(n int) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := r.oldest()
	if have := r.next - from; uint64(n) < have {
		from = r.next - uint64(n)
	}
	out := make([]string, 0, r.next-from)
	for ; from < r.next; from++ {
		out = append(out, r.lines[from%uint64(len(r.lines))])
	}
	return out
}

// Follow calls fn for every line from the oldest kept on (but Preload's), until
// ctx ends. Lines
// that were overwritten before fn came back for them are told as lost.
func (r *Ring) Follow(ctx context.Context, fn func(line string, lost uint64)) {
	r.mu.Lock()
	at := r.from
	r.followers++
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.followers--
	}()
	for {
		r.mu.Lock()
		var lost uint64
		if oldest := r.oldest(); at < oldest {
			lost, at = oldest-at, oldest
		}
		if at == r.next {
			grown := r.grown
			r.idle++
			close(r.rested)
			r.rested = make(chan struct{})
			r.mu.Unlock()
			select {
			case <-grown:
				continue
			case <-ctx.Done():
				r.mu.Lock()
				defer r.mu.Unlock()
				r.idle = max(r.idle-1, 0)
				return
			}
		}
		line := r.lines[at%uint64(len(r.lines))]
		at++
		r.mu.Unlock()
		fn(line, lost)
	}
}

// Drain waits until all followers have seen all lines, but not beyond limit: a
// slow reader may never.
func (r *Ring) Drain(limit time.Duration) {
	late := time.After(limit)
	for {
		r.mu.Lock()
		done, rested := r.idle >= r.followers, r.rested
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-rested:
		case <-late:
			return
		}
	}
}

func (r *Ring) oldest() uint64 {
	if n := uint64(len(r.lines)); r.next > n {
		return r.next - n
	}
	return 0
}

// Writer returns a writer whose lines enter the ring stamped with the time and
// the source's name. A line without its end waits for it, up to maxLine bytes.
// Each writer belongs to one goroutine or to a log.Logger.
func (r *Ring) Writer(source string) io.Writer { return &writer{ring: r, source: source} }

type writer struct {
	ring    *Ring
	source  string
	partial []byte
}

func (w *writer) Write(p []byte) (int, error) {
	n := len(p)
	for {
		line, rest, found := bytes.Cut(p, []byte("\n"))
		w.partial = append(w.partial, line...)
		if !found {
			if len(w.partial) < maxLine {
				return n, nil
			}
		}
		w.ring.Add(fmt.Sprintf("[%9.3f] %s: %s", time.Since(w.ring.start).Seconds(), w.source, printable(w.partial)))
		w.partial = w.partial[:0]
		if !found {
			return n, nil
		}
		p = rest
		if len(p) == 0 {
			return n, nil
		}
	}
}

// printable takes control characters out: what a service prints ends up on the
// console's terminal and must not be able to redraw the status screen.
func printable(b []byte) string {
	return strings.Map(func(c rune) rune {
		if c == '\t' {
			return ' '
		}
		if c < ' ' || c == 0x7f || c >= 0x80 && c < 0xa0 {
			return -1
		}
		return c
	}, string(b))
}

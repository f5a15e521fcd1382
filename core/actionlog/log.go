package actionlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"gurtos/core/durable"
)

// Limits of one Submit. A torn tail is at most what one write can hold.
const (
	maxLine    = 16 << 20 // bytes of one line
	maxSubmit  = 32 << 20 // bytes of the lines of one Submit
	maxPending = 32 << 20 // bytes that wait for the disk before Submit waits too
)

// Options change how a log is opened. The zero value is right for a box.
type Options struct {
	// FS is the file layer, durable.Disk when nil.
	FS durable.FS
	// Now is the wall clock, time.Now when nil.
	Now func() time.Time
	// Mono is a clock that only goes forward, whose difference from Now shows that
	// the wall clock was stepped. When nil, Go's own if Now is nil too, else none.
	Mono func() time.Duration
	// Quarantine cuts damaged lines out instead of refusing to open.
	Quarantine bool
	// Damaged is called at most once, from a goroutine of the log, when a line that
	// Open left for later turns out to be damaged. The log is broken then.
	Damaged func(error)

	// Free is how many bytes the log's disk has left, statfs when nil.
	Free func() (int64, error)
	// Reserve is how many bytes are kept for the log on a full disk, 32 MiB when 0,
	// none when negative.
	Reserve int64
	// Low is how many free bytes make the disk full, 64 MiB when 0.
	Low int64
	// Upfront is how many bytes at the end are checked before Open returns, 16 MiB
	// when 0. What is before them is checked while the log is in use.
	Upfront int64

	journal int64 // bytes of log.commit; 0 outside of tests
}

// withDefaults fills in what is 0.
func (o Options) withDefaults(dir string) Options {
	if o.FS == nil {
		o.FS = durable.Disk
	}
	if o.Free == nil {
		o.Free = func() (int64, error) { return free(dir) }
	}
	o.Reserve = cmp.Or(o.Reserve, 32<<20)
	o.Low = cmp.Or(o.Low, 64<<20)
	o.Upfront = cmp.Or(o.Upfront, 16<<20)
	o.journal = cmp.Or(o.journal, journalSize)
	return o
}

// ErrClosed is what a closed log answers.
var ErrClosed = errors.New("the action log is closed")

// Unfit says that what was submitted can't be a line. Nothing of it is in the log,
// which goes on.
type Unfit struct{ why error }

func (e *Unfit) Error() string { return "the action log: " + e.why.Error() }

func (e *Unfit) Unwrap() error { return e.why }

// Log is the open action log of a box. One process has it open for writing.
// All methods can be called at once from many goroutines.
type Log struct {
	dir       string
	fs        durable.FS
	opt       Options
	file      durable.File
	index     *index
	journal   *journal
	reserve   *reserve
	recovered Recovery
	checked   Mark               // Open looked at what is behind it
	wg        sync.WaitGroup     // the writer and the checker
	end       context.CancelFunc // ends the checker

	fullMu sync.Mutex
	full   bool // the disk was full and hasn't had room enough since

	mu      sync.Mutex
	work    sync.Cond     // pending grew, or the log is closing
	room    sync.Cond     // pending was taken
	clock   clock         // what at is made of
	fresh   bool          // nothing was submitted since it was opened
	seq     int64         // of the last submitted line
	prev    string        // its hash
	pending *batch        // submitted, not yet taken by the writer; never nil
	flying  *batch        // being written, nil for none
	spare   []byte        // buffer for the next batch
	head    Mark          // of the last durable line
	changed chan struct{} // closed when head moves or err is set
	err     error         // set once: broken or closed
	closing bool
}

// Mark is a place in the log: a line, its hash, and where the next one begins.
type Mark struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"` // hex SHA-256 of the line without its newline
	End  int64  `json:"end"`  // bytes of the log up to and with the line
}

// batch is what one write takes to the disk.
type batch struct {
	buf  []byte
	last Mark
	at   []indexEntry  // for the index; off counts from the batch
	done chan struct{} // closed when it is durable or err is set
	err  error
}

// Open opens the log of a box, makes it when there is none, and repairs what a
// power cut can leave. See doc.go for what it refuses.
func Open(dir string, o Options) (*Log, error) {
	o = o.withDefaults(dir)
	l := &Log{dir: dir, fs: o.FS, opt: o, clock: newClock(o), fresh: true, changed: make(chan struct{})}
	l.work.L, l.room.L = &l.mu, &l.mu
	notes, err := l.open()
	if err == nil {
		l.seq, l.prev = l.head.Seq, l.head.Hash
		l.pending = l.newBatch()
		l.wg.Go(l.write)
		if len(notes) > 0 {
			_, err = l.Append(context.Background(), notes...)
		}
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	} else {
		l.closeFiles()
	}
	if err != nil {
		return nil, fmt.Errorf("open action log %s: %w", filepath.Join(dir, logName), err)
	}
	ctx, end := context.WithCancel(context.Background())
	l.end = end
	l.wg.Go(func() { l.check(ctx) })
	return l, nil
}

// Submit gives the events their place in the log, one behind the other with
// nothing between, and hands them to the writer. It doesn't wait for the disk.
// Seq, At, Clock, Start and Prev of the events passed are set. Events that can't be written,
// such as one that is too long, are an *Unfit.
func (l *Log) Submit(ev ...Event) (last int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.err == nil && !l.closing && len(l.pending.buf) > maxPending {
		l.room.Wait()
	}
	if l.err != nil {
		return 0, l.err
	}
	if l.closing {
		return 0, ErrClosed
	}
	b, seq, prev := l.pending, l.seq, l.prev
	start := len(b.buf)
	var at []indexEntry
	undo := func(err error) (int64, error) {
		b.buf = b.buf[:start]
		return 0, &Unfit{err}
	}
	now, step := l.clock.read()
	for i := range ev {
		e := &ev[i]
		e.Seq, e.At, e.Clock, e.Start, e.Prev = seq+1, now, 0, false, prev
		if i == 0 {
			e.Clock, e.Start = step, l.fresh
		}
		from := len(b.buf)
		next, err := appendEvent(b.buf, e)
		if err != nil {
			return undo(err)
		}
		b.buf = next
		if n := len(b.buf) - from; n > maxLine {
			return undo(fmt.Errorf("an event of type %s has %d bytes, %d are allowed", e.Type, n, maxLine))
		}
		seq, prev = seq+1, hash(b.buf[from:])
		b.buf = append(b.buf, '\n')
		if seq%indexEvery == 0 {
			at = append(at, indexEntry{seq: seq + 1, off: int64(len(b.buf)), prev: prev})
		}
	}
	if len(b.buf)-start > maxSubmit {
		return undo(fmt.Errorf("events of %d bytes at once, %d are allowed", len(b.buf)-start, maxSubmit))
	}
	if len(ev) > 0 {
		l.clock.keep()
		l.fresh = false
		l.seq, l.prev = seq, prev
		b.at = append(b.at, at...)
		b.last = Mark{Seq: seq, Hash: prev}
		l.work.Signal()
	}
	return l.seq, nil
}

// Wait returns once line seq is on the disk.
func (l *Log) Wait(ctx context.Context, seq int64) error {
	l.mu.Lock()
	b := l.pending
	switch {
	case seq <= l.head.Seq:
		l.mu.Unlock()
		return nil
	case seq > l.seq:
		last := l.seq
		l.mu.Unlock()
		return fmt.Errorf("action log: line %d was never submitted, the last is %d", seq, last)
	case l.err != nil:
		defer l.mu.Unlock()
		return l.err
	case l.flying != nil && seq <= l.flying.last.Seq:
		b = l.flying
	}
	l.mu.Unlock()
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Append is Submit and Wait. When ctx ends first the events are in the log, or
// will be, all the same.
func (l *Log) Append(ctx context.Context, ev ...Event) (last int64, err error) {
	last, err = l.Submit(ev...)
	if err != nil {
		return 0, err
	}
	return last, l.Wait(ctx, last)
}

// Head is the number and hash of the last durable line.
func (l *Log) Head() (seq int64, hash string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head.Seq, l.head.Hash
}

// Now is the at that a line submitted now would get, and by how many milliseconds
// the clock was stepped since the last line.
func (l *Log) Now() (now time.Time, step int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, step = l.clock.read()
	return l.clock.wall, step
}

// Err is why the log takes nothing any more, nil while it does.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Close writes what was submitted, syncs and closes. Readers end with ErrClosed.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closing {
		l.mu.Unlock()
		return nil
	}
	l.closing = true
	l.work.Signal()
	l.room.Broadcast()
	l.mu.Unlock()
	if l.end != nil {
		l.end()
	}
	l.wg.Wait()

	l.mu.Lock()
	broken := l.err
	if broken == nil {
		l.err = ErrClosed
		l.announce()
	}
	l.mu.Unlock()
	return errors.Join(broken, l.closeFiles())
}

func (l *Log) closeFiles() error {
	var errs []error
	if l.journal != nil {
		errs = append(errs, l.journal.file.Close())
	}
	if l.index != nil {
		l.index.close()
	}
	if l.reserve != nil {
		l.reserve.close()
	}
	if l.file != nil {
		errs = append(errs, l.file.Close())
	}
	return errors.Join(errs...)
}

// Recovered says what Open found and repaired. The log has notes of it already.
func (l *Log) Recovered() Recovery { return l.recovered }

package actionlog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
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
}

// ErrClosed is what a closed log answers.
var ErrClosed = errors.New("the action log is closed")

// Log is the open action log of a box. One process has it open for writing.
// All methods can be called at once from many goroutines.
type Log struct {
	dir  string
	fs   durable.FS
	file durable.File
	wg   sync.WaitGroup // the writer

	mu      sync.Mutex
	work    sync.Cond     // pending grew, or the log is closing
	room    sync.Cond     // pending was taken
	clock   clock         // what at is made of
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
	done chan struct{} // closed when it is durable or err is set
	err  error
}

// Open opens the log of a box, makes it when there is none, and repairs what a
// power cut can leave. See doc.go for what it refuses.
func Open(dir string, o Options) (*Log, error) {
	l := &Log{dir: dir, fs: o.FS, clock: newClock(o), changed: make(chan struct{})}
	if l.fs == nil {
		l.fs = durable.Disk
	}
	l.work.L, l.room.L = &l.mu, &l.mu
	if err := l.open(o); err != nil {
		if l.file != nil {
			l.file.Close()
		}
		return nil, fmt.Errorf("open action log %s: %w", filepath.Join(dir, logName), err)
	}
	l.seq, l.prev = l.head.Seq, l.head.Hash
	l.pending = l.newBatch()
	l.wg.Go(l.write)
	return l, nil
}

// Submit gives the events their place in the log, one behind the other with
// nothing between, and hands them to the writer. It doesn't wait for the disk.
// Seq, At, Clock and Prev of the events passed are set.
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
	undo := func(err error) (int64, error) {
		b.buf = b.buf[:start]
		return 0, err
	}
	now, step := l.clock.read()
	for i := range ev {
		e := &ev[i]
		e.Seq, e.At, e.Clock, e.Prev = seq+1, now, 0, prev
		if i == 0 {
			e.Clock = step
		}
		from := len(b.buf)
		if b.buf, err = appendEvent(b.buf, e); err != nil {
			return undo(err)
		}
		if n := len(b.buf) - from; n > maxLine {
			return undo(fmt.Errorf("action log: an event of type %s has %d bytes, %d are allowed", e.Type, n, maxLine))
		}
		seq, prev = seq+1, hash(b.buf[from:])
		b.buf = append(b.buf, '\n')
	}
	if len(b.buf)-start > maxSubmit {
		return undo(fmt.Errorf("action log: events of %d bytes at once, %d are allowed", len(b.buf)-start, maxSubmit))
	}
	if len(ev) > 0 {
		l.clock.keep()
		l.seq, l.prev = seq, prev
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
	l.wg.Wait()

	l.mu.Lock()
	broken := l.err
	if broken == nil {
		l.err = ErrClosed
		l.announce()
	}
	l.mu.Unlock()
	return errors.Join(broken, l.file.Close())
}

func hash(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}

const logName = "log.jsonl"

func (l *Log) open(o Options) (err error) {
	l.file, err = l.fs.Open(filepath.Join(l.dir, logName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := l.file.Lock(); err != nil {
		return err
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return err
	}
	end := int64(0)
	err = scan(l.file, 0, 1<<62, func(line []byte, next int64) error {
		if _, err := Decode(line); err != nil {
			return fmt.Errorf("line %d: %w", l.head.Seq+1, err)
		}
		end = next
		l.head = Mark{Seq: l.head.Seq + 1, Hash: hash(line), End: next}
		return nil
	})
	if err != nil {
		return err
	}
	return l.file.Truncate(end)
}

package actionlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// Reader is called for each line, in order. line is valid until it returns; ev
// decodes it when that is needed. An error of it ends the reading.
type Reader func(line []byte, ev func() (Event, error)) error

// Read calls fn for the durable lines behind line after. It holds up nobody, and
// takes as much memory as the longest line.
func (l *Log) Read(ctx context.Context, after int64, fn Reader) error {
	l.mu.Lock()
	end := l.head
	l.mu.Unlock()
	c := l.cursor(after, end)
	return c.read(ctx, after, end, fn)
}

// Lines calls fn for the durable lines of these numbers, which stand in their order and
// are there. It reads what is between two of them only where they are close.
func (l *Log) Lines(ctx context.Context, seqs []int64, fn Reader) error {
	l.mu.Lock()
	end := l.head
	l.mu.Unlock()
	var c *cursor
	for _, seq := range seqs {
		if seq < 1 || seq > end.Seq || c != nil && seq <= c.seq {
			return fmt.Errorf("action log: line %d is not there, or stands before the one that was read", seq)
		}
		if c == nil || seq-c.seq > indexEvery {
			c = l.cursor(seq-1, end)
		}
		if err := c.read(ctx, seq-1, Mark{Seq: seq, End: end.End}, fn); err != nil {
			return err
		}
	}
	return nil
}

// Follow is Read, and goes on with each new line once it is durable, until ctx
// ends, fn fails or the log ends; it gives the reason.
func (l *Log) Follow(ctx context.Context, after int64, fn Reader) error {
	var c *cursor
	for {
		l.mu.Lock()
		end, changed, broken := l.head, l.changed, l.err
		l.mu.Unlock()
		if c == nil && after < end.Seq {
			c = l.cursor(after, end)
		}
		if c != nil {
			if err := c.read(ctx, after, end, fn); err != nil {
				return err
			}
		}
		if broken != nil {
			return broken
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// cursor is a place between two lines.
type cursor struct {
	seq int64 // of the line before
	in  *lines
}

// cursor is a place at or before the line behind after.
func (l *Log) cursor(after int64, end Mark) *cursor {
	if after >= end.Seq {
		return &cursor{seq: end.Seq, in: newLines(l.file, end.End, end.End)}
	}
	m := l.index.find(l.file, end.End, max(after, 0)+1, end.End)
	return &cursor{seq: m.Seq, in: newLines(l.file, m.End, end.End)}
}

// read reads up to end.
func (c *cursor) read(ctx context.Context, after int64, end Mark, fn Reader) error {
	c.in.end = end.End
	for c.seq < end.Seq {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		line, err := c.in.next()
		if errors.Is(err, os.ErrClosed) {
			return ErrClosed
		}
		if errors.Is(err, io.EOF) {
			return &DamageError{First: c.seq + 1, Last: end.Seq, Kind: removed}
		}
		if err != nil {
			return err
		}
		c.seq++
		if seq, _, ok := frame(line); !ok || seq != c.seq {
			return &DamageError{First: c.seq, Last: c.seq, Kind: garbled}
		}
		if c.seq <= after {
			continue
		}
		if err := fn(line, func() (Event, error) { return Decode(line) }); err != nil {
			return err
		}
	}
	return nil
}

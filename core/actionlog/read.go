package actionlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// Reader is called for each line, in order. line is valid until it returns; ev
// decodes it when that is needed. An error of it ends the reading.
type Reader func(line []byte, ev func() (Event, error)) error

// Read calls fn for the durable lines behind line after.
func (l *Log) Read(ctx context.Context, after int64, fn Reader) error {
	_, err := l.readOn(ctx, cursor{}, after, fn)
	return err
}

// Follow is Read, and goes on with each new line once it is durable, until ctx
// ends, fn fails or the log is closed.
func (l *Log) Follow(ctx context.Context, after int64, fn Reader) error {
	var at cursor
	for {
		l.mu.Lock()
		changed, broken := l.changed, l.err
		l.mu.Unlock()
		var err error
		if at, err = l.readOn(ctx, at, after, fn); err != nil {
			return err
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
type cursor struct{ seq, off int64 }

// readOn reads from at to the durable end and is where it came to.
func (l *Log) readOn(ctx context.Context, at cursor, after int64, fn Reader) (cursor, error) {
	l.mu.Lock()
	end := l.head
	l.mu.Unlock()
	if after >= end.Seq || at.seq >= end.Seq {
		return at, nil
	}
	err := scan(l.file, at.off, end.End, func(line []byte, next int64) error {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		at = cursor{at.seq + 1, next}
		if at.seq <= after {
			return nil
		}
		return fn(line, func() (Event, error) { return Decode(line) })
	})
	if errors.Is(err, os.ErrClosed) {
		err = ErrClosed
	}
	return at, err
}

// scan calls fn for each whole line of r between the offsets from and end, with
// the offset behind it. What follows the last newline is left out.
func scan(r io.ReaderAt, from, end int64, fn func(line []byte, next int64) error) error {
	buf := make([]byte, 64<<10)
	have := 0 // bytes of buf that are read, beginning at from
	for {
		line := 0
		for {
			n := bytes.IndexByte(buf[line:have], '\n')
			if n < 0 {
				break
			}
			from += int64(n) + 1
			if err := fn(buf[line:line+n], from); err != nil {
				return err
			}
			line += n + 1
		}
		have = copy(buf, buf[line:have])
		if have == len(buf) {
			if have > maxLine {
				return fmt.Errorf("a line of more than %d bytes", maxLine)
			}
			buf = append(buf, make([]byte, len(buf))...)
		}
		want := buf[have:]
		if left := end - from - int64(have); int64(len(want)) > left {
			want = want[:left]
		}
		n, err := r.ReadAt(want, from+int64(have))
		have += n
		if n == 0 {
			if err == io.EOF || len(want) == 0 {
				return nil
			}
			return err
		}
	}
}

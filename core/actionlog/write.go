package actionlog

import "fmt"

// write takes batches to the disk until the log is closed or broken. There is one
// write and one sync at a time; whatever is submitted meanwhile goes with the next.
func (l *Log) write() {
	for {
		b := l.take()
		if b == nil {
			return
		}
		err := l.commit(b)
		l.mu.Lock()
		l.flying = nil
		if err != nil {
			// What the kernel still holds of a failed sync is unknown: nothing may
			// follow it.
			l.err = fmt.Errorf("the action log can't be written any more: %w", err)
			b.err, l.pending.err = l.err, l.err
			close(l.pending.done)
			l.room.Broadcast()
		} else {
			l.head = b.last
		}
		close(b.done)
		l.announce()
		l.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// take is the next batch, nil when the log is closed and all is written.
func (l *Log) take() *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.pending.buf) == 0 {
		if l.closing {
			return nil
		}
		l.work.Wait()
	}
	b := l.pending
	b.last.End = l.head.End + int64(len(b.buf))
	l.flying, l.pending = b, l.newBatch()
	l.room.Broadcast()
	return b
}

func (l *Log) newBatch() *batch {
	b := &batch{buf: l.spare[:0], done: make(chan struct{})}
	l.spare = nil
	return b
}

func (l *Log) commit(b *batch) error {
	if _, err := l.file.WriteAt(b.buf, l.head.End); err != nil {
		return err
	}
	return l.file.Datasync()
}

// announce wakes those who follow. l.mu is held.
func (l *Log) announce() {
	close(l.changed)
	l.changed = make(chan struct{})
}

package task

import "sync"

// shared runs one function for many callers: whoever comes while it runs waits for
// the next run, since the one under way may have begun before what the caller did.
type shared struct {
	mu   sync.Mutex
	now  *turn // under way
	next *turn // begins after now
}

type turn struct {
	done chan struct{}
	err  error
}

// do returns the result of a run of fn that began after the call.
func (s *shared) do(fn func() error) error {
	s.mu.Lock()
	if s.next != nil {
		t := s.next
		s.mu.Unlock()
		<-t.done
		return t.err
	}
	t := &turn{done: make(chan struct{})}
	before := s.now
	if before != nil {
		s.next = t
	} else {
		s.now = t
	}
	s.mu.Unlock()
	if before != nil {
		<-before.done
		s.mu.Lock()
		s.now, s.next = t, nil
		s.mu.Unlock()
	}
	t.err = fn()
	s.mu.Lock()
	if s.now == t {
		s.now = nil
	}
	s.mu.Unlock()
	close(t.done)
	return t.err
}

package netpolicy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/netpolicy/rules"
)

// Marks on a first packet that is turned back, which say by which error (fence.go). A
// program can set none: that needs rights over the namespace.
const (
	markReset  = 0x67757201 // ECONNREFUSED
	markNoHost = 0x67757202 // EHOSTUNREACH
	markNoNet  = 0x67757203 // ENETUNREACH
)

// claimTime is how long a connection outside waits for the program's one, which has
// its answer and only the kernel between.
const claimTime = 30 * time.Second

// pair is both ends of a program's connection.
type pair struct{ from, to netip.AddrPort }

// knock is a connection whose first packet waits until the one outside stands, so that
// the program gets the error that it would have got without the box between.
type knock struct {
	id   uint32 // of the packet that waits; the kernel sends another one now and then
	up   *net.TCPConn
	rule rules.Rule
	late *time.Timer // runs once up is there, and closes it when nobody takes it
}

// comes handles a first packet. It must not block: all of the space's wait behind it.
func (s *Space) comes(id uint32, from, to netip.AddrPort) {
	t, at := s.targetOf(to), pair{from, to}
	if _, err := t.verdict(s.set.Load()); err != nil {
		s.tell.refused(t.String())
		s.answer(id, nfAccept, markReset)
		return
	}
	if !s.begins(id, at, t) {
		s.full(to)
		s.answer(id, nfAccept, markReset)
	}
}

// begins handles a first packet that a rule lets through, if there is room for its connection.
func (s *Space) begins(id uint32, at pair, t target) (room bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.knocks[at]; k != nil {
		if k.up == nil {
			s.answer(k.id, nfDrop, 0)
			k.id = id
		} else {
			s.answer(id, nfAccept, 0) // the one outside stands, and is for whoever comes from these ends
		}
		return true
	}
	if len(s.conns)+len(s.knocks) >= MaxConns || s.ctx.Err() != nil {
		return false
	}
	if s.swapFor(t) != nil { // the box answers by itself
		s.answer(id, nfAccept, 0)
		return true
	}
	k := &knock{id: id}
	s.knocks[at] = k
	s.wait.Go(func() { s.knocked(at, t, k) })
	return true
}

func (s *Space) answer(id, v, mark uint32) { verdict(s.bare.queue, id, v, mark) }

// knocked dials and then lets the program's first packet through, or turns it back.
func (s *Space) knocked(at pair, t target, k *knock) {
	up, rule, err := s.reach(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		delete(s.knocks, at)
		s.answer(k.id, nfAccept, markOf(err))
		return
	}
	k.up, k.rule = up, rule
	k.late = time.AfterFunc(claimTime, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.knocks[at] == k {
			delete(s.knocks, at)
			up.Close()
		}
	})
	s.answer(k.id, nfAccept, 0)
}

// claim takes the connection outside that was made for a program's one, nil when there
// is none: the kernel has no queue, or changed a port that two connections shared.
// s.mu is held.
func (s *Space) claim(at pair) *knock {
	k := s.knocks[at]
	if k == nil || k.up == nil {
		return nil
	}
	delete(s.knocks, at)
	k.late.Stop()
	return k
}

// dropKnocks closes what nobody claims any more.
func (s *Space) dropKnocks() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := range s.knocks {
		if k := s.claim(at); k != nil {
			k.up.Close()
		}
	}
}

// markOf is the mark for the error that a program is to get.
func markOf(err error) uint32 {
	if _, refused := errors.AsType[*Refused](err); refused {
		return markReset
	}
	switch {
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ECONNRESET):
		return markReset
	case errors.Is(err, unix.ENETUNREACH):
		return markNoNet
	case errors.Is(err, context.Canceled), errors.Is(err, os.ErrClosed):
		return markReset
	}
	return markNoHost
}

// targetOf reads what an address of the namespace stands for.
func (s *Space) targetOf(dst netip.AddrPort) target {
	t := target{addr: rules.Embedded(dst.Addr().Unmap()), port: dst.Port()}
	if name, ok := s.names.name(dst.Addr().Unmap()); ok {
		t.name = name
	}
	return t
}

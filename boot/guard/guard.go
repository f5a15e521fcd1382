package guard

import (
	"runtime/debug"
	"sync/atomic"
)

// Show tells people that the init failed while doing what, and ends the machine.
type Show func(what string, p any, stack []byte)

var show atomic.Pointer[Show]

// On has panics of Go's goroutines shown by s from now on. Before, as in tests,
// they are left to the runtime.
func On(s Show) { show.Store(&s) }

// Go runs fn in a goroutine of its own.
func Go(what string, fn func()) {
	go func() {
		defer func() {
			s := show.Load()
			if s == nil {
				return
			}
			if p := recover(); p != nil {
				(*s)(what, p, debug.Stack())
			}
		}()
		fn()
	}()
}

package task

import "slices"

// next is the table of states: what may follow each one.
var next = map[State][]State{
	Queued:  {Running, Failed, Undone},
	Running: {Waiting, Done, Failed, Undone},
	Waiting: {Running, Done, Failed, Undone},
	Done:    {Undone},
	Failed:  {Undone},
	Undone:  {},
}

// Can says whether the table lets s become to.
func (s State) Can(to State) bool { return slices.Contains(next[s], to) }

// Known says whether s is a state at all.
func (s State) Known() bool { _, ok := next[s]; return ok }

// Ended says whether no worker of the task runs or will run.
func (s State) Ended() bool { return s == Done || s == Failed || s == Undone }

// Live says whether the task has, or is to be given back, a sandbox.
func (s State) Live() bool { return s == Running || s == Waiting }

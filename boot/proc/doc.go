// Package proc starts the children of PID 1 and reaps what others leave behind.
//
// Everything that init runs goes through Start or Run, so that the reaper knows which children have a waiter of their own. The reaper never
// calls wait4(-1): that would take the exit status which os/exec is waiting for and make it fail with ECHILD. It asks for each child that is
// nobody's, by its pid.
package proc

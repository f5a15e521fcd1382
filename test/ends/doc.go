// Package ends tries, through the API of a real boxd, the ways in which a task ends badly: its program, its limits, and a workspace that is not what
// it should be. The error is one sentence that names which, and other tasks go on.
package ends

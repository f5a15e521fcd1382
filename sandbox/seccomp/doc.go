// Package seccomp owns the system calls that a sandbox may make: one table
// (Table) that says of every call of x86-64 Linux whether it is allowed, refused
// or said not to exist, with rules on arguments, and a compiler of the table to
// the BPF program that box-init loads. Calls newer than the table do not exist
// (ENOSYS), so that libraries fall back; another architecture's calls kill. It
// never loads a filter itself.
package seccomp

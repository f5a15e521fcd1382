// Package sandbox starts one program in a Linux sandbox of its own, waits for it,
// freezes and ends it, and leaves nothing behind. It knows folders, limits and
// namespaces; it knows nothing of tasks, the log or who asked, and it has no way
// to run anything outside a sandbox.
//
// A sandbox is born (park.go) by libcontainer behind all namespaces, up to the
// exec fifo, which is opened at once: box-init (package boxinit) waits in it for
// what to run. What all sandboxes share lies in the room (room.go), what each has
// of its own is mounted in it by us (furnish.go). Then box-init loads the filter
// (package seccomp) and starts the program that boxd sends it. The pool (pool.go)
// is births ahead of time.
// Config.State holds lock, taken by one Host, and containers, libcontainer's
// folder; both may be deleted when no Host is open.
package sandbox

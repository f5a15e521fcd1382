// Package sandbox starts one program in a Linux sandbox of its own, waits for it,
// freezes and ends it, and leaves nothing behind. It knows folders, limits and
// namespaces; it knows nothing of tasks, the log or who asked, and it has no way
// to run anything outside a sandbox.
package sandbox

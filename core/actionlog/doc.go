// Package actionlog owns log.jsonl, the append-only record from which all state
// of the box is folded. It writes, reads, follows and verifies lines; it never
// decides what a line means for a task.
package actionlog

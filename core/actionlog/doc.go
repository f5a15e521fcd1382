// Package actionlog owns log.jsonl, the append-only record from which all state of
// the box is folded. It writes, reads, follows and verifies lines; it folds nothing
// and never decides what a line means for a task.
//
// # The file
//
// One JSON object a line, in UTF-8, U+2028 and U+2029 escaped. A line's number,
// counted from 1, is its seq. seq is the first field and prev the last: the hex
// SHA-256 of the line before without its newline, "" on line 1. So the hash of the
// last line, the head, stands for the whole log. Line 1 is a note of the box that
// names the format and makes the log unlike any other. Order is seq; at is what the
// clock said and may step, which the first line behind a step tells in clock; the
// first line after the log was opened has start.
//
// # Beside it
//
//	log.commit      the last writes once more, and where the log ended
//	log.index       where each 256th line begins; a cache
//	log.checkpoint  a folded state and the line it belongs to; a cache
//	log.reserve     room on the disk, given up when there is no other
//	log.cut-N-…     what a start cut off from line N on
//	log.damaged-N-… what was cut out at line N
//
// The caches are held against the log by hash whenever they are used, and can be
// deleted at any time. log.commit is not one: without it the last lines can be lost
// with the power, and nobody misses what is cut off the end.
//
// # Writing
//
// Submit orders lines and gives them to one writer, which takes all that wait with
// one write and one fdatasync; then they are durable, and Wait returns. The sync is
// that of log.commit, which holds the same lines and never changes its size; the log
// itself is synced when that is full, and when more is written at once than it is
// for. Nothing is ever shown to a reader before. When a write or sync fails, the log is broken for
// good: what the kernel has of it is unknown then.
//
// # At start
//
// A power cut can leave any part of what wasn't synced: sectors of it, zeros, half a
// line. Open puts back what log.commit has (if the machine was off since: else the
// kernel has all that was written, and a difference is damage), cuts off what was
// never durable, keeps it in a file beside the log and logs a note, log.cut. If
// lines are gone that log.commit remembers, the note counts them. Any other line that is not what was written is
// damage: Open refuses with the line's number. With Options.Quarantine it writes
// the log anew, a note (log.quarantined) in the place of each lost line, and at the
// end one more (log.quarantine) that names what was cut out, its hash and where it
// is kept; Verify then reports known gaps. Open itself reads Options.Upfront bytes
// at the end of the log, so that its time doesn't grow with the log; the rest is
// read at once after, and damage there breaks the log.
package actionlog

// Package screen shows how the box is on every console, and changes only when that does.
//
// A virtual terminal is redrawn whole. On a serial port the log runs, and the status stands between two rules whenever it changed, one fact a line,
// a word and its value, so that programs can wait for it:
//
//	--- GurtOS 0.1.0 · slot a · gurtos-x4k2 ---
//	state    ready
//	address  203.0.113.15
//	open     http://203.0.113.15
//	pair     http://203.0.113.15/#pair=12345678
//	reason   The data disk vdb (…) is full.
//	---
//
// It knows nothing of where the facts come from.
package screen

// Package power ends the machine in order: what still runs is ended, what was written is on the disks, nothing stays mounted for writing.
//
// Services have been stopped by then. Each step has a time limit: a disk that no longer answers must not keep a box from being switched off.
package power

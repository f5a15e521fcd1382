// Package box boots GurtOS in QEMU for tests and benchmarks, and drives it as
// people do: over HTTP with a paired token, by its power button and its
// console. Disks are served by package nbd, so that the power can be cut.
//
// A test reads like a script: Boot, Wait for a line, ask the API. When it
// fails, the serial log, the box's log, a picture of the screen and the data
// disk stay in a folder that the test names.
package box

// Package guard starts the goroutines of the init, whose panic is to be a screen that can be read and not the kernel's own. What the screen shows is
// not its business: On is told.
package guard

// Package console finds the terminals on which a person may be looking: every console of the kernel, the screen's first virtual terminal and the
// first serial port, whether the kernel was told of them or not. It writes to them and never waits for one longer than for the others.
package console

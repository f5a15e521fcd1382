// Package daemon starts boxd, as it is built, on this machine for a test: with a home that outlasts it, so that it can be killed and started again. It
// knows nothing of what a box does.
package daemon

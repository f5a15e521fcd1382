// Package tracks holds what the apps of the tree take over from the core, which they may not import, against the core itself.
package tracks

//go:generate go test -run AreCurrent -update .

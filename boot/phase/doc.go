// Package phase runs a named list of steps. The names are what log and screen show, so that whoever looks at a box that stands still knows
// where it stands.
package phase

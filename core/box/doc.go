// Package box owns the putting together of a box's daemon: it opens every part in
// the order in which they need one another, serves until it is told to end, and
// closes them the other way round. It decides nothing of what the parts do.
package box

// Package mutate proves that tests guard what they are said to guard. A guard is a place in the code that keeps something safe, with the test that
// must fail when it is broken. Run breaks one after another in a copy of the tree, and never touches the tree itself.
//
// Guards stand in guards.go, by area. A guard's Old text must occur exactly once in its file, so a guard that moved is noticed.
package mutate

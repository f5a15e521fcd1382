// Package supervise keeps the box's services running: each is started again when it ends, later and later while it keeps ending, and stopped in
// order at the shutdown. What a service prints goes into the ring. Each has a process group and, on a box, a control group of its own, so that
// nothing it started outlives it.
package supervise

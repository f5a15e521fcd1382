// Package triggers holds what starts tasks by itself against a whole box: real apps in
// real hosts, tasks in real sandboxes, requests over its socket. Only the clock is the
// test's own, given to the box's constructor; the shipped boxd has none but the
// machine's.
package triggers

// Package task owns tasks: their specification and its limits, their states as a
// table, the queue, and the fold of the log that says where each one stands. It
// asks a Runner for sandboxes and a Network for namespaces and knows neither's
// insides; it never writes state anywhere but in the action log.
package task

// Package broker owns the socket through which one task reaches the box: HTTP with
// JSON bodies on BOX_HOME/tasks/<id>/broker.sock and on a listener in the task's own
// file system, for that task's user alone. It reads what a worker sends, strictly and
// within limits, looks for the task's canary, runs the tools that a task may use and
// takes the vault's values out of what they return. What may be spent, asked and
// logged is decided in package task; the broker writes nothing by itself.
package broker

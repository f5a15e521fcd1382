// Package apps measures what an app's own process costs: its start, a call of it, its memory, and what the others notice of one that misbehaves. Beside
// it, in the same run, stands what an app can't do without: a Node process that speaks JSON-RPC over its standard input and output, with no sandbox.
package apps

// Package worker is what the programs that work inside a sandbox share: the
// client of the task's broker, over the Unix socket that BOX_SOCKET names. It
// knows the broker's requests and waits where the broker says to ask again; it
// holds no secret and never speaks with anything else.
package worker

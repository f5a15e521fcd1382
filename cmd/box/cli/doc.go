// Package cli owns the box command: its verbs as one table, how each reads its
// flags, and how an answer looks on a terminal. It knows the box by its API
// alone, but for `log verify`, which reads the log's file itself.
package cli

//go:generate go test -run TestDocsAreCurrent -update .

//go:build race

package actionlog

// racing says that the race detector watches, under which everything takes ten times as long.
const racing = true

//go:build race

package broker_test

// racing says that the race detector watches, under which everything takes ten times as long.
const racing = true

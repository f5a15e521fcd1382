// Package suite runs all tests of the tree and tells how they went: a line for each package while they run, what failing tests printed, why tests
// were skipped, and as the last line the count. It reads go test's own events and keeps no results but those that tests name with testing's Attr:
//
//	t.Attr("reliability", "…")   a row of docs/reliability.md, when the long forms run
//
// What isn't written in Go is run and counted with it: the types of the SDK (tsc), tests in Node, and the demo, a check of which is a test.
//
// The long forms of tests run when BOX_TEST_ALL is 1; the quick loop is go test's -short.
package suite

// Package step makes costly things once. A step has a name, the inputs that decide what comes out, and a function that makes it in a folder.
// Its result is kept under a key, the hash of its name and inputs, in a folder outside git, and is used for as long as the key is the same.
// It knows nothing of what the steps make.
//
// A store is one folder:
//
//	<key>/            a finished result; made.json in it tells the step, its inputs and how long it took
//	new-<key>-<n>/    one being made, renamed to <key> when whole; what an interrupted build left is removed by the next
//	lock/<key>        held by the process that makes <key>, so that two builds at once don't make it twice
//	log/<step>        what the tools of a step printed, of its last run
package step

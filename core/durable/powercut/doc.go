// Package powercut is a durable.FS for tests whose power can be cut: it keeps a
// real folder as the kernel would show it, knows what of that was synced, and on
// Cut leaves in the folder only what a disk could hold then. Its rules are the
// strict ones: contents are durable after a sync of the file, names after a sync
// of their folder, and nothing else is. It never runs in a shipped program.
//
//	d := powercut.New(dir)
//	d.CutAfter(7)              // the eighth change finds the power gone
//	use(d)                     // ends with powercut.ErrOff
//	d.Cut(0)                   // dir now has what was synced, and nothing else
//	open(dir, powercut.New(dir))
package powercut

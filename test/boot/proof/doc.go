// Command proof is PID 1 of the small guest by which the boot tests prove
// their power cut: it writes records to its disks, on some as a careful program
// does and on some as one that forgets fsync, until the power goes. Started
// again with proof=read it tells what is left.
//
// Disks, by their serial numbers:
//
//	raw-forgets  records written straight to the disk (O_DIRECT), never flushed
//	raw-careful  the same, with a flush after each
//	files…       XFS. Each round saves two files by the usual way of writing a
//	             new one and renaming it: careful syncs file and folder, forgets doesn't
//
// A line "round N" on the console says that all records up to N were written,
// and by the careful ones flushed.
package main

// Command lab is PID 1 of a small guest in which boot tests try what needs the
// box's kernel and no box: the proof of the power cut, and Go tests that want
// cgroup v2 or an XFS with project quotas.
//
// In the initramfs it makes a root of the disks with the serial numbers lab and
// tasks and goes on there. Then it takes commands from the console, one a line, and
// answers each with "lab: done" or "lab: failed: …":
//
//	load MODULE              a kernel module and what it stands on
//	mount KIND SERIAL DIR OPTIONS
//	umount DIR
//	machine                  the loopback, an uplink that leads nowhere, and what else a machine has
//	run FOLDER PROGRAM ARG…  a program, in a folder
//	write                    writes records until a disk fails
//	read                     tells which records are left
//	off                      switches the machine off
//
// write works on three disks, by serial number:
//
//	raw-forgets  records written straight to the disk (O_DIRECT), never flushed
//	raw-careful  the same, with a flush after each
//	files        XFS. Each round saves two files by the usual way of writing a
//	             new one and renaming it: careful syncs file and folder, forgets doesn't
//
// A line "round N" says that all records up to N were written, and by the
// careful ones flushed. read looks at the file systems of the disks files-….
package main

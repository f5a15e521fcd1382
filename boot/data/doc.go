// Package data mounts the box's data disk and says in what shape it is. A file system that the kernel refuses as damaged is repaired by xfs_repair;
// a journal that can't be replayed is never thrown away, since it may hold what the log already answered for: such a disk is shown read-only.
package data

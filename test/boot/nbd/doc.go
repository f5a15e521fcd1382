// Package nbd is a disk that tells the truth about power cuts. It serves a
// block device to QEMU over a Unix socket and keeps what was written apart
// from what was flushed, so that a test can cut the power at any moment and
// look at a disk that a real one could have been left as.
//
// Killing QEMU alone proves little: it loses the guest's page cache, and
// keeps everything that the guest ever sent to the disk. A real disk has a
// cache of its own, and may lose any of what it was sent since the last flush.
//
// The rules of a Disk:
//
//   - A write is seen by every later read, and is unflushed.
//   - A flush makes all writes before it stay. A write with FUA stays by
//     itself; it does not make others stay.
//   - Cut gives a copy of the disk as it could be after a power cut now: all
//     that must stay, and of the unflushed writes a random part, chosen by a
//     seed. A write that is kept in part is torn between 512-byte sectors,
//     never inside one. Kept writes are laid down in the order they came.
//
// Disks live in memory as tables of 4 KiB pages that copies share, so that a
// copy costs what it changes. The server speaks fixed newstyle NBD without
// structured replies and never touches the network.
package nbd

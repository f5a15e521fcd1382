// Package qemu starts virtual machines: for `make run`, for boot tests and for
// building. A Machine says what to start, a VM is one that runs: its serial
// console as a growing text, QMP for buttons, pictures and events.
//
// It knows nothing of GurtOS: images, disks and the kernel's command line come
// from the caller. No VM outlives the process that started it.
package qemu

// Package guest runs the built box in QEMU for `make run`: its disks and its data, a relay from this machine's loopback to it, pairing, and an
// end in order. It builds nothing.
package guest

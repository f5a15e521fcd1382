// Package build makes everything that GurtOS ships, in steps that are kept for as long as their inputs stay the same: programs, the two file
// systems, the initramfs, the UKI and the system disk. It runs on the building machine as root, and never starts what it built.
package build

// Package scale runs many tasks through a real boxd, ends it at any moment, and counts what they leave behind: processes, control groups, mounts,
// namespaces, descriptors, goroutines, slots, state, disk projects, bytes and files.
package scale

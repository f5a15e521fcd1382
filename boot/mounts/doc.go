// Package mounts makes what a running box stands on: the kernel's file systems, the temporary ones, the control groups and the kernel's settings.
//
// Each is a table. Something that is there already is left alone, so that a table may be gone through twice.
package mounts

// Package durable owns the file layer for whatever must survive a power cut: the
// few operations that the box's own files need, the real disk, and the atomic
// replacement of a file. It never decides what is in a file. Its sub-package
// powercut is the same layer over a disk that forgets what was not synced, for
// tests.
package durable

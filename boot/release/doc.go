// Package release says which build this is: the file of layout.Release and the words of the kernel command line.
package release

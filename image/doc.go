// Package image is the recipe of the box's two read-only file systems, as data: which Debian packages they are made of, what is taken from
// them, and what is laid beside. Package build follows it.
//
// system is what the box runs on: kernel modules, a handful of programs for disks, certificates, time zones and GurtOS's own programs. It is
// picked file by file with the libraries that the programs need, so it has no shell, no package manager and no service.
//
// tasks is what an agent sees in its sandbox: a whole small Debian with compilers, Python, Node and the usual tools, without setuid files,
// services and anything of the box's own.
package image

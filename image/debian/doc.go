// Package debian makes a root folder out of Debian packages with mmdebstrap, from the mirror that this machine's own apt uses, and tells which
// packages at which versions went in. It changes nothing on this machine, and names no mirror.
package debian

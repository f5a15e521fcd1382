// Package boxinit owns PID 1 of a sandbox: box-init.c, a small program without a
// C library (start.c has what it needs of one; gcc.args are the arguments that make
// it, from the root of all sources), and the protocol that it speaks with boxd over
// the socket at its descriptor 3.
//
// boxd sends one Program: five 32-bit counts in the machine's byte order (bytes
// of the body, filter instructions, arguments, environment entries, writable
// paths), then the body: the filter, and the strings, each ended by a zero
// byte, in that order, the working folder last. box-init answers with reports
// of two 32-bit values, a kind and a number, and ends. It never decides what is
// run or allowed.
package boxinit

// Package rules owns the hosts that a task may reach: how a rule is written,
// normalised and matched, and which addresses are nobody's business of a task's.
// It never resolves a name and never opens a connection.
//
// A rule is one of
//
//	example.com         the name, any port
//	example.com:8080    the name, that port
//	*.example.com       any name below it at any depth, not the name itself
//	192.0.2.34:443      an address, only with an exact port; [2001:db8::1]:443
//
// Case, a final dot and IDNA are normalised first, so that two spellings of one
// host always get one verdict.
package rules
